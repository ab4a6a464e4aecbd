//! Content encoding: negotiation by `Accept-Encoding` [RFC9110 §12.5.3].

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};

/// A form in which a file may stand beside itself, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Encoding {
    Brotli,
    Zstd,
    Gzip,
}

impl Encoding {
    /// In the order in which they are preferred: the shortest first.
    pub(crate) const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// The name in `Content-Encoding`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// What the name of a file in this form ends in.
    pub(crate) const fn ending(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }
}

/// Which of [`Encoding::ALL`] a client can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted([bool; 3]);

impl Accepted {
    /// Of the client of `headers`.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self::by(headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes))
    }

    /// Of a client that has sent these `Accept-Encoding` fields.
    pub(crate) fn by<'f>(fields: impl Iterator<Item = &'f [u8]>) -> Self {
        let mut named = [None; 3];
        let mut others = None;
        for item in fields.flat_map(|field| field.split(|&byte| byte == b',')) {
            let mut parameters = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let name = parameters.next().unwrap_or_default();
            let is_wanted = !parameters.any(is_weight_of_zero);
            if name == b"*" {
                others = Some(is_wanted);
            }
            for (index, encoding) in Encoding::ALL.into_iter().enumerate() {
                let alias = encoding == Encoding::Gzip && name.eq_ignore_ascii_case(b"x-gzip");
                if alias || name.eq_ignore_ascii_case(encoding.name().as_bytes()) {
                    named[index] = Some(is_wanted);
                }
            }
        }
        Self(named.map(|named| named.or(others).unwrap_or(false)))
    }

    /// The best of these forms, in the order of [`Encoding::ALL`], that the client can read.
    pub(crate) fn best<T>(self, forms: &[Option<T>; 3]) -> Option<&T> {
        let possible = forms.iter().zip(self.0).filter(|(_, is_accepted)| *is_accepted);
        possible.filter_map(|(form, _)| form.as_ref()).next()
    }
}

/// `q=0`, `q=0.0` and so on; any other weight is good enough.
fn is_weight_of_zero(parameter: &[u8]) -> bool {
    let Some((b'q' | b'Q', value)) = parameter.split_first() else { return false };
    let value = value.trim_ascii_start().strip_prefix(b"=").unwrap_or_default().trim_ascii_start();
    !value.is_empty() && value.iter().all(|&byte| byte == b'0' || byte == b'.')
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(field: &'static str, expected: &str) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(field));
        let accepted = Accepted::of(&headers);
        let names: Vec<_> = Encoding::ALL
            .into_iter()
            .zip(accepted.0)
            .filter(|(_, is)| *is)
            .map(|(encoding, _)| encoding.name())
            .collect();
        assert_eq!(names.join(" "), expected, "{field}");
    }

    #[test]
    fn what_is_named_is_accepted_unless_its_weight_is_zero() {
        check("gzip, deflate, br, zstd", "br zstd gzip");
        check("GZIP;q=0.5", "gzip");
        check("x-gzip", "gzip");
        check("gzip;q=0, br ; q=0.000, zstd;q=0.001", "zstd");
        check("identity", "");
        check("", "");
    }

    #[test]
    fn a_star_is_for_all_that_are_not_named() {
        check("*", "br zstd gzip");
        check("br;q=0, *", "zstd gzip");
        check("*;q=0, gzip", "gzip");
    }

    #[test]
    fn the_best_form_is_the_first_that_is_there_and_can_be_read() {
        let best = |field: &'static str, forms| {
            Accepted::by([field.as_bytes()].into_iter()).best(&forms).copied()
        };
        let all = [Some("br"), Some("zstd"), Some("gzip")];
        assert_eq!(best("gzip, br", all), Some("br"));
        assert_eq!(best("gzip, zstd", all), Some("zstd"));
        assert_eq!(best("gzip, br", [None, Some("zstd"), Some("gzip")]), Some("gzip"));
        assert_eq!(best("gzip", [Some("br"), None, None]), None);
        assert_eq!(best("", all), None);
    }
}
