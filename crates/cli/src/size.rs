//! Numbers of bytes, as people write them.

/// `100MiB`, `1GB`, or a number of bytes.
///
/// # Errors
/// What is wrong with it, and how to write it.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 7] = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
        ("", 1),
    ];
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("`{text}` is no size; write for example `100MiB`");
    let unit = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(wrong)?;
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit.1));
    bytes.ok_or_else(wrong)
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
