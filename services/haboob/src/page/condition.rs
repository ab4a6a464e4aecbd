//! Conditional requests: `ETag`, `If-None-Match`, `If-Modified-Since` [RFC9110 §13].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{
    IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// What a representation is compared by.
#[derive(Clone, Debug)]
pub(crate) struct Validators {
    /// Strong: it differs where a byte does, as far as the file system can tell.
    pub(crate) etag: HeaderValue,
    /// In whole seconds, as in `Last-Modified`, and never in the future [RFC9110 §8.8.2.1].
    pub(crate) modified: SystemTime,
}

/// What the conditions of a request come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// They hold; whether its `Range` is to be looked at.
    Proceed { ranges: bool },
    /// The client has it.
    NotModified,
    /// The client's picture of it is wrong.
    Failed,
}

impl Validators {
    /// Of a file of `length` bytes that was changed at `modified`; `encoding` keeps
    /// forms of one file apart.
    pub(crate) fn new(modified: SystemTime, length: u64, encoding: &str) -> Self {
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let etag = format!("\"{:x}-{length:x}{encoding}\"", since.as_nanos());
        let etag = HeaderValue::try_from(etag).expect("letters, digits and quotes");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { etag, modified: UNIX_EPOCH + Duration::from_secs(since.min(now).as_secs()) }
    }

    /// Of the same file in another form.
    pub(crate) fn encoded(&self, encoding: &str) -> Self {
        let tag = String::from_utf8_lossy(self.etag.as_bytes());
        let tag = format!("{}{encoding}\"", tag.trim_end_matches('"'));
        let etag = HeaderValue::try_from(tag).expect("letters, digits and quotes");
        Self { etag, modified: self.modified }
    }

    /// The order is that of [RFC9110 §13.2.2].
    pub(crate) fn judge(&self, headers: &HeaderMap) -> Verdict {
        if headers.contains_key(IF_MATCH) {
            if !self.is_named(headers, IF_MATCH, Self::is_strongly) {
                return Verdict::Failed;
            }
        } else if date(headers, IF_UNMODIFIED_SINCE).is_some_and(|date| self.modified > date) {
            return Verdict::Failed;
        }
        if headers.contains_key(IF_NONE_MATCH) {
            if self.is_named(headers, IF_NONE_MATCH, Self::is_weakly) {
                return Verdict::NotModified;
            }
        } else if date(headers, IF_MODIFIED_SINCE).is_some_and(|date| self.modified <= date) {
            return Verdict::NotModified;
        }
        let ranges = headers.contains_key(RANGE) && self.is_in_range(headers);
        Verdict::Proceed { ranges }
    }

    /// Whether parts fit those that the client has.
    fn is_in_range(&self, headers: &HeaderMap) -> bool {
        let Some(condition) = headers.get(IF_RANGE) else { return true };
        match condition.as_bytes() {
            [b'"', ..] => self.is_strongly(condition.as_bytes()),
            // A weak tag is not enough to put parts together.
            [b'W', b'/', ..] => false,
            _ => date(headers, IF_RANGE) == Some(self.modified),
        }
    }

    fn is_named(
        &self,
        headers: &HeaderMap,
        field: HeaderName,
        is: impl Fn(&Self, &[u8]) -> bool,
    ) -> bool {
        let values = headers.get_all(field).iter();
        values.flat_map(|value| tags(value.as_bytes())).any(|tag| tag == b"*" || is(self, tag))
    }

    fn is_strongly(&self, tag: &[u8]) -> bool {
        tag == self.etag.as_bytes()
    }

    fn is_weakly(&self, tag: &[u8]) -> bool {
        self.is_strongly(tag.strip_prefix(b"W/").unwrap_or(tag))
    }
}

