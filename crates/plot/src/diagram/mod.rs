//! Diagrams: boxes and arrows between them, laid out from left to right, as SVG or for Graphviz.

mod dot;
mod layout;
mod svg;

use crate::Colour;

/// Boxes and the arrows between them.
#[derive(Clone, Debug, Default)]
pub struct Diagram {
    /// Set large.
    pub title: String,
    /// Set below it.
    pub subtitle: String,
    /// In any order; arrows name them by their place.
    pub boxes: Vec<DiagramBox>,
    /// In any order. Several may go from one box to another, and back.
    pub arrows: Vec<Arrow>,
}

/// One box.
#[derive(Clone, Debug)]
pub struct DiagramBox {
    /// Its name, set in bold.
    pub title: String,
    /// What is known of it, a line each.
    pub lines: Vec<String>,
    /// Of its border.
    pub colour: Colour,
    /// How the border is drawn.
    pub border: Border,
}

/// How the border of a box is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// A rectangle.
    Box,
    /// An oval: for what is not a part of the whole.
    Oval,
}

/// One arrow.
#[derive(Clone, Debug)]
pub struct Arrow {
    /// The place of the box that it leaves.
    pub from: usize,
    /// The place of the box that it goes to.
    pub to: usize,
    /// Written along it, a line each.
    pub lines: Vec<String>,
    /// How much crosses it, as a share of the most that crosses one: its width.
    pub weight: f64,
}

impl Diagram {
    /// The diagram as an SVG document, the same to the byte every time. Arrows whose boxes do not
    /// exist are left out.
    pub fn to_svg(&self) -> String {
        svg::draw(self)
    }

    /// The diagram in the language of Graphviz: `dot -Tpdf`.
    pub fn to_dot(&self) -> String {
        dot::write(self)
    }

    /// The arrows between boxes that exist.
    fn arrows(&self) -> impl Iterator<Item = &Arrow> {
        let count = self.boxes.len();
        self.arrows.iter().filter(move |arrow| arrow.from < count && arrow.to < count)
    }
}
