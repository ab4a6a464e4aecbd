//! Plots of time series: stacked panels over one time axis, as SVG or PNG.
//!
//! A [`Figure`] is plain data; [`Figure::to_svg`] draws it the same way every
//! time, to the byte, and [`Figure::save`] writes that, or its PNG rendering
//! with the fonts that are built in.

mod axis;
mod drawing;
mod raster;
mod text;

use std::path::Path;

use anyhow::Context;

pub(crate) use self::axis::{Scale, Unit};

/// What is drawn: panels above one another that share the time axis.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// The time axis ends here, in seconds; it begins at zero.
    pub(crate) seconds: f64,
    /// Shaded intervals of time.
    pub(crate) spans: Vec<Span>,
    pub(crate) panels: Vec<Panel>,
}

/// An interval of time to be shaded in all panels, in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Written over it in the first panel.
    pub(crate) label: String,
}

/// Lines over time with a common value axis.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) scale: Scale,
    pub(crate) lines: Vec<Line>,
    pub(crate) levels: Vec<Level>,
}

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) colour: Colour,
    /// Time in seconds, and the value; `None` where there is none, which
    /// interrupts the line.
    pub(crate) points: Vec<(f64, Option<f64>)>,
}

/// A value marked across a panel, such as a target.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// Colours that people with any colour vision can tell apart [Okabe and Ito, 2008].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Blue,
    Vermilion,
    Green,
    Purple,
    Grey,
}

impl Figure {
    /// The figure as an SVG document.
    pub(crate) fn to_svg(&self) -> String {
        drawing::draw(self)
    }

    /// Writes the figure to `path`, as PNG if it ends in `.png`, else as SVG.
    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        let svg = self.to_svg();
        let bytes = match path.extension().is_some_and(|extension| extension == "png") {
            true => raster::png(&svg)?,
            false => svg.into_bytes(),
        };
        std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Colour {
    fn hex(self) -> &'static str {
        match self {
            Self::Blue => "#0072b2",
            Self::Vermilion => "#d55e00",
            Self::Green => "#009e73",
            Self::Purple => "#a3488c",
            Self::Grey => "#8a8f98",
        }
    }
}
