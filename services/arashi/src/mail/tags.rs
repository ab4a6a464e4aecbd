//! Bounds on HTML before it is parsed: what the parser does for it is then bounded as well.
//!
//! By the standard, a parser opens formatting elements again that were left open, in each
//! paragraph; alike ones three times, but elements whose attributes differ without end. With
//! n of them and n paragraphs, n² elements are made: a message of 1 MB asks for gigabytes.

/// The most tags of HTML that is shown as HTML. Newsletters have up to some thousands.
const TAGS_MAX: usize = 10_000;

/// The elements that a parser opens again [HTML §13.2.4.3], without `a` and `nobr`, of which
/// only one can be open.
const FORMATTING: [&str; 12] =
    ["b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"];

/// `html` with formatting elements that have no attributes; none if it has too many tags.
///
/// Each `<` is looked at, whether it begins a tag or is in a comment or a value: no place that
/// is a tag to the parser is missed.
pub(super) fn bounded(html: &str) -> Option<String> {
    let mut tags = 0;
    let mut bounded = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        bounded.push_str(before);
        if tag[1..].starts_with(|next: char| next.is_ascii_alphabetic() || next == '/') {
            tags += 1;
        }
        let length = tag[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let name = &tag[1..=length];
        let is_formatting = FORMATTING.iter().any(|known| name.eq_ignore_ascii_case(known))
            && tag[1 + length..]
                .starts_with(|next: char| next.is_ascii_whitespace() || next == '/');
        if is_formatting {
            bounded.push('<');
            bounded.push_str(name);
            bounded.push('>');
            rest = behind_attributes(&tag[1 + length..]);
        } else {
            bounded.push('<');
            rest = &tag[1..];
        }
    }
    bounded.push_str(rest);
    (tags <= TAGS_MAX).then_some(bounded)
}

/// What is behind the `>` that ends the tag whose attributes `rest` begins with.
fn behind_attributes(rest: &str) -> &str {
    let mut quote = None;
    let mut last = b' ';
    for (index, byte) in rest.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return &rest[index + 1..],
            // Only where a value begins.
            (None, b'"' | b'\'') if last == b'=' => quote = Some(byte),
            (Some(open), _) if byte == open => quote = None,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            last = if quote.is_some() { b' ' } else { byte };
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(html: &str, expected: &str) {
        assert_eq!(bounded(html).as_deref(), Some(expected), "{html}");
    }

    #[test]
    fn formatting_loses_its_attributes_and_nothing_else_does() {
        check("a <b>b</b> < c", "a <b>b</b> < c");
        check("<font size=1>a</font>", "<font>a</font>");
        check("<B\nclass='>'>a</B>", "<B>a</B>");
        check("<strong style = \"a>b\" x>a", "<strong>a");
        check("<i/x=\"'>\">a", "<i>a");
        check("<u a\"b>c\"", "<u>c\"");
        check("<br class=a><body b><blockquote c>", "<br class=a><body b><blockquote c>");
        check("<p title=\"<b x>\">", "<p title=\"<b>\">");
        check("<b never ends", "<b>");
        check("<é><", "<é><");
    }

    #[test]
    fn tags_are_counted() {
        assert!(bounded(&"<p>".repeat(TAGS_MAX)).is_some());
        assert!(bounded(&"</p>".repeat(TAGS_MAX + 1)).is_none());
        assert!(bounded(&"< ".repeat(2 * TAGS_MAX)).is_some());
    }
}
