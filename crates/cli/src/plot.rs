//! Plots of time series: stacked panels over one time axis, as SVG or PNG.
//!
//! A [`Figure`] is plain data; [`Figure::to_svg`] draws it the same way every
//! time, to the byte, and [`Figure::encode`] gives that, or its PNG rendering
//! with the fonts that are built in.

mod axis;
mod drawing;
mod raster;
mod text;

use std::path::Path;

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

/// How a figure is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Svg,
    Png,
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

    /// The figure as a file of this format.
    pub(crate) fn encode(&self, format: Format) -> anyhow::Result<Vec<u8>> {
        match format {
            Format::Svg => Ok(self.to_svg().into_bytes()),
            Format::Png => raster::png(&self.to_svg()),
        }
    }
}

impl Format {
    /// What the name of a file asks for: PNG if it ends in `.png`, else SVG.
    pub(crate) fn of(path: &Path) -> Self {
        match path.extension().is_some_and(|extension| extension == "png") {
            true => Self::Png,
            false => Self::Svg,
        }
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
