//! Fields that say what a client has already, and what it can read.

use std::time::{Duration, UNIX_EPOCH};

use http::header::{
    ACCEPT_ENCODING, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::page::condition::{Validators, Verdict};
use crate::page::encoding::Accepted;

const FIELDS: [HeaderName; 7] = [
    IF_MATCH,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
    IF_UNMODIFIED_SINCE,
    IF_RANGE,
    RANGE,
    ACCEPT_ENCODING,
];

/// The fields that the lines of `input` are (`TAG` stands for the right tag) come to what
/// the fields that are there allow, and to the same when they are said in another way.
///
/// # Panics
/// If they do not.
pub fn check(input: &[u8]) {
    let validators = Validators::new(UNIX_EPOCH + Duration::from_secs(1_000_000_000), 255, "");
    let Ok(text) = std::str::from_utf8(input) else { return };
    let text = text.replace("TAG", validators.etag.to_str().expect("a tag is printable"));
    let headers = fields(&text);
    let verdict = validators.judge(&headers);
    let has = |name| headers.contains_key(name);
    match verdict {
        Verdict::Failed => assert!(has(IF_MATCH) || has(IF_UNMODIFIED_SINCE), "{headers:?}"),
        Verdict::NotModified => {
            assert!(has(IF_NONE_MATCH) || has(IF_MODIFIED_SINCE), "{headers:?}");
        }
        Verdict::Proceed { ranges } => assert!(!ranges || has(RANGE), "{headers:?}"),
    }
    whoever_has_any_has_it(&validators, &headers, verdict);
    is_the_same_in_one_list(&validators, &headers, verdict);
}

fn fields(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let name = FIELDS.iter().find(|field| field.as_str().eq_ignore_ascii_case(name.trim()));
        if let (Some(name), Ok(value)) = (name, HeaderValue::from_str(value.trim())) {
            headers.append(name, value);
        }
    }
    headers
}

/// `*` is as good as the tag.
fn whoever_has_any_has_it(validators: &Validators, headers: &HeaderMap, verdict: Verdict) {
    let mut any = headers.clone();
    any.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    let expected = if verdict == Verdict::Failed { Verdict::Failed } else { Verdict::NotModified };
    assert_eq!(validators.judge(&any), expected, "{any:?}");
    any.insert(IF_NONE_MATCH, validators.etag.clone());
    assert_eq!(validators.judge(&any), expected, "{any:?}");
    any.insert(IF_MATCH, HeaderValue::from_static("*"));
    assert_eq!(validators.judge(&any), Verdict::NotModified, "{any:?}");
}

/// Several lines of a list are one list [RFC9110 §5.2].
fn is_the_same_in_one_list(validators: &Validators, headers: &HeaderMap, verdict: Verdict) {
    let mut joined = headers.clone();
    for name in [IF_MATCH, IF_NONE_MATCH, ACCEPT_ENCODING] {
        let lines: Vec<_> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
        if !lines.is_empty() {
            let list = HeaderValue::from_bytes(&lines.join(&b", "[..])).expect("each line is one");
            joined.insert(name, list);
        }
    }
    assert_eq!(validators.judge(&joined), verdict, "{headers:?}");
    assert_eq!(Accepted::of(&joined), Accepted::of(headers), "{headers:?}");
}
