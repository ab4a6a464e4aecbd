//! A diagram in the language of Graphviz.

use std::fmt::{self, Write};

use super::{Arrow, Border, Diagram, DiagramBox};

pub(super) fn write(diagram: &Diagram) -> String {
    let mut dot = String::new();
    write_diagram(&mut dot, diagram).expect("writing to a string does not fail");
    dot
}

fn write_diagram(out: &mut String, diagram: &Diagram) -> fmt::Result {
    writeln!(out, "digraph {} {{", quoted([&diagram.title]))?;
    writeln!(out, "  rankdir=LR;")?;
    writeln!(out, "  labelloc=t;")?;
    writeln!(out, "  label={};", quoted([&diagram.title, &diagram.subtitle]))?;
    writeln!(out, "  node [fontname=\"DejaVu Sans\", penwidth=2];")?;
    writeln!(out, "  edge [fontname=\"DejaVu Sans\", fontsize=10];")?;
    for (index, part) in diagram.boxes.iter().enumerate() {
        let DiagramBox { title, lines, colour, border } = part;
        let shape = match border {
            Border::Box => "box",
            Border::Oval => "oval",
        };
        let label = quoted(std::iter::once(title).chain(lines));
        writeln!(out, "  {index} [label={label}, shape={shape}, color=\"{}\"];", colour.hex())?;
    }
    for Arrow { from, to, lines, weight } in diagram.arrows() {
        let width = 1.0 + 4.0 * weight.clamp(0.0, 1.0);
        writeln!(out, "  {from} -> {to} [label={}, penwidth={width:.1}];", quoted(lines))?;
    }
    writeln!(out, "}}")
}

/// Lines as one string of the language.
fn quoted<'a>(lines: impl IntoIterator<Item = &'a String>) -> String {
    let escaped = |line: &String| line.replace('\\', "\\\\").replace('"', "\\\"");
    let lines: Vec<_> = lines.into_iter().map(escaped).collect();
    format!("\"{}\"", lines.join("\\n").replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Colour;

    #[test]
    fn boxes_and_arrows_are_statements_and_text_stays_within_its_quotes() {
        let part = |title: &str, border| DiagramBox {
            title: title.into(),
            lines: vec!["2 queued".into()],
            colour: Colour::Blue,
            border,
        };
        let diagram = Diagram {
            title: "say \"so\"".into(),
            subtitle: "a\\b".into(),
            boxes: vec![part("clients", Border::Oval), part("a\nb", Border::Box)],
            arrows: vec![Arrow { from: 0, to: 1, lines: vec!["7".into()], weight: 0.5 }],
        };
        let expected = r##"digraph "say \"so\"" {
  rankdir=LR;
  labelloc=t;
  label="say \"so\"\na\\b";
  node [fontname="DejaVu Sans", penwidth=2];
  edge [fontname="DejaVu Sans", fontsize=10];
  0 [label="clients\n2 queued", shape=oval, color="#0072b2"];
  1 [label="a b\n2 queued", shape=box, color="#0072b2"];
  0 -> 1 [label="7", penwidth=3.0];
}
"##;
        assert_eq!(diagram.to_dot(), expected);
    }
}
