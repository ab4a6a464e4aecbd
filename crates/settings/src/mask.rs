//! Passwords in URLs, which a message about a file does not repeat.

/// `text` with `*` in place of each byte that stands between the scheme and the `@` of a URL: as
/// long as before, so that places in it are the same.
pub(crate) fn without_credentials(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let authority = after.find(['/', '?', '#', '"', '\'', '\n']).unwrap_or(after.len());
        let credentials = after[..authority].rfind('@').unwrap_or(0);
        masked.push_str(before);
        masked.push_str("://");
        masked.extend(std::iter::repeat_n('*', credentials));
        rest = &after[credentials..];
    }
    masked + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_masked_and_places_stay() {
        for (text, masked) in [
            ("url = \"http://u:p@a\"\nb = 1\n", "url = \"http://***@a\"\nb = 1\n"),
            ("'http://ü:@p@a/b@c' 'ftp://x@y'", "'http://*****@a/b@c' 'ftp://*@y'"),
            ("http://a/\nmail = \"b@c\"", "http://a/\nmail = \"b@c\""),
            ("://", "://"),
            ("", ""),
        ] {
            assert_eq!(without_credentials(text), masked);
            assert_eq!(masked.len(), text.len());
        }
    }
}
