//! The file of URLs that a run chooses from.

use std::path::Path;

use anyhow::Context;
use tamarisk_load::WeightedUrl;

use crate::arguments::misunderstood;

/// The URLs in `path`, one `[WEIGHT=]URL` a line; empty lines and those that begin with `#` say
/// nothing.
///
/// # Errors
/// If the file cannot be read, or a line of it is none.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<WeightedUrl>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the URLs from {}", path.display()))?;
    parse(&text)
        .map_err(|(line, error)| misunderstood(format!("{}, line {line}: {error}", path.display())))
}

/// The URLs of `text`, or the number of the first line that is wrong, and what is.
fn parse(text: &str) -> Result<Vec<WeightedUrl>, (usize, tamarisk_load::InvalidUrl)> {
    let lines = text.lines().map(str::trim).enumerate();
    let says_something = |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with('#');
    lines
        .filter(says_something)
        .map(|(index, line)| line.parse().map_err(|error| (index + 1, error)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_url_with_or_without_a_weight() {
        let urls = parse("# often\n9=http://h/a\n\n  http://h/b?c=d \r\n").unwrap();
        let read: Vec<_> = urls.iter().map(|url| (url.weight(), url.to_string())).collect();
        assert_eq!(read, [(9, "http://h/a".to_owned()), (1, "http://h/b?c=d".to_owned())]);
    }

    #[test]
    fn the_line_that_is_wrong_is_named() {
        let (line, error) = parse("http://h/\n\nhttps://h/\n").unwrap_err();
        assert_eq!(line, 3);
        assert!(error.to_string().contains("https://h/"), "{error}");
    }
}
