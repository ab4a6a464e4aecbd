//! Text: its width, and how it stands in a document.

/// The width of `text` in the plots' font at `size`, to a few percent: enough to
/// set one label beside another without reading the font.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

/// So many times as wide is bold text.
const BOLD: f64 = 1.08;

/// The width of `text` in bold.
pub(crate) fn bold_width(text: &str, size: f64) -> f64 {
    BOLD * width(text, size)
}

/// As much of `text` as is not wider than `most`; an ellipsis says that there is more.
pub(crate) fn cut(text: &str, size: f64, most: f64) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let mut left = most - width("…", size);
    let fits = |character: &char| {
        left -= advance(*character) * size;
        left >= 0.0
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// The same of bold text.
pub(crate) fn cut_bold(text: &str, size: f64, most: f64) -> String {
    cut(text, BOLD * size, most)
}

/// Text as it stands in SVG.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The advance of a character of DejaVu Sans, in ems, by the class it belongs to.
fn advance(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | '\'' | '|' => 0.28,
        ' ' | ',' | '.' | ':' | ';' | '·' | '/' | 'I' => 0.33,
        'f' | 't' | 'r' | '(' | ')' | '-' => 0.40,
        'm' | 'w' | 'M' | 'W' | '%' | '→' | '—' => 0.92,
        '≤' | '≥' | '×' | '−' | '=' | '+' => 0.84,
        c if c.is_ascii_uppercase() => 0.70,
        _ => 0.60,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide_is_cut_and_what_fits_is_not() {
        // Each of these characters, and the ellipsis, is 7.2 wide, and 7.78 in bold.
        assert_eq!(cut("aaaaaa", 12.0, 44.0), "aaaaaa");
        assert_eq!(cut("aaaaaaa", 12.0, 44.0), "aaaaa…");
        assert_eq!(cut_bold("aaaaaa", 12.0, 44.0), "aaaa…");
    }
}
