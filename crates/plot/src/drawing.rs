//! A figure as SVG.

use std::fmt::{self, Write};

use super::axis::Axis;
use super::text::{self, escape};
use super::{Across, Colour, Figure, Line, Panel, Unit};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 52.0;
const PANEL_HEIGHT: f64 = 150.0;
/// Between panels, for the title of the lower and one row of its legend.
const GAP: f64 = 46.0;
/// For each further row of a legend.
const ROW: f64 = 18.0;
/// From the left end of a line in a legend to its name.
const LEGEND_LINE: f64 = 26.0;
/// Between what stands side by side above a panel.
const LEGEND_GAP: f64 = 20.0;
const PANEL_WIDTH: f64 = WIDTH - LEFT - RIGHT;

const PAPER: &str = "#ffffff";
const INK: &str = "#1f2328";
const SOFT_INK: &str = "#59636e";
const GRID: &str = "#e7e9ec";
const SHADE: &str = "#f4efe3";
const SHADE_INK: &str = "#8a7443";
const TEXT_SIZE: f64 = 12.0;
const TITLE_SIZE: f64 = 19.0;
/// How lines are dashed whose colours are not the first of their kind: there are seven colours.
const DASHES: [&str; 5] = ["", "7 4", "2 4", "10 4 2 4", "14 4"];

pub(super) fn draw(figure: &Figure) -> String {
    let mut svg = String::new();
    write_figure(&mut svg, figure).expect("writing to a string does not fail");
    svg
}

