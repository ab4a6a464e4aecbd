//! A diagram as SVG.

use std::fmt::{self, Write};

use super::layout::{
    LABEL_SIZE, LINE_HEIGHT, LINE_SIZE, Layout, Placed, TITLE_HEIGHT, TITLE_SIZE, lay_out,
};
use super::{Arrow, Border, Diagram, DiagramBox};
use crate::text::{self, escape};

const MARGIN: f64 = 32.0;
const TOP: f64 = 84.0;
const PAPER: &str = "#ffffff";
const INK: &str = "#1f2328";
const SOFT_INK: &str = "#59636e";
/// Room above a box for an arrow that leads back to it.
const LOOP_HEIGHT: f64 = 26.0;

pub(super) fn draw(diagram: &Diagram) -> String {
    let mut svg = String::new();
    write_diagram(&mut svg, diagram).expect("writing to a string does not fail");
    svg
}

fn write_diagram(out: &mut String, diagram: &Diagram) -> fmt::Result {
    let layout = lay_out(diagram);
    let titles = [(&diagram.title, 19.0 * 1.08), (&diagram.subtitle, 12.0)];
    let titles = titles.map(|(line, size)| text::width(line, size));
    let width = titles.into_iter().fold(layout.width, f64::max) + 2.0 * MARGIN;
    let height = layout.height + TOP + MARGIN;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" fill="{INK}">"#
    )?;
    writeln!(out, "<title>{}</title>", escape(&diagram.title))?;
    writeln!(out, r#"<rect width="100%" height="100%" fill="{PAPER}"/>"#)?;
    writeln!(
        out,
        r#"<text x="{MARGIN}" y="32" font-size="19" font-weight="bold">{}</text>"#,
        escape(&diagram.title)
    )?;
    writeln!(
        out,
        r#"<text x="{MARGIN}" y="53" fill="{SOFT_INK}">{}</text>"#,
        escape(&diagram.subtitle)
    )?;
    writeln!(out, r#"<g transform="translate({MARGIN} {TOP})">"#)?;
    // Labels last, so that no line crosses them.
    let mut labels = String::new();
    let arrows = diagram.arrows().zip(&layout.ways).zip(ports(diagram, &layout));
    for ((arrow, way), ports) in arrows {
        write_arrow(out, &mut labels, &layout, arrow, way, ports)?;
    }
    for (part, placed) in diagram.boxes.iter().zip(&layout.boxes) {
        write_box(out, part, placed)?;
    }
    write!(out, "{labels}</g>\n</svg>\n")
}

fn write_box(out: &mut String, part: &DiagramBox, placed: &Placed) -> fmt::Result {
    let Placed { x, y, width, height } = *placed;
    let radius = match part.border {
        Border::Box => 5.0,
        Border::Oval => height / 2.0,
    };
    let colour = part.colour.hex();
    writeln!(
        out,
        r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="{radius:.1}" fill="{PAPER}" stroke="{colour}" stroke-width="2"/>"#
    )?;
    let middle = x + width / 2.0;
    let mut baseline = y + TITLE_HEIGHT - 1.0;
    writeln!(
        out,
        r#"<text x="{middle:.1}" y="{baseline:.1}" text-anchor="middle" font-size="{TITLE_SIZE}" font-weight="bold">{}</text>"#,
        escape(&part.title)
    )?;
    for line in &part.lines {
        baseline += LINE_HEIGHT;
        writeln!(
            out,
            r#"<text x="{middle:.1}" y="{baseline:.1}" text-anchor="middle" font-size="{LINE_SIZE}" fill="{SOFT_INK}">{}</text>"#,
            escape(line)
        )?;
    }
    Ok(())
}

/// A curve through the points of the way, with a head at its end and its label at its beginning.
fn write_arrow(
    out: &mut String,
    labels: &mut String,
    layout: &Layout,
    arrow: &Arrow,
    way: &[(f64, f64)],
    ports: (f64, f64),
) -> fmt::Result {
    let width = 1.0 + 4.0 * arrow.weight.clamp(0.0, 1.0);
    let (from, to) = (&layout.boxes[arrow.from], &layout.boxes[arrow.to]);
    let (path, (label_x, label_y), end) = if way.is_empty() {
        let (x, y) = (from.x + from.width / 2.0, from.y);
        let up = y - LOOP_HEIGHT;
        let path = format!(
            "M{:.1} {y:.1}C{:.1} {up:.1} {:.1} {up:.1} {:.1} {:.1}",
            x - 16.0,
            x - 26.0,
            x + 26.0,
            x + 16.0,
            y - 7.0
        );
        (path, (x, up - 2.0), Head { x: x + 16.0, y, direction: Direction::Down })
    } else {
        curve(from, to, way, ports)
    };
    let (x, y) = (end.x, end.y);
    let head = match end.direction {
        Direction::Right => format!("M{x:.1} {y:.1}l-9 -5v10z"),
        Direction::Left => format!("M{x:.1} {y:.1}l9 -5v10z"),
        Direction::Down => format!("M{x:.1} {y:.1}l-5 -9h10z"),
    };
    writeln!(
        out,
        r#"<path d="{path}" fill="none" stroke="{SOFT_INK}" stroke-width="{width:.1}"/><path d="{head}" fill="{SOFT_INK}"/>"#
    )?;
    let lines = arrow.lines.len() as f64;
    for (index, line) in arrow.lines.iter().enumerate() {
        let y = label_y - 6.0 - (lines - 1.0 - index as f64) * 13.0;
        writeln!(
            labels,
            r#"<text x="{label_x:.1}" y="{y:.1}" text-anchor="middle" font-size="{LABEL_SIZE}" stroke="{PAPER}" stroke-width="4" paint-order="stroke" stroke-linejoin="round">{}</text>"#,
            escape(line)
        )?;
    }
    Ok(())
}

/// Where an arrow ends, and which way it points there.
struct Head {
    x: f64,
    y: f64,
    direction: Direction,
}

enum Direction {
    Right,
    Left,
    Down,
}

/// For each arrow, the heights at which it leaves its first box and meets its last: those of one side
/// are spread over it, in the order of where the arrows go.
fn ports(diagram: &Diagram, layout: &Layout) -> Vec<(f64, f64)> {
    let right = |arrow: &Arrow| leads_right(&layout.boxes[arrow.from], &layout.boxes[arrow.to]);
    let mut ends = Vec::new();
    for (index, (arrow, way)) in diagram.arrows().zip(&layout.ways).enumerate() {
        if let [_, second, ..] = way[..] {
            let before = way[way.len() - 2];
            ends.push(End { index, at: arrow.from, right: right(arrow), towards: second.1 });
            ends.push(End { index, at: arrow.to, right: !right(arrow), towards: before.1 });
        }
    }
    let height = |index: usize, at: usize, right: bool| {
        let mut side: Vec<&End> =
            ends.iter().filter(|end| (end.at, end.right) == (at, right)).collect();
        side.sort_by(|a, b| a.towards.total_cmp(&b.towards));
        let place = side.iter().position(|end| end.index == index).unwrap_or(0);
        let Placed { y, height, .. } = layout.boxes[at];
        y + height * (place + 1) as f64 / (side.len() + 1) as f64
    };
    let both = diagram.arrows().enumerate().map(|(index, arrow)| {
        (height(index, arrow.from, right(arrow)), height(index, arrow.to, !right(arrow)))
    });
    both.collect()
}

/// Where an arrow meets the side of a box, and how high it is at the next point of its way.
struct End {
    index: usize,
    at: usize,
    right: bool,
    towards: f64,
}

fn leads_right(from: &Placed, to: &Placed) -> bool {
    from.x <= to.x
}

/// The path, the place of the label, and the head.
fn curve(
    from: &Placed,
    to: &Placed,
    way: &[(f64, f64)],
    ports: (f64, f64),
) -> (String, (f64, f64), Head) {
    const HEAD: f64 = 7.0;
    let side = |placed: &Placed, right: bool| placed.x + if right { placed.width } else { 0.0 };
    let (last, rightward) = (way.len() - 1, leads_right(from, to));
    let start = (side(from, rightward), ports.0);
    let tip = (side(to, !rightward), ports.1);
    let end = (if rightward { tip.0 - HEAD } else { tip.0 + HEAD }, tip.1);
    let mut points = vec![start];
    points.extend(&way[1..last]);
    points.push(end);

    let mut path = format!("M{:.1} {:.1}", start.0, start.1);
    for pair in points.windows(2) {
        let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
        let half = f64::midpoint(x1, x2);
        let _ = write!(path, "C{half:.1} {y1:.1} {half:.1} {y2:.1} {x2:.1} {y2:.1}");
    }
    let direction = if rightward { Direction::Right } else { Direction::Left };
    let label = (f64::midpoint(points[0].0, points[1].0), f64::midpoint(points[0].1, points[1].1));
    (path, label, Head { x: tip.0, y: tip.1, direction })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Colour;

    fn part(title: &str, border: Border) -> DiagramBox {
        let lines = vec!["12 queued".into()];
        DiagramBox { title: title.into(), lines, colour: Colour::Green, border }
    }

    fn arrow(from: usize, to: usize, line: &str) -> Arrow {
        Arrow { from, to, lines: vec![line.into()], weight: 1.0 }
    }

    #[test]
    fn every_box_and_arrow_is_drawn_and_text_cannot_break_the_document() {
        let diagram = Diagram {
            title: "a <b> & c".into(),
            subtitle: String::new(),
            boxes: vec![part("clients", Border::Oval), part("x<y", Border::Box)],
            arrows: vec![arrow(0, 1, "7 > 6"), arrow(1, 1, "again"), arrow(1, 9, "nowhere")],
        };
        let svg = diagram.to_svg();
        assert_eq!((svg.matches("<rect x=").count(), svg.matches("<path").count()), (2, 4));
        for shown in ["a &lt;b&gt; &amp; c", "x&lt;y", "7 &gt; 6", "again", "12 queued"] {
            assert!(svg.contains(shown), "{svg}");
        }
        assert!(!svg.contains("nowhere"));
        assert_eq!(svg, diagram.to_svg());
    }

    #[test]
    fn an_empty_diagram_is_a_document() {
        assert!(Diagram::default().to_svg().ends_with("</g>\n</svg>\n"));
    }
}
