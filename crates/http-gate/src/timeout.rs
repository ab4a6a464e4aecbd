//! Client timeouts: `X-Request-Timeout` and `grpc-timeout`.

use std::time::Duration;

use http::HeaderMap;
use http::header::HeaderName;

/// A number and a unit (`250ms`, `2s`, `1m`), or a bare number of seconds (`1.5`).
const X_REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout");

/// Up to 8 digits and one of `H M S m u n`
/// [gRPC over HTTP/2, "Timeout"](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The time from now after which the client wants no answer any more. What
/// cannot be read is as good as not said.
pub fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    text(X_REQUEST_TIMEOUT).and_then(plain).or_else(|| text(GRPC_TIMEOUT).and_then(grpc))
}

fn plain(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

fn grpc(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: HeaderName, value: &'static str, expected: Option<Duration>) {
        let mut headers = HeaderMap::new();
        headers.insert(name, http::HeaderValue::from_static(value));
        assert_eq!(timeout(&headers), expected, "{value:?}");
    }

    #[test]
    fn plain_timeouts_are_seconds_unless_they_say_otherwise() {
        let millis = |millis| Some(Duration::from_millis(millis));
        for (value, expected) in [
            ("2", millis(2000)),
            ("0.25", millis(250)),
            ("1.5s", millis(1500)),
            ("250ms", millis(250)),
            ("1m", millis(60_000)),
            ("0", millis(0)),
            ("", None),
            ("-1", None),
            ("1h", None),
            ("1 s", None),
            ("inf", None),
            ("9999999999999999999999", None),
        ] {
            check(X_REQUEST_TIMEOUT, value, expected);
        }
    }

    #[test]
    fn grpc_timeouts_have_their_own_units() {
        for (value, expected) in [
            ("5S", Some(Duration::from_secs(5))),
            ("250m", Some(Duration::from_millis(250))),
            ("1H", Some(Duration::from_secs(3600))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("123456789S", None),
            ("S", None),
            ("5", None),
            ("+5S", None),
        ] {
            check(GRPC_TIMEOUT, value, expected);
        }
    }

    #[test]
    fn the_first_that_can_be_read_counts() {
        for (plain, grpc, expected) in [
            ("2", "5S", Some(Duration::from_secs(2))),
            ("soon", "5S", Some(Duration::from_secs(5))),
            ("\u{e9}", "5S", Some(Duration::from_secs(5))),
            ("soon", "5", None),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(X_REQUEST_TIMEOUT, plain), (GRPC_TIMEOUT, grpc)] {
                let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
                headers.insert(name, value);
            }
            assert_eq!(timeout(&headers), expected, "{plain:?} {grpc:?}");
        }
    }
}
