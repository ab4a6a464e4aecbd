//! One line: what a client says cannot end it, or pass for another one.

use std::cell::RefCell;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{HOST, REFERER, USER_AGENT};
use http::{HeaderValue, Request, Version};
use tamarisk_server::guard::Violation;

use super::admission::Admission;
use super::options::LogFormat;
use super::value::{Json, Plain, Seconds};
use crate::date::{Civil, Rfc3339};

/// What is written down of a request.
pub struct Asked<'a> {
    /// The method, which was found to be a token.
    pub method: &'a str,
    /// The path and the query.
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
            target: uri.path_and_query().map_or("/", |target| target.as_str()),
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
    text: String,
    /// Where the rest goes: in the combined format before what a client says of itself.
    rest_at: usize,
}

impl Line {
    pub(super) fn begin<'a>(
        format: LogFormat,
        time: SystemTime,
        client: IpAddr,
        asked: &Asked<'a>,
    ) -> Self {
        let Asked { method, target, version, host, referer, agent } = *asked;
        let mut text = String::with_capacity(512);
        // Writing to a string does not fail.
        let rest_at = match format {
            LogFormat::Combined => {
                let client = format_args!("{client} - - [{}] \"", Combined(time));
                let _ =
                    write!(text, "{client}{method} {} {version:?}\" ", Plain(target.as_bytes()));
                let rest_at = text.len();
                let or_none = |field: Option<&'a [u8]>| Plain(field.unwrap_or(b"-"));
                let _ = write!(text, " \"{}\" \"{}\"", or_none(referer), or_none(agent));
                rest_at
            }
            LogFormat::Json => {
                let _ = write!(
                    text,
                    "{{\"time\":\"{}\",\"client\":\"{client}\",\"host\":{},\"method\":\"{method}\",\
                     \"target\":{},\"protocol\":\"{version:?}\",\"referer\":{},\"user_agent\":{}",
                    Rfc3339(time),
                    Json(host),
                    Json(Some(target.as_bytes())),
                    Json(referer),
                    Json(agent),
                );
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
        let Self { format, text: mut line, rest_at } = self;
        match format {
            LogFormat::Combined => line.insert_str(rest_at, &format!("{status} {bytes}")),
            LogFormat::Json => {
                let seconds = Seconds(took);
                let end = format_args!(",\"duration_seconds\":{seconds}");
                let _ = write!(line, ",\"status\":{status},\"bytes\":{bytes}{end}");
            }
        }
        if let Some(admission) = admission {
            admission.write(&mut line, format);
        }
        line.push_str(if format == LogFormat::Json { "}\n" } else { "\n" });
        line
    }

    /// The line about what was no request, in which nothing is known but why it was rejected.
    pub(super) fn rejected(
        format: LogFormat,
        time: SystemTime,
        client: IpAddr,
        violation: Violation,
        bytes: usize,
    ) -> String {
        let status = violation.status().as_u16();
        match format {
            LogFormat::Combined => {
                let time = Combined(time);
                let why = format_args!("\"tamarisk: {violation}\"");
                format!("{client} - - [{time}] \"-\" {status} {bytes} \"-\" {why}\n")
            }
            LogFormat::Json => format!(
                "{{\"time\":\"{}\",\"client\":\"{client}\",\"status\":{status},\"bytes\":{bytes},\
                 \"rejected\":\"{violation}\"}}\n",
                Rfc3339(time),
            ),
        }
    }

    /// The line that says how many others could not be written.
    pub(super) fn lost(format: LogFormat, time: SystemTime, lines: u64) -> String {
        match format {
            LogFormat::Combined => {
                let time = Combined(time);
                format!("- - - [{time}] \"-\" 0 0 \"-\" \"tamarisk: {lines} lines were lost\"\n")
            }
            LogFormat::Json => {
                format!("{{\"time\":\"{}\",\"lines_lost\":{lines}}}\n", Rfc3339(time))
            }
        }
    }
}

/// `10/Oct/2000:13:55:36 +0000`
struct Combined(SystemTime);

impl std::fmt::Display for Combined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        thread_local! {
            /// The second that was written last, and how.
            static LAST: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
        }
        let second = self.0.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        LAST.with_borrow_mut(|(last, text)| {
            if *last != second {
                (*last, *text) = (second, combined(self.0));
            }
            f.write_str(text)
        })
    }
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
    fn a_long_field_is_cut() {
        let long = vec![b'a'; 100_000];
        assert!(line(LogFormat::Combined, &long).ends_with("a...\"\n"));
    }
}
