//! A figure of a paper as data: panels of curves over one axis.

#![allow(dead_code, reason = "shared by a test and an example")]

use tamarisk_plot::{Across, Colour, Figure, Level, Line, Panel, Scale, Unit};

/// One figure.
pub(crate) struct Chart {
    /// The file's name: the paper's key and the figure's number there, as `welsh02-55`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What is to the right, and where it begins and ends.
    pub(crate) x: &'static str,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) panels: Vec<Curves>,
}

/// One panel.
pub(crate) struct Curves {
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    pub(crate) scale: Scale,
    pub(crate) curves: Vec<Curve>,
    /// A value marked across it, and its name.
    pub(crate) level: Option<(f64, &'static str)>,
}

/// One curve; where there is no value it is interrupted.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, Option<f64>)>,
}

impl Chart {
    /// The curve of this name in the panel at this place.
    pub(crate) fn curve(&self, panel: usize, name: &str) -> &Curve {
        let curves = &self.panels[panel].curves;
        let found = curves.iter().find(|curve| curve.name == name);
        found.unwrap_or_else(|| panic!("{} has no curve {name:?}", self.name))
    }

    fn subtitle(&self) -> String {
        let (paper, number) = self.name.split_once('-').expect("a paper and a figure");
        let paper = match paper {
            "welsh02" => "Welsh 2002",
            _ => "Zhou and Yang 2006",
        };
        // What is lost and the response time are one figure each there.
        match self.name {
            "sert06-11" => format!("Figures 11 and 12 of {paper}, simulated."),
            "sert06-13" => format!("Figures 13 and 14 of {paper}, simulated."),
            _ => format!("Figure {number} of {paper}, simulated."),
        }
    }

    pub(crate) fn drawn(&self) -> Figure {
        let across = Across {
            label: self.x.to_owned(),
            from: self.from,
            to: self.to,
            scale: if self.from > 0.0 && self.to > 50.0 * self.from {
                Scale::Log
            } else {
                Scale::Linear
            },
        };
        Figure {
            title: self.title.to_owned(),
            subtitle: self.subtitle(),
            across,
            spans: vec![],
            panels: self.panels.iter().map(Curves::drawn).collect(),
        }
    }
}

impl Curves {
    pub(crate) fn new(title: &'static str, unit: Unit, curves: Vec<Curve>) -> Self {
        Self { title, unit, scale: Scale::Linear, curves, level: None }
    }

    /// Over decades.
    pub(crate) fn log(self) -> Self {
        Self { scale: Scale::Log, ..self }
    }

    pub(crate) fn level(self, value: f64, name: &'static str) -> Self {
        Self { level: Some((value, name)), ..self }
    }

    fn drawn(&self) -> Panel {
        let line = |(curve, colour): (&Curve, Colour)| Line {
            name: curve.name.clone(),
            colour,
            points: curve.points.clone(),
        };
        let level = |(value, name): (f64, &str)| Level { value, label: name.to_owned() };
        Panel {
            title: self.title.to_owned(),
            unit: self.unit,
            scale: self.scale,
            lines: self.curves.iter().zip(Colour::ALL).map(line).collect(),
            levels: self.level.map(level).into_iter().collect(),
        }
    }
}

impl Curve {
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, Option<f64>)>) -> Self {
        Self { name: name.into(), points }
    }

    /// The value at the point nearest to `x`.
    pub(crate) fn at(&self, x: f64) -> f64 {
        let distance = |point: &&(f64, Option<f64>)| (point.0 - x).abs();
        let known = self.points.iter().filter(|(_, y)| y.is_some());
        let nearest = known.min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.and_then(|(_, y)| *y).unwrap_or_else(|| panic!("{} has no value", self.name))
    }

    /// The greatest value between two points of the axis.
    pub(crate) fn greatest(&self, from: f64, until: f64) -> f64 {
        self.between(from, until).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The greatest of what `of` makes of the values between two points of the axis.
    pub(crate) fn greatest_of(&self, from: f64, until: f64, of: impl Fn(f64) -> f64) -> f64 {
        self.between(from, until).map(of).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The mean of the values between two points of the axis.
    pub(crate) fn mean(&self, from: f64, until: f64) -> f64 {
        let (count, sum) =
            self.between(from, until).fold((0.0, 0.0), |(n, sum), y| (n + 1.0, sum + y));
        sum / count
    }

    fn between(&self, from: f64, until: f64) -> impl Iterator<Item = f64> {
        let inside = move |&&(x, _): &&(f64, Option<f64>)| x >= from && x < until;
        self.points.iter().filter(inside).filter_map(|(_, y)| *y)
    }
}