/// The tags of a list. Ours have no commas inside, so one that has is none of ours
/// wherever it is cut.
fn tags(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

fn date(headers: &HeaderMap, field: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(field)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: &str = "Sun, 09 Sep 2001 01:46:41 GMT";
    const SAME: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
    const EARLIER: &str = "Sun, 09 Sep 2001 01:46:39 GMT";
    const WHOLE: Verdict = Verdict::Proceed { ranges: false };
    const PART: Verdict = Verdict::Proceed { ranges: true };

    fn check(fields: &[(HeaderName, &str)], expected: Verdict) {
        let modified = UNIX_EPOCH + Duration::new(1_000_000_000, 5);
        let validators = Validators::new(modified, 255, "");
        let tag = validators.etag.to_str().unwrap();
        let headers = fields.iter().map(|(name, value)| {
            let value = value.replace("TAG", tag);
            (name.clone(), HeaderValue::try_from(value).unwrap())
        });
        let headers: HeaderMap = headers.collect();
        assert_eq!(validators.judge(&headers), expected, "{headers:?}");
    }

    #[test]
    fn a_tag_differs_with_a_nanosecond_a_byte_and_an_encoding() {
        let tag = |nanos, length, encoding| {
            let modified = UNIX_EPOCH + Duration::from_nanos(nanos);
            Validators::new(modified, length, encoding).etag
        };
        assert_eq!(tag(255, 16, ""), "\"ff-10\"");
        for other in [tag(256, 16, ""), tag(255, 17, ""), tag(255, 16, "-br")] {
            assert_ne!(other, tag(255, 16, ""));
        }
    }

    #[test]
    fn a_file_of_the_future_was_changed_now() {
        let before = SystemTime::now() - Duration::from_secs(1);
        // The year 10000, which no date in a head can say.
        let modified = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        let validators = Validators::new(modified, 255, "");
        assert!((before..=SystemTime::now()).contains(&validators.modified));
        assert_eq!(validators.etag, "\"dbca9d1fea2af0000-ff\"");
        httpdate::fmt_http_date(validators.modified);
    }

    #[test]
    fn who_has_it_already_is_told_so() {
        check(&[(IF_NONE_MATCH, "TAG")], Verdict::NotModified);
        check(&[(IF_NONE_MATCH, "\"other\", W/TAG")], Verdict::NotModified);
        check(&[(IF_NONE_MATCH, "*")], Verdict::NotModified);
        check(&[(IF_NONE_MATCH, "\"other\"")], WHOLE);
        check(&[(IF_MODIFIED_SINCE, SAME)], Verdict::NotModified);
        check(&[(IF_MODIFIED_SINCE, LATER)], Verdict::NotModified);
        check(&[(IF_MODIFIED_SINCE, EARLIER)], WHOLE);
        check(&[(IF_MODIFIED_SINCE, "yesterday")], WHOLE);
    }

    #[test]
    fn a_tag_goes_before_a_date() {
        check(&[(IF_NONE_MATCH, "\"other\""), (IF_MODIFIED_SINCE, LATER)], WHOLE);
        check(&[(IF_MATCH, "TAG"), (IF_UNMODIFIED_SINCE, EARLIER)], WHOLE);
    }

    #[test]
    fn who_expects_another_is_told_so() {
        check(&[(IF_MATCH, "\"other\"")], Verdict::Failed);
        check(&[(IF_MATCH, "W/TAG")], Verdict::Failed);
        check(&[(IF_MATCH, "*")], WHOLE);
        check(&[(IF_UNMODIFIED_SINCE, EARLIER)], Verdict::Failed);
        check(&[(IF_UNMODIFIED_SINCE, SAME)], WHOLE);
    }

    #[test]
    fn parts_are_for_who_has_the_same() {
        check(&[(RANGE, "bytes=0-1")], PART);
        check(&[(RANGE, "bytes=0-1"), (IF_RANGE, "TAG")], PART);
        check(&[(RANGE, "bytes=0-1"), (IF_RANGE, SAME)], PART);
        for other in ["\"other\"", "W/TAG", LATER, EARLIER, "never"] {
            check(&[(RANGE, "bytes=0-1"), (IF_RANGE, other)], WHOLE);
        }
    }
}
