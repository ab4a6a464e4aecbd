//! Plots: stacked panels over one common axis, as SVG or PNG; diagrams of boxes and arrows, as SVG
//! or for Graphviz; and numbers as people read them ([`mod@format`]).
//!
//! A [`Figure`] is plain data; [`Figure::to_svg`] draws it the same way every
//! time, to the byte, and [`Figure::encode`] gives that, or its PNG rendering
//! with the fonts that are built in (feature `png`).

mod axis;
mod diagram;
mod drawing;
pub mod format;
mod png_error;
#[cfg(feature = "png")]
mod raster;
mod text;

use std::path::Path;

pub use axis::{Scale, Unit};
pub use diagram::{Arrow, Border, Diagram, DiagramBox};
pub use png_error::PngError;

/// What is drawn: panels above one another that share the axis across.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Set large.
    pub title: String,
    /// Set below it.
    pub subtitle: String,
    /// The axis that all panels share.
    pub across: Across,
    /// Shaded intervals of it.
    pub spans: Vec<Span>,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// The common axis, from left to right.
#[derive(Clone, Debug)]
pub struct Across {
    /// What it counts, such as `seconds`.
    pub label: String,
    /// The value at its left end; above zero if the scale is logarithmic.
    pub from: f64,
    /// The value at its right end.
    pub to: f64,
    /// How values are spread over it.
    pub scale: Scale,
}

/// An interval of the common axis, to be shaded in all panels.
#[derive(Clone, Debug)]
pub struct Span {
    /// Its left end.
    pub from: f64,
    /// Its right end.
    pub to: f64,
    /// Written over it in the first panel.
    pub label: String,
}

/// Lines with a common value axis.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Written above it.
    pub title: String,
    /// How values are written.
    pub unit: Unit,
    /// How values are spread over the axis.
    pub scale: Scale,
    /// In the order of the legend.
    pub lines: Vec<Line>,
    /// Values marked across it.
    pub levels: Vec<Level>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// For the legend.
    pub name: String,
    /// The line's colour.
    pub colour: Colour,
    /// Where on the common axis, and the value; `None` where there is none, which
    /// interrupts the line.
    pub points: Vec<(f64, Option<f64>)>,
}

/// A value marked across a panel, such as a target.
#[derive(Clone, Debug)]
pub struct Level {
    /// The value.
    pub value: f64,
    /// Written beside it.
    pub label: String,
}

/// How a figure is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines, to any size.
    Svg,
    /// Pixels, two for each unit of the SVG.
    Png,
}

/// Colours that people with any colour vision can tell apart [Okabe and Ito, 2008].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "a colour's name says it")]
pub enum Colour {
    Blue,
    Vermilion,
    Green,
    Purple,
    Grey,
    Orange,
    Sky,
}

impl Across {
    /// Time from zero, in seconds.
    pub fn seconds(to: f64) -> Self {
        Self { label: "seconds".to_owned(), from: 0.0, to, scale: Scale::Linear }
    }
}

impl Figure {
    /// The figure as an SVG document.
    pub fn to_svg(&self) -> String {
        drawing::draw(self)
    }

    /// The figure as a file of this format.
    ///
    /// # Errors
    /// [`PngError`] if there is no picture of it, as when it has no size, or without the feature.
    pub fn encode(&self, format: Format) -> Result<Vec<u8>, PngError> {
        match format {
            Format::Svg => Ok(self.to_svg().into_bytes()),
            #[cfg(feature = "png")]
            Format::Png => raster::png(&self.to_svg()),
            #[cfg(not(feature = "png"))]
            Format::Png => Err(PngError::LeftOut),
        }
    }
}

impl Format {
    /// What the name of a file asks for: PNG if it ends in `.png`, in whatever case, else SVG.
    pub fn of(path: &Path) -> Self {
        match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png")) {
            true => Self::Png,
            false => Self::Svg,
        }
    }
}

impl Colour {
    /// All of them, for lines that have no meaning of their own: in the order in
    /// which neighbours differ most.
    pub const ALL: [Self; 7] = [
        Self::Blue,
        Self::Vermilion,
        Self::Green,
        Self::Purple,
        Self::Orange,
        Self::Sky,
        Self::Grey,
    ];

    fn hex(self) -> &'static str {
        match self {
            Self::Blue => "#0072b2",
            Self::Vermilion => "#d55e00",
            Self::Green => "#009e73",
            Self::Purple => "#a3488c",
            Self::Grey => "#8a8f98",
            Self::Orange => "#e69f00",
            Self::Sky => "#56b4e9",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_name_in_any_case_says_the_format() {
        let check = |name: &str, expected| assert_eq!(Format::of(Path::new(name)), expected);
        check("run.png", Format::Png);
        check("run.PNG", Format::Png);
        check("run.svg", Format::Svg);
        check("run.SVG", Format::Svg);
        check("png", Format::Svg);
    }
}
