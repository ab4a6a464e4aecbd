//! Why there is no picture of a figure.

/// Why there is no picture of a figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// What was drawn is not understood.
    #[cfg(feature = "png")]
    #[error("the plot is not valid SVG")]
    Svg(#[from] resvg::usvg::Error),
    /// It has no panel, or more of them than fit.
    #[cfg(feature = "png")]
    #[error("the plot is empty, or too large for an image")]
    Size,
    /// The picture cannot be written down.
    #[cfg(feature = "png")]
    #[error("cannot encode the plot as PNG: {0}")]
    Encoding(String),
    /// The feature `png` is off.
    #[error("PNG is not in this build: build with `--features png`, or let the name end in `.svg`")]
    LeftOut,
}
