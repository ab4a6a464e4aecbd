//! SVG to PNG, with fonts of our own, so that every machine makes the same picture.

use resvg::{tiny_skia, usvg};

use crate::png_error::PngError;

/// Licence and origin: `font/LICENSE`.
const FONTS: [&[u8]; 2] = [
    include_bytes!("font/DejaVuSans.subset.ttf"),
    include_bytes!("font/DejaVuSans-Bold.subset.ttf"),
];

/// Pixels for each unit of the SVG: sharp on screens of high density.
const PIXELS_PER_UNIT: f32 = 2.0;

/// The picture that `svg` describes.
pub(super) fn png(svg: &str) -> Result<Vec<u8>, PngError> {
    let mut options = usvg::Options::default();
    for font in FONTS {
        options.fontdb_mut().load_font_data(font.to_vec());
    }
    let tree = usvg::Tree::from_str(svg, &options)?;
    let size = tree.size().to_int_size().scale_by(PIXELS_PER_UNIT).ok_or(PngError::Size)?;
    let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).ok_or(PngError::Size)?;
    let scale = tiny_skia::Transform::from_scale(PIXELS_PER_UNIT, PIXELS_PER_UNIT);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Encoding(error.to_string()))
}
