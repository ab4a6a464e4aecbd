//! Text: its width, and how it stands in a document.

/// The width of `text` in the plots' font at `size`, to a few percent: enough to
/// set one label beside another without reading the font.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
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
