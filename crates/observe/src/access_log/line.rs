//! One line: which values stand in it, and in what order.

use std::cell::RefCell;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{HOST, REFERER, USER_AGENT};
use http::{HeaderValue, Request, Version};
use tamarisk_server::guard::Violation;

use super::admission::Admission;
use super::options::LogFormat;
use super::value::Text;
use crate::date::Civil;

/// What is written down of a request.
pub struct Asked<'a> {
    /// The method, which was found to be a token.
    pub method: &'a str,
    /// The path and the query, or the authority if there is nothing else.
    pub target: &'a str,
    /// The version of HTTP.
    pub version: Version,
    /// Whom it is for.
    pub host: Option<&'a [u8]>,
    /// `Referer`.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`.
    pub agent: Option<&'a [u8]>,
}

impl<'a, B> From<&'a Request<B>> for Asked<'a> {
    fn from(request: &'a Request<B>) -> Self {
        let uri = request.uri();
        let field = |name| request.headers().get(name).map(HeaderValue::as_bytes);
        let host = uri.authority().map(|authority| authority.as_str().as_bytes());
        Self {
            method: request.method().as_str(),
            target: match (uri.path_and_query(), uri.authority()) {
                (Some(target), _) => target.as_str(),
                // As it is asked of a proxy that is to be passed through.
                (None, Some(authority)) => authority.as_str(),
                (None, None) => "/",
            },
            version: request.version(),
            host: host.or_else(|| field(HOST)),
            referer: field(REFERER),
            agent: field(USER_AGENT),
        }
    }
}

/// A line, but for what is known only in the end.
#[derive(Default)]
pub(super) struct Line {
    format: LogFormat,
    text: Text,
    /// Where the rest goes: in the combined format before what a client says of itself.
    rest_at: usize,
}

impl Line {
    pub(super) fn begin(
        format: LogFormat,
        time: SystemTime,
        client: IpAddr,
        asked: &Asked<'_>,
    ) -> Self {
        let Asked { method, target, version, host, referer, agent } = *asked;
        let version = version_text(version);
        let mut text = Text::with_capacity(512);
        let rest_at = match format {
            LogFormat::Combined => {
                text.address(client).raw(" - - [");
                write_time(&mut text, format, time);
                text.raw("] \"").plain(method.as_bytes()).raw(" ").plain(target.as_bytes());
                text.raw(" ").raw(version).raw("\" ");
                let rest_at = text.len();
                text.raw(" \"").plain(referer.unwrap_or(b"-"));
                text.raw("\" \"").plain(agent.unwrap_or(b"-")).raw("\"");
                rest_at
            }
            LogFormat::Json => {
                text.raw("{\"time\":\"");
                write_time(&mut text, format, time);
                text.raw("\",\"client\":\"").address(client);
                text.raw("\",\"host\":").json(host);
                text.raw(",\"method\":\"").plain(method.as_bytes());
                text.raw("\",\"target\":").json(Some(target.as_bytes()));
                text.raw(",\"protocol\":\"").raw(version);
                text.raw("\",\"referer\":").json(referer);
                text.raw(",\"user_agent\":").json(agent);
                text.len()
            }
        };
        Self { format, text, rest_at }
    }

    /// With what became of the request.
    pub(super) fn end(
        self,
        status: u16,
        bytes: u64,
        took: Duration,
        admission: Option<&Admission>,
    ) -> String {
        let Self { format, mut text, rest_at } = self;
        match format {
            LogFormat::Combined => {
                let mut rest = Text::default();
                rest.number(status.into()).raw(" ").number(bytes);
                text.insert(rest_at, &rest.into_string());
            }
            LogFormat::Json => {
                text.raw(",\"status\":").number(status.into()).raw(",\"bytes\":").number(bytes);
                text.raw(",\"duration_seconds\":").seconds(took);
            }
        }
        if let Some(admission) = admission {
            admission.write(&mut text, format);
        }
        text.raw(if format == LogFormat::Json { "}\n" } else { "\n" });
        text.into_string()
    }

    /// The line about what was no request, in which nothing is known but why it was rejected.
    pub(super) fn rejected(
        format: LogFormat,
        time: SystemTime,
        client: IpAddr,
        violation: Violation,
        bytes: usize,
    ) -> String {
        let (status, bytes) = (violation.status().as_u16().into(), bytes as u64);
        let mut text = Text::default();
        match format {
            LogFormat::Combined => {
                text.address(client).raw(" - - [");
                write_time(&mut text, format, time);
                text.raw("] \"-\" ").number(status).raw(" ").number(bytes);
                text.raw(" \"-\" \"tamarisk: ").shown(violation).raw("\"\n");
            }
            LogFormat::Json => {
                text.raw("{\"time\":\"");
                write_time(&mut text, format, time);
                text.raw("\",\"client\":\"").address(client);
                text.raw("\",\"status\":").number(status).raw(",\"bytes\":").number(bytes);
                text.raw(",\"rejected\":\"").shown(violation).raw("\"}\n");
            }
        }
        text.into_string()
    }

