//! Sizes as arguments: `100MiB`.

use tamarisk_settings::values::parse_size;

/// `100MiB`, `1GB`, or a number of bytes.
///
/// # Errors
/// What is wrong with it, and how to write it.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let bytes = text.parse().ok().or_else(|| parse_size(text));
    bytes.ok_or_else(|| format!("`{text}` is not a size; write for example `100MiB`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_with_a_unit() {
        assert_eq!(parse("2MiB"), Ok(2 << 20));
        assert_eq!(parse("1 GB"), Ok(1_000_000_000));
        assert_eq!(parse("1048576"), Ok(1 << 20));
        assert_eq!(parse("0"), Ok(0));
        for wrong in ["", "MiB", "1XB", "-1MiB", "99999999999GiB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
