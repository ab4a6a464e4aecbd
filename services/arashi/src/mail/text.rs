//! Text: cleaned of what would fool its reader, cut at bounds, and as HTML with links.

use linkify::{LinkFinder, LinkKind};

/// The most text of a message that is shown, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 20;

/// `text` as HTML: escaped, with addresses of web pages and of mail as links. Line ends and
/// spaces are kept; the page shows them (`white-space: pre-wrap`).
pub fn linkify(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 8);
    for span in LinkFinder::new().spans(text) {
        let shown = span.as_str();
        let link = match span.kind() {
            Some(LinkKind::Email) => Some(("mailto:", shown)),
            Some(LinkKind::Url) if has_scheme(shown, &["http", "https"]) => Some(("", shown)),
            Some(LinkKind::Url) if has_scheme(shown, &["mailto"]) => Some(("", shown)),
            _ => None,
        };
        match link {
            None => escape_into(&mut html, shown),
            Some((scheme, address)) => {
                html.push_str("<a href=\"");
                html.push_str(scheme);
                escape_into(&mut html, address);
                html.push_str("\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">");
                escape_into(&mut html, shown);
                html.push_str("</a>");
            }
        }
    }
    html
}

fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| {
        schemes.iter().any(|allowed| scheme.eq_ignore_ascii_case(allowed))
    })
}

/// Adds `text` to `html`, for between tags and within quoted attributes.
pub(super) fn escape_into(html: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            character => html.push(character),
        }
    }
}

/// `text` in one line of at most `bytes_max` bytes, without what controls a screen or turns the
/// direction of writing round, by which names pretend to be others.
pub(super) fn clean_line(text: &str, bytes_max: usize) -> String {
    let mut clean = String::new();
    for word in text.split(|letter: char| letter.is_whitespace() || is_control(letter)) {
        if word.is_empty() {
            continue;
        }
        if !clean.is_empty() {
            clean.push(' ');
        }
        clean.push_str(word);
        if clean.len() > bytes_max {
            break;
        }
    }
    cut(&mut clean, bytes_max);
    clean
}

/// `text` of any lines, of at most `bytes_max` bytes, without what controls a screen.
pub(super) fn clean_lines(text: &str, bytes_max: usize) -> String {
    let (head, _) = split_at_most(text, bytes_max);
    head.chars()
        .filter(|&letter| letter != '\r')
        .map(|letter| match letter {
            '\n' | '\t' => letter,
            letter if is_control(letter) => '\u{fffd}',
            letter => letter,
        })
        .collect::<String>()
}

/// `text` without its end, if it is longer than `bytes_max`.
pub(super) fn cut(text: &mut String, bytes_max: usize) {
    let length = split_at_most(text, bytes_max).0.len();
    text.truncate(length);
}

/// `text` up to `bytes_max` bytes, and the rest.
pub(super) fn split_at_most(text: &str, bytes_max: usize) -> (&str, &str) {
    text.split_at(text.floor_char_boundary(bytes_max))
}

fn is_control(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}