fn write_figure(out: &mut String, figure: &Figure) -> fmt::Result {
    let mut bottom = TOP - GAP;
    let mut tops = Vec::new();
    for panel in &figure.panels {
        let further_rows = legend_rows(panel).len().saturating_sub(1);
        let top = bottom + GAP + ROW * further_rows as f64;
        tops.push(top);
        bottom = top + PANEL_HEIGHT;
    }
    let height = bottom + BOTTOM;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="{TEXT_SIZE}" fill="{INK}">"#
    )?;
    writeln!(out, r#"<title>{}</title>"#, escape(&figure.title))?;
    writeln!(out, r#"<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>"#)?;
    // A long title is smaller; as text of the usual size it is cut.
    let title_width = text::bold_width(&figure.title, TITLE_SIZE).max(PANEL_WIDTH);
    let size = (10.0 * TITLE_SIZE * PANEL_WIDTH / title_width).floor() / 10.0;
    let size = size.max(TEXT_SIZE);
    writeln!(
        out,
        r#"<text x="{LEFT}" y="32" font-size="{size}" font-weight="bold">{}</text>"#,
        escape(&text::cut_bold(&figure.title, size, PANEL_WIDTH))
    )?;
    writeln!(
        out,
        r#"<text x="{LEFT}" y="53" fill="{SOFT_INK}">{}</text>"#,
        escape(&text::cut(&figure.subtitle, TEXT_SIZE, PANEL_WIDTH))
    )?;
    let Across { label, from, to, scale } = &figure.across;
    let across = Axis::between(*scale, Unit::Count, *from, *to);
    let frame = |top| Frame { across: &across, top };
    for (index, (panel, &top)) in figure.panels.iter().zip(&tops).enumerate() {
        let frame = frame(top);
        frame.write_spans(out, figure, index == 0)?;
        frame.write_panel(out, panel)?;
    }
    frame(bottom - PANEL_HEIGHT).write_across(out, label)?;
    writeln!(out, "</svg>")
}

/// The lines of each row of a panel's legend, from top to bottom; the title stands in the first.
fn legend_rows(panel: &Panel) -> Vec<&[Line]> {
    let mut rows = Vec::new();
    let mut rest = &*panel.lines;
    let mut room = PANEL_WIDTH - text::bold_width(&panel.title, TEXT_SIZE) - LEGEND_GAP;
    while !rest.is_empty() {
        let mut end = 0.0;
        let fits = |line: &&Line| {
            let this_end = end + LEGEND_LINE + text::width(&legend_name(line), TEXT_SIZE);
            end = this_end + LEGEND_GAP;
            this_end <= room
        };
        let count = rest.iter().take_while(fits).count();
        // A long title has the first row for itself; elsewhere there is room for a name that is cut.
        let least = usize::from(!rows.is_empty());
        let (row, later) = rest.split_at(count.max(least));
        rows.push(row);
        rest = later;
        room = PANEL_WIDTH;
    }
    rows
}

fn legend_name(line: &Line) -> String {
    text::cut(&line.name, TEXT_SIZE, PANEL_WIDTH - LEGEND_LINE)
}

/// How the line of this number in its panel is dashed, as an attribute.
fn dashes(number: usize) -> String {
    match DASHES[number / Colour::ALL.len() % DASHES.len()] {
        "" => String::new(),
        dashes => format!(r#" stroke-dasharray="{dashes}""#),
    }
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
        self.write_head(out, panel)?;
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
        let mut lines = panel.lines.iter().enumerate();
        lines.try_for_each(|(number, line)| self.write_line(out, &axis, number, line))
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

    /// The title, and the names of the lines in rows, from right to left so that they end with the
    /// panel.
    fn write_head(&self, out: &mut String, panel: &Panel) -> fmt::Result {
        let rows = legend_rows(panel);
        let first_y = self.top - 11.0 - ROW * rows.len().saturating_sub(1) as f64;
        writeln!(
            out,
            r#"<text x="{LEFT}" y="{first_y:.1}" font-weight="bold">{}</text>"#,
            escape(&text::cut_bold(&panel.title, TEXT_SIZE, PANEL_WIDTH)),
        )?;
        let mut number = 0;
        for (index, row) in rows.into_iter().enumerate() {
            let y = first_y + ROW * index as f64;
            let mut right = WIDTH - RIGHT;
            number += row.len();
            for (before, line) in row.iter().rev().enumerate() {
                let name = legend_name(line);
                let left = right - text::width(&name, TEXT_SIZE);
                let (stroke, dashes) = (line.colour.hex(), dashes(number - 1 - before));
                writeln!(
                    out,
                    r#"<path d="M{:.1} {:.1}h18" stroke="{stroke}" stroke-width="3" stroke-linecap="round"{dashes}/><text x="{left:.1}" y="{y:.1}" fill="{SOFT_INK}">{}</text>"#,
                    left - LEGEND_LINE,
                    y - 4.0,
                    escape(&name),
                )?;
                right = left - LEGEND_LINE - LEGEND_GAP;
            }
        }
        Ok(())
    }

    fn write_line(&self, out: &mut String, axis: &Axis, number: usize, line: &Line) -> fmt::Result {
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
            r#"<path d="{path}" fill="none" stroke="{}" stroke-width="2" stroke-linejoin="round" stroke-linecap="round"{}/>"#,
            line.colour.hex(),
            dashes(number),
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
    use crate::{Level, Scale, Span};

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

    /// The numbers that stand between `before` and `after`.
    fn numbers(svg: &str, before: &str, after: &str) -> Vec<f64> {
        let ends = svg.split(before).skip(1).filter_map(|rest| rest.split_once(after));
        ends.filter_map(|(number, _)| number.parse().ok()).collect()
    }

    #[test]
    fn a_legend_of_many_lines_stays_within_the_picture() {
        let mut figure = figure(vec![]);
        let line = |number: usize| Line {
            name: format!("predict-gate-trim gold {number}"),
            colour: Colour::ALL[number % 7],
            points: vec![],
        };
        figure.panels[0].lines = (0..30).map(line).collect();
        figure.panels[0].lines[20].name = "long ".repeat(100);
        figure.panels.push(figure.panels[0].clone());
        let svg = draw(&figure);
        let lines = numbers(&svg, r#"<path d="M"#, r#" "#);
        assert!(lines.iter().all(|x| (LEFT..=WIDTH - RIGHT).contains(x)), "{lines:?}");
        let names = numbers(&svg, r#"round"/><text x=""#, r#"" y"#);
        // The first seven of each panel, whose lines are not dashed.
        assert_eq!(names.len(), 14, "{svg}");
        assert!(names.iter().all(|x| (LEFT..=WIDTH - RIGHT).contains(x)), "{names:?}");
        assert_eq!(svg.matches(r#"stroke-dasharray="7 4""#).count(), 2 * 2 * 7);
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        // Rows of a legend are one below the other, and the panel is below all of them.
        let rows = legend_rows(&figure.panels[0]);
        assert_eq!(rows.iter().map(|row| row.len()).sum::<usize>(), 30);
        let top = 92.0 + 18.0 * (rows.len() - 1) as f64;
        let shade = format!(r#"<rect x="248.8" y="{top:.1}""#);
        assert!(svg.contains(&shade), "{shade} in {svg}");
    }

    #[test]
    fn a_short_legend_stands_beside_the_title() {
        let figure = figure(vec![]);
        assert_eq!(legend_rows(&figure.panels[0]).len(), 1);
        let title = Panel { title: "Title ".repeat(100), ..figure.panels[0].clone() };
        let rows: Vec<_> = legend_rows(&title).iter().map(|row| row.len()).collect();
        assert_eq!(rows, [0, 1]);
    }

    #[test]
    fn a_long_title_is_smaller_and_a_very_long_one_is_cut() {
        let size = |title: &str| {
            let figure = Figure { title: title.into(), ..figure(vec![]) };
            let svg = draw(&figure);
            let (_, shown) = svg.split_once(r#"y="32" font-size=""#).unwrap();
            let (size, shown) = shown.split_once(r#"" font-weight="bold">"#).unwrap();
            let (shown, _) = shown.split_once('<').unwrap();
            let size: f64 = size.parse().unwrap();
            assert!(text::bold_width(shown, size) <= PANEL_WIDTH, "{shown}");
            (size, shown.len())
        };
        assert_eq!(size("short"), (19.0, 5));
        let (smaller, whole) = size(&"word ".repeat(20));
        assert!(smaller > 12.0 && smaller < 19.0 && whole == 100, "{smaller} {whole}");
        let (least, cut) = size(&"word ".repeat(100));
        assert!(least == 12.0 && cut < 500, "{least} {cut}");
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
