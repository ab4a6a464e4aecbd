//! A figure as SVG.

use std::fmt::{self, Write};

use super::axis::Axis;
use super::text::{self, escape};
use super::{Across, Figure, Line, Panel, Unit};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 52.0;
const PANEL_HEIGHT: f64 = 150.0;
/// Between panels, for the title and the legend of the lower.
const GAP: f64 = 46.0;

const PAPER: &str = "#ffffff";
const INK: &str = "#1f2328";
const SOFT_INK: &str = "#59636e";
const GRID: &str = "#e7e9ec";
const SHADE: &str = "#f4efe3";
const SHADE_INK: &str = "#8a7443";
const TEXT_SIZE: f64 = 12.0;

pub(super) fn draw(figure: &Figure) -> String {
    let mut svg = String::new();
    write_figure(&mut svg, figure).expect("writing to a string does not fail");
    svg
}

fn write_figure(out: &mut String, figure: &Figure) -> fmt::Result {
    let panels = figure.panels.len() as f64;
    let height = TOP + panels * PANEL_HEIGHT + (panels - 1.0) * GAP + BOTTOM;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="{TEXT_SIZE}" fill="{INK}">"#
    )?;
    writeln!(out, r#"<title>{}</title>"#, escape(&figure.title))?;
    writeln!(out, r#"<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>"#)?;
    writeln!(
        out,
        r#"<text x="{LEFT}" y="32" font-size="19" font-weight="bold">{}</text>"#,
        escape(&figure.title)
    )?;
    writeln!(
        out,
        r#"<text x="{LEFT}" y="53" fill="{SOFT_INK}">{}</text>"#,
        escape(&figure.subtitle)
    )?;
    let Across { label, from, to, scale } = &figure.across;
    let across = Axis::between(*scale, Unit::Count, *from, *to);
    let frame = |top| Frame { across: &across, top };
    for (index, panel) in figure.panels.iter().enumerate() {
        let frame = frame(TOP + index as f64 * (PANEL_HEIGHT + GAP));
        frame.write_spans(out, figure, index == 0)?;
        frame.write_panel(out, panel)?;
    }
    frame(height - BOTTOM - PANEL_HEIGHT).write_across(out, label)?;
    writeln!(out, "</svg>")
}

/// Where the points of one panel come to lie.
#[derive(Clone, Copy)]
struct Frame<'a> {
    across: &'a Axis,
    top: f64,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * self.across.position(value)
    }

    fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom() - PANEL_HEIGHT * axis.position(value)
    }

    fn bottom(&self) -> f64 {
        self.top + PANEL_HEIGHT
    }

    fn write_spans(&self, out: &mut String, figure: &Figure, labelled: bool) -> fmt::Result {
        for span in &figure.spans {
            let (from, to) = (self.x(span.from), self.x(span.to));
            writeln!(
                out,
                r#"<rect x="{from:.1}" y="{:.1}" width="{:.1}" height="{PANEL_HEIGHT}" fill="{SHADE}"/>"#,
                self.top,
                to - from,
            )?;
            if labelled {
                writeln!(
                    out,
                    r#"<text x="{:.1}" y="{:.1}" text-anchor="middle" font-size="11" fill="{SHADE_INK}">{}</text>"#,
                    (from + to) / 2.0,
                    self.top + 15.0,
                    escape(&span.label),
                )?;
            }
        }
        Ok(())
    }

    fn write_panel(&self, out: &mut String, panel: &Panel) -> fmt::Result {
        let points = panel.lines.iter().flat_map(|line| &line.points);
        let values = points.filter_map(|(_, value)| *value);
        let levels = panel.levels.iter().map(|level| level.value);
        let axis = Axis::new(panel.scale, panel.unit, values.chain(levels));

        self.write_grid(out, &axis)?;
        writeln!(
            out,
            r#"<text x="{LEFT}" y="{:.1}" font-weight="bold">{}</text>"#,
            self.top - 11.0,
            escape(&panel.title),
        )?;
        self.write_legend(out, &panel.lines)?;
        for level in &panel.levels {
            let y = self.y(&axis, level.value);
            writeln!(
                out,
                r#"<path d="M{LEFT} {y:.1}H{:.1}" stroke="{INK}" stroke-width="1" stroke-dasharray="2 4"/>"#,
                WIDTH - RIGHT,
            )?;
            writeln!(
                out,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end" font-size="11" fill="{INK}" stroke="{PAPER}" stroke-width="3" paint-order="stroke">{}</text>"#,
                WIDTH - RIGHT - 6.0,
                y - 6.0,
                escape(&level.label),
            )?;
        }
        panel.lines.iter().try_for_each(|line| self.write_line(out, &axis, line))
    }

    fn write_grid(&self, out: &mut String, axis: &Axis) -> fmt::Result {
        for &tick in &axis.ticks {
            let y = self.y(axis, tick);
            let colour = if tick == axis.ticks[0] { SOFT_INK } else { GRID };
            writeln!(
                out,
                r#"<path d="M{LEFT} {y:.1}H{:.1}" stroke="{colour}" stroke-width="1"/>"#,
                WIDTH - RIGHT
            )?;
            writeln!(
                out,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end" fill="{SOFT_INK}">{}</text>"#,
                LEFT - 9.0,
                y + 4.0,
                escape(&axis.label(tick)),
            )?;
        }
        Ok(())
    }

    /// The names of the lines, from right to left so that they end with the panel.
    fn write_legend(&self, out: &mut String, lines: &[Line]) -> fmt::Result {
        let mut right = WIDTH - RIGHT;
        for line in lines.iter().rev() {
            let y = self.top - 11.0;
            let left = right - text::width(&line.name, TEXT_SIZE);
            let stroke = line.colour.hex();
            writeln!(
                out,
                r#"<path d="M{:.1} {:.1}h18" stroke="{stroke}" stroke-width="3" stroke-linecap="round"/><text x="{left:.1}" y="{y:.1}" fill="{SOFT_INK}">{}</text>"#,
                left - 26.0,
                y - 4.0,
                escape(&line.name),
            )?;
            right = left - 26.0 - 20.0;
        }
        Ok(())
    }

    fn write_line(&self, out: &mut String, axis: &Axis, line: &Line) -> fmt::Result {
        let mut path = String::new();
        let mut pen_is_down = false;
        for &(at, value) in &line.points {
            let value = value.filter(|value| value.is_finite());
            if let Some(value) = value {
                let command = if pen_is_down { 'L' } else { 'M' };
                write!(path, "{command}{:.1} {:.1}", self.x(at), self.y(axis, value))?;
                if !pen_is_down {
                    // A lone point is seen as a dot, thanks to its round cap.
                    path.push_str("h0");
                }
            }
            pen_is_down = value.is_some();
        }
        writeln!(
            out,
            r#"<path d="{path}" fill="none" stroke="{}" stroke-width="2" stroke-linejoin="round" stroke-linecap="round"/>"#,
            line.colour.hex(),
        )
    }

    fn write_across(&self, out: &mut String, label: &str) -> fmt::Result {
        let y = self.bottom();
        for &tick in &self.across.ticks {
            let x = self.x(tick);
            writeln!(
                out,
                r#"<path d="M{x:.1} {y:.1}v5" stroke="{SOFT_INK}" stroke-width="1"/><text x="{x:.1}" y="{:.1}" text-anchor="middle" fill="{SOFT_INK}">{}</text>"#,
                y + 20.0,
                escape(&self.across.label(tick)),
            )?;
        }
        writeln!(
            out,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="end" fill="{SOFT_INK}">{}</text>"#,
            WIDTH - RIGHT,
            y + 40.0,
            escape(label),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Colour, Level, Scale, Span};

    fn figure(points: Vec<(f64, Option<f64>)>) -> Figure {
        Figure {
            title: "a < b & c".into(),
            subtitle: String::new(),
            across: Across::seconds(10.0),
            spans: vec![Span { from: 2.0, to: 4.0, label: "crowd".into() }],
            panels: vec![Panel {
                title: "Rate".into(),
                unit: Unit::Count,
                scale: Scale::Linear,
                lines: vec![Line { name: "answers".into(), colour: Colour::Blue, points }],
                levels: vec![Level { value: 100.0, label: "capacity".into() }],
            }],
        }
    }

    /// The plotting area is 854 wide from 78, and 150 high down to 242.
    #[test]
    fn points_lie_where_time_and_value_say_and_gaps_lift_the_pen() {
        let points = vec![(0.0, Some(0.0)), (5.0, Some(50.0)), (6.0, None), (10.0, Some(100.0))];
        let svg = draw(&figure(points));
        assert!(svg.contains(r#"d="M78.0 242.0h0L505.0 167.0M932.0 92.0h0""#), "{svg}");
        assert!(svg.contains(r#"<rect x="248.8" y="92.0" width="170.8" height="150""#), "{svg}");
    }

    #[test]
    fn text_cannot_break_the_document() {
        let svg = draw(&figure(vec![]));
        assert!(svg.contains("a &lt; b &amp; c"), "{svg}");
    }

    #[test]
    fn values_that_are_no_numbers_are_left_out() {
        let svg = draw(&figure(vec![(f64::NAN, None), (1.0, Some(f64::INFINITY))]));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