    /// The line that says how many others could not be written.
    pub(super) fn lost(format: LogFormat, time: SystemTime, lines: u64) -> String {
        let mut text = Text::default();
        match format {
            LogFormat::Combined => {
                text.raw("- - - [");
                write_time(&mut text, format, time);
                text.raw("] \"-\" 0 0 \"-\" \"tamarisk: ")
                    .number(lines)
                    .raw(" lines were lost\"\n");
            }
            LogFormat::Json => {
                text.raw("{\"time\":\"");
                write_time(&mut text, format, time);
                text.raw("\",\"lines_lost\":").number(lines).raw("}\n");
            }
        }
        text.into_string()
    }
}

fn version_text(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

/// As in `10/Oct/2000:13:55:36 +0000`, or as in `2000-10-10T13:55:36.123Z`.
fn write_time(text: &mut Text, format: LogFormat, time: SystemTime) {
    thread_local! {
        /// The second that was written last, and how.
        static LAST: RefCell<(LogFormat, u64, String)> =
            const { RefCell::new((LogFormat::Combined, u64::MAX, String::new())) };
    }
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    LAST.with_borrow_mut(|(last_format, last, written)| {
        if (*last_format, *last) != (format, since.as_secs()) {
            (*last_format, *last) = (format, since.as_secs());
            *written = match format {
                LogFormat::Combined => combined(time),
                LogFormat::Json => rfc3339_seconds(time),
            };
        }
        text.raw(written);
    });
    if format == LogFormat::Json {
        text.fraction::<3>(since.subsec_millis()).raw("Z");
    }
}

fn rfc3339_seconds(time: SystemTime) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = Civil::of(time);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

fn combined(time: SystemTime) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let Civil { year, month, day, hour, minute, second, .. } = Civil::of(time);
    let month = MONTHS[month as usize - 1];
    format!("{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: LogFormat, agent: &[u8]) -> String {
        let request = Request::get("http://example.org/a?b=%22")
            .header(USER_AGENT, HeaderValue::from_bytes(agent).unwrap())
            .body(())
            .unwrap();
        let time = UNIX_EPOCH + Duration::from_millis(1_000_000_000_123);
        let client = "2001:db8::1".parse().unwrap();
        let line = Line::begin(format, time, client, &Asked::from(&request));
        line.end(206, 512, Duration::from_micros(1500), None)
    }

    #[test]
    fn a_line_is_what_programs_for_logs_expect() {
        let expected = "2001:db8::1 - - [09/Sep/2001:01:46:40 +0000] \"GET /a?b=%22 HTTP/1.1\" \
            206 512 \"-\" \"curl/8\"\n";
        assert_eq!(line(LogFormat::Combined, b"curl/8"), expected);
        let expected = "{\"time\":\"2001-09-09T01:46:40.123Z\",\"client\":\"2001:db8::1\",\
            \"host\":\"example.org\",\"method\":\"GET\",\"target\":\"/a?b=%22\",\
            \"protocol\":\"HTTP/1.1\",\"referer\":null,\"user_agent\":\"curl/8\",\"status\":206,\
            \"bytes\":512,\"duration_seconds\":0.001500}\n";
        assert_eq!(line(LogFormat::Json, b"curl/8"), expected);
    }

    #[test]
    fn what_is_no_request_and_what_was_lost_have_lines_of_their_own() {
        let (time, client) = (UNIX_EPOCH + Duration::from_millis(5), "192.0.2.1".parse().unwrap());
        let rejected = |format| Line::rejected(format, time, client, Violation::NotHttp, 12);
        assert_eq!(
            rejected(LogFormat::Combined),
            format!(
                "192.0.2.1 - - [01/Jan/1970:00:00:00 +0000] \"-\" 400 12 \"-\" \"tamarisk: {}\"\n",
                Violation::NotHttp
            )
        );
        assert_eq!(
            rejected(LogFormat::Json),
            format!(
                "{{\"time\":\"1970-01-01T00:00:00.005Z\",\"client\":\"192.0.2.1\",\"status\":400,\
                 \"bytes\":12,\"rejected\":\"{}\"}}\n",
                Violation::NotHttp
            )
        );
        assert_eq!(
            Line::lost(LogFormat::Combined, time, 7),
            "- - - [01/Jan/1970:00:00:00 +0000] \"-\" 0 0 \"-\" \"tamarisk: 7 lines were lost\"\n"
        );
        assert_eq!(
            Line::lost(LogFormat::Json, time, 7),
            "{\"time\":\"1970-01-01T00:00:00.005Z\",\"lines_lost\":7}\n"
        );
    }

    #[test]
    fn a_long_field_is_cut() {
        let long = vec![b'a'; 100_000];
        assert!(line(LogFormat::Combined, &long).ends_with("a...\"\n"));
        let method = "A".repeat(8000);
        let request = Request::builder().method(&*method).uri("/").body(()).unwrap();
        let client = "192.0.2.1".parse().unwrap();
        for format in [LogFormat::Combined, LogFormat::Json] {
            let line = Line::begin(format, UNIX_EPOCH, client, &Asked::from(&request));
            assert!(line.text.len() < 2500);
        }
    }

    #[test]
    fn whom_a_proxy_was_asked_for_is_told() {
        let request = Request::connect("example.org:443").body(()).unwrap();
        assert_eq!(Asked::from(&request).target, "example.org:443");
    }
}
