//! Fields of forms and queries, read once and within bounds.

use std::str::FromStr;

/// The most fields of a form: every message of the longest page selected, and some more.
const FIELDS_MAX: usize = 256;

/// What is wrong with a request: a sentence for whoever sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

/// Fields of a form or of a query, in their order.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Of `application/x-www-form-urlencoded` text.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Vec::new();
        for (name, value) in form_urlencoded::parse(text) {
            if fields.len() == FIELDS_MAX {
                return Err(Malformed(format!("There are more than {FIELDS_MAX} fields.")));
            }
            fields.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(fields))
    }

    /// The first field of this name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The same, of at most so many bytes; an empty one is as good as none.
    pub(crate) fn line(&self, name: &str, bytes_max: usize) -> Result<Option<&str>, Malformed> {
        let Some(text) = self.text(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        if text.len() > bytes_max {
            return Err(Malformed(format!("The field “{name}” is longer than {bytes_max} bytes.")));
        }
        Ok(Some(text))
    }

    /// A number that may be left out or empty.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>, Malformed> {
        self.text(name).filter(|text| !text.is_empty()).map(|text| number(name, text)).transpose()
    }

    /// A number that must be there.
    pub(crate) fn needed<N: FromStr>(&self, name: &str) -> Result<N, Malformed> {
        self.number(name)?.ok_or_else(|| Malformed(format!("The field “{name}” is missing.")))
    }

    /// All numbers of this name.
    pub(crate) fn numbers<N: FromStr>(&self, name: &str) -> Result<Vec<N>, Malformed> {
        let named = self.0.iter().filter(|(own, _)| own == name);
        named.map(|(_, text)| number(name, text)).collect()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| !text.is_empty())
    }
}

fn number<N: FromStr>(name: &str, text: &str) -> Result<N, Malformed> {
    text.parse().map_err(|_| Malformed(format!("The field “{name}” is not a number.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_kept_in_order() {
        let fields = Fields::parse(b"message=1&message=2&q=a+%26%20b&empty=").unwrap();
        assert_eq!(fields.numbers::<i64>("message"), Ok(vec![1, 2]));
        assert_eq!(fields.text("q"), Some("a & b"));
        assert_eq!(fields.number::<i64>("empty"), Ok(None));
        assert_eq!(fields.line("empty", 5), Ok(None));
        assert!(!fields.has("empty") && !fields.has("none"));
    }

    #[test]
    fn what_is_no_number_or_too_much_is_said() {
        let fields = Fields::parse(b"id=1%27+OR+1%3D1&long=aaaaaa").unwrap();
        let not = Malformed("The field “id” is not a number.".into());
        assert_eq!(fields.needed::<i64>("id"), Err(not));
        let missing = Malformed("The field “none” is missing.".into());
        assert_eq!(fields.needed::<i64>("none"), Err(missing));
        let long = Malformed("The field “long” is longer than 5 bytes.".into());
        assert_eq!(fields.line("long", 5), Err(long));
        let many = Malformed("There are more than 256 fields.".into());
        assert_eq!(Fields::parse("a=1&".repeat(257).as_bytes()).unwrap_err(), many);
        assert!(Fields::parse("a=1&".repeat(256).as_bytes()).is_ok());
    }
}
