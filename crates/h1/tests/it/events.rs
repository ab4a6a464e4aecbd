//! Messages read in pieces, read back after they were written, and read by another parser.
use http::{HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use tamarisk_h1::encode::{CHUNK_END, HeadWriter, chunk_start, last_chunk};
use tamarisk_h1::{
    Asked, Event, Field, Framing, Limits, RequestReader, ResponseReader, Version, Violation,
    trailer_fields,
};

type Pairs = Vec<(String, Vec<u8>)>;

/// A message as it is written and read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Message {
    /// Method and target, or status and reason; empty when only the end of another one is known.
    first: String,
    fields: Pairs,
    body: Vec<u8>,
    trailers: Pairs,
    is_complete: bool,
}

/// What a reader made of a connection: its messages, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reading {
    messages: Vec<Message>,
    violation: Option<Violation>,
}

impl Reading {
    fn take(&mut self, event: Event, bytes: &[u8]) {
        if let Event::End = event {
            self.messages.last_mut().unwrap().is_complete = true;
        }
        let Some(message) = self.messages.last_mut() else { return };
        match event {
            Event::Data(_) => message.body.extend_from_slice(bytes),
            Event::Trailers(_) => message.trailers = owned(trailer_fields(bytes)),
            Event::Head(_) | Event::Framing(_) | Event::End => {}
        }
    }
}

fn owned<'b>(fields: impl Iterator<Item = (&'b [u8], &'b [u8])>) -> Pairs {
    fields
        .map(|(name, value)| (String::from_utf8_lossy(name).to_lowercase(), value.to_vec()))
        .collect()
}

fn spelt(fields: &[Field], head: &[u8]) -> Pairs {
    owned(fields.iter().map(|field| (field.name.of(head), field.value.of(head))))
}

/// The ends of the pieces that `cuts` make of so many bytes.
fn ends(length: usize, cuts: &[usize]) -> Vec<usize> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (length + 1)).collect();
    ends.push(length);
    ends.sort_unstable();
    ends
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const LIMITS: Limits = Limits { first_line_max: 200, head_max: 2000, body_max: Some(5000) };

fn read_requests(bytes: &[u8], cuts: &[usize]) -> Reading {
    let mut reader = RequestReader::new(LIMITS);
    let (mut reading, mut used) = (Reading::default(), 0);
    for end in ends(bytes.len(), cuts) {
        loop {
            match reader.next(&bytes[used..end]) {
                Ok(None) if reader.is_undecided() => reader.resume(),
                Ok(None) => break,
                Err(violation) => {
                    assert_eq!(reader.next(&bytes[used..end]), Err(violation));
                    reading.violation = Some(violation);
                    return reading;
                }
                Ok(Some(event)) => {
                    let taken = &bytes[used..used + event.len()];
                    if let Event::Head(_) = event {
                        let head = reader.head();
                        let first = format!(
                            "{} {}",
                            text(head.method.of(taken)),
                            text(head.target.of(taken))
                        );
                        let fields = spelt(head.fields, taken);
                        reading.messages.push(Message { first, fields, ..Message::default() });
                    }
                    reading.take(event, taken);
                    used += event.len();
                }
            }
        }
    }
    reading
}

fn read_responses(bytes: &[u8], cuts: &[usize]) -> Reading {
    let mut reader = ResponseReader::new(LIMITS);
    reader.begin(Asked::Ordinary);
    let (mut reading, mut used) = (Reading::default(), 0);
    for end in ends(bytes.len(), cuts) {
        loop {
            match reader.next(&bytes[used..end]) {
                Ok(None) if reader.is_idle() && used < end => reader.begin(Asked::Ordinary),
                Ok(None) => break,
                Err(violation) => {
                    reading.violation = Some(violation);
                    return reading;
                }
                Ok(Some(event)) => {
                    let taken = &bytes[used..used + event.len()];
                    if let Event::Head(_) = event {
                        let head = reader.head();
                        let first =
                            format!("{} {}", head.status.as_u16(), text(head.reason.of(taken)));
                        let fields = spelt(head.fields, taken);
                        reading.messages.push(Message { first, fields, ..Message::default() });
                    }
                    reading.take(event, taken);
                    used += event.len();
                }
            }
        }
    }
    if reader.end() == Ok(())
        && let Some(last) = reading.messages.last_mut()
    {
        last.is_complete = true;
    }
    reading
}

/// Field lines that say nothing of the framing.
fn fields() -> impl Strategy<Value = Pairs> {
    let name = "x-[a-z0-9!#$%&'*+.^_`|~-]{0,10}";
    let value = "([!-~\u{a0}-\u{ff}]([ -~\t]{0,20}[!-~])?)?".prop_map(String::into_bytes);
    prop::collection::vec((name, value), 0..6)
}

/// How a body is written.
#[derive(Clone, Debug)]
enum Written {
    None,
    Length,
    /// In chunks of these sizes, with these trailers.
    Chunks(Vec<usize>, Pairs),
}

fn written() -> impl Strategy<Value = Written> {
    prop_oneof![
        Just(Written::None),
        Just(Written::Length),
        (prop::collection::vec(1_usize..300, 0..4), fields())
            .prop_map(|(sizes, trailers)| Written::Chunks(sizes, trailers)),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..400)
}

/// A message to be written, of which only the first line is missing.
fn message(first: impl Strategy<Value = String>) -> impl Strategy<Value = (Message, Written)> {
    (first, fields(), body(), written()).prop_map(|(first, fields, mut body, written)| {
        if let Written::None = written {
            body.clear();
        }
        let mut trailers = Pairs::new();
        if let Written::Chunks(_, written) = &written {
            trailers.clone_from(written);
        }
        (Message { first, fields, body, trailers, is_complete: true }, written)
    })
}

fn typed(pairs: &Pairs) -> Vec<(HeaderName, HeaderValue)> {
    let typed = |(name, value): &(String, Vec<u8>)| {
        (name.parse().unwrap(), HeaderValue::from_bytes(value).unwrap())
    };
    pairs.iter().map(typed).collect()
}

/// Writes a message that `begin` begins, and adds the fields that the framing takes to it.
fn write(
    (message, written): &mut (Message, Written),
    is_request: bool,
    begin: impl for<'v> FnOnce(&'v mut Vec<u8>, &str) -> HeadWriter<'v>,
) -> Vec<u8> {
    let framing = match written {
        Written::None if is_request => None,
        Written::None => Some(("content-length", "0".to_owned())),
        Written::Length => Some(("content-length", message.body.len().to_string())),
        Written::Chunks(..) => Some(("transfer-encoding", "chunked".to_owned())),
    };
    message.fields.extend(framing.map(|(name, value)| (name.to_owned(), value.into_bytes())));
    let mut bytes = Vec::new();
    let mut head = begin(&mut bytes, &message.first);
    for (name, value) in typed(&message.fields) {
        head.field(&name, &value);
    }
    head.end();
    match written {
        Written::None => {}
        Written::Length => bytes.extend_from_slice(&message.body),
        Written::Chunks(sizes, trailers) => {
            let mut rest = &message.body[..];
            for size in sizes.iter().copied().chain([usize::MAX]) {
                let (chunk, behind) = rest.split_at(size.min(rest.len()));
                if !chunk.is_empty() {
                    chunk_start(&mut bytes, chunk.len() as u64);
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(CHUNK_END);
                }
                rest = behind;
            }
            let trailers = typed(trailers);
            last_chunk(&mut bytes, trailers.iter().map(|(name, value)| (name, value)));
        }
    }
    bytes
}

fn write_request(message: &mut (Message, Written)) -> Vec<u8> {
    message.0.fields.push(("host".to_owned(), b"a".to_vec()));
    write(message, true, |head, first| {
        let (method, target) = first.split_once(' ').unwrap();
        HeadWriter::request(head, &method.parse().unwrap(), target.as_bytes(), Version::Http11)
    })
}

fn write_response(message: &mut (Message, Written)) -> Vec<u8> {
    write(message, false, |head, first| {
        let (status, reason) = first.split_once(' ').unwrap();
        let status = StatusCode::from_bytes(status.as_bytes()).unwrap();
        HeadWriter::response(head, Version::Http11, status, reason.as_bytes())
    })
}

fn expected(messages: Vec<(Message, Written)>) -> Reading {
    let messages = messages.into_iter().map(|(message, _)| message).collect();
    Reading { messages, violation: None }
}

/// A connection's bytes: requests of which most are well-formed.
fn connection() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        12 => "[A-Za-z-]{1,12}:[ -~]{0,20}\r\n",
        4 => Just("Content-Length: 5\r\n".to_owned()),
        4 => Just("Transfer-Encoding: chunked\r\n".to_owned()),
        1 => Just("Upgrade: x\r\n".to_owned()),
        1 => "[ \t\r\n:a\0]{1,6}\r\n",
    ];
    let body = prop_oneof![
        4 => Just(String::new()),
        2 => Just("hello".to_owned()),
        2 => Just("5\r\nhello\r\n0\r\n\r\n".to_owned()),
        1 => Just("0\r\nX: y\r\n\r\n".to_owned()),
        1 => "[0-9a-f\r\n;:]{0,12}",
    ];
    let first = prop_oneof![
        "(GET|POST|P T) /[a-z?%{}]{0,8} HTTP/1\\.[0-2]\r\nHost: a\r\n",
        "HTTP/1\\.[0-2] (200|204|101|103|2x)( [A-Z a-z]{0,4})?\r?\n",
    ];
    let message = (first, prop::collection::vec(field, 0..5), body)
        .prop_map(|(first, fields, body)| format!("{first}{}\r\n{body}", fields.concat()));
    prop::collection::vec(message, 1..4).prop_map(|messages| messages.concat().into_bytes())
}

/// That a head which passes is split by `httparse` at the same bytes.
fn assert_split_alike(bytes: &[u8], is_request: bool) {
    let (mut requests, mut responses) =
        (RequestReader::new(Limits::REQUEST), ResponseReader::new(Limits::RESPONSE));
    responses.begin(Asked::Ordinary);
    let event = if is_request { requests.next(bytes) } else { responses.next(bytes) };
    let Ok(Some(Event::Head(length))) = event else { return };
    let mut parsed = [httparse::EMPTY_HEADER; 100];
    let (complete, parsed, fields) = if is_request {
        let mut theirs = httparse::Request::new(&mut parsed);
        let complete = theirs.parse(bytes);
        let ours = requests.head();
        assert_eq!(theirs.method.map(str::as_bytes), Some(ours.method.of(bytes)));
        assert_eq!(theirs.path.map(str::as_bytes), Some(ours.target.of(bytes)));
        assert_eq!(theirs.version == Some(1), ours.version == Version::Http11);
        (complete, theirs.headers, ours.fields)
    } else {
        let mut theirs = httparse::Response::new(&mut parsed);
        let complete = theirs.parse(bytes);
        let ours = responses.head();
        assert_eq!(theirs.code, Some(ours.status.as_u16()));
        assert_eq!(theirs.reason.map(str::as_bytes), Some(ours.reason.of(bytes)));
        assert_eq!(theirs.version == Some(1), ours.version == Version::Http11);
        (complete, theirs.headers, ours.fields)
    };
    assert_eq!(complete, Ok(httparse::Status::Complete(length)));
    let theirs = parsed.iter().map(|field| (field.name.as_bytes(), field.value));
    let ours = fields.iter().map(|field| (field.name.of(bytes), field.value.of(bytes)));
    assert!(theirs.eq(ours), "{:?}", bytes.escape_ascii().to_string());
}

proptest! {
    #[test]
    fn where_the_network_cuts_the_bytes_makes_no_difference(
        bytes in connection(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        prop_assert_eq!(read_requests(&bytes, &[]), read_requests(&bytes, &cuts));
        prop_assert_eq!(read_responses(&bytes, &[]), read_responses(&bytes, &cuts));
    }

    #[test]
    fn requests_that_were_written_one_behind_the_other_are_read_as_they_were(
        mut messages in prop::collection::vec(
            message("(GET|POST|PUT|DELETE|X-Y) /[a-z0-9?%=&]{0,20}"), 1..4),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let bytes: Vec<u8> = messages.iter_mut().flat_map(write_request).collect();
        prop_assert_eq!(read_requests(&bytes, &cuts), expected(messages));
    }

    #[test]
    fn responses_that_were_written_one_behind_the_other_are_read_as_they_were(
        mut messages in prop::collection::vec(
            message("(200|201|404|503|599) [A-Za-z]{0,10}"), 1..4),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let bytes: Vec<u8> = messages.iter_mut().flat_map(write_response).collect();
        prop_assert_eq!(read_responses(&bytes, &cuts), expected(messages));
    }

    #[test]
    fn another_parser_splits_every_head_at_the_same_bytes(bytes in connection()) {
        assert_split_alike(&bytes, true);
        assert_split_alike(&bytes, false);
    }
}

fn response(asked: Asked, bytes: &str) -> (ResponseReader, Result<usize, Violation>) {
    let (mut reader, mut used) = (ResponseReader::new(LIMITS), 0);
    reader.begin(asked);
    loop {
        match reader.next(&bytes.as_bytes()[used..]) {
            Ok(Some(event)) => used += event.len(),
            Ok(None) => return (reader, Ok(used)),
            Err(violation) => return (reader, Err(violation)),
        }
    }
}

fn framing(fields: &str) -> Result<(Framing, bool), Violation> {
    let (reader, read) = response(Asked::Ordinary, &format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
    read.map(|_| (reader.head().framing, reader.head().keep))
}

#[test]
fn a_response_ends_where_every_reader_would_see_it_end() {
    for (fields, expected) in [
        ("", (Framing::UntilClose, false)),
        ("Content-Length: 0\r\n", (Framing::Empty, true)),
        ("Content-Length: 5\r\n", (Framing::Length(5), true)),
        ("Content-Length: 5\r\ncontent-length: 5\r\n", (Framing::Length(5), true)),
        ("Content-Length: 5\nConnection: x, Close\n", (Framing::Length(5), false)),
        ("Transfer-Encoding: Chunked\r\n", (Framing::Chunked, true)),
    ] {
        assert_eq!(framing(fields), Ok(expected), "{fields:?}");
    }
    for (fields, expected) in [
        ("Content-Length: 5\r\nContent-Length: 6\r\n", Violation::ContentLength),
        ("Content-Length: +5\r\n", Violation::ContentLength),
        ("Content-Length: 5, 5\r\n", Violation::ContentLength),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Violation::AmbiguousLength),
        ("Transfer-Encoding: gzip, chunked\r\n", Violation::TransferEncoding),
        ("Transfer-Encoding: identity\r\n", Violation::TransferEncoding),
        ("Content-Length: 5001\r\n", Violation::BodyTooLarge),
        ("Field : value\r\n", Violation::FieldName),
        ("Field: a\r\n folded\r\n", Violation::Folding),
        ("Field: a\0b\r\n", Violation::FieldValue),
        ("Field: a\rb\r\n", Violation::LineEnd),
    ] {
        assert_eq!(framing(fields), Err(expected), "{fields:?}");
    }
}

#[test]
fn some_responses_have_no_body_whatever_they_say() {
    let long = "Content-Length: 9999\r\n\r\n";
    for (asked, status, switches) in [
        (Asked::Head, "200 OK", false),
        (Asked::Ordinary, "204 No Content", false),
        (Asked::Ordinary, "304 Not Modified", false),
        (Asked::Ordinary, "101 Switching Protocols", true),
        (Asked::Connect, "200 OK", true),
    ] {
        let (mut reader, read) = response(asked, &format!("HTTP/1.1 {status}\r\n{long}"));
        assert!(read.is_ok() && reader.is_idle(), "{status}");
        assert_eq!((reader.head().framing, reader.head().keep), (Framing::Empty, !switches));
        assert_eq!(reader.head().switches, switches);
        assert_eq!(reader.end(), Ok(()));
    }
    let (reader, read) = response(Asked::Connect, "HTTP/1.1 404 No\r\nContent-Length: 5\r\n\r\n");
    assert!(read.is_ok() && !reader.is_idle() && reader.head().keep);
}

#[test]
fn an_interim_response_is_followed_by_another() {
    let (reader, read) = response(
        Asked::Ordinary,
        "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 \r\n\r\n",
    );
    assert!(read.is_ok() && reader.is_idle());
    assert_eq!((reader.head().status, reader.head().fields.len()), (StatusCode::NO_CONTENT, 0));
}

#[test]
fn a_connection_that_ends_ends_only_a_body_that_it_is_to_end() {
    for (bytes, expected) in [
        ("", Err(Violation::Incomplete)),
        ("HTTP/1.1 200 OK\r\nContent-Le", Err(Violation::Incomplete)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", Err(Violation::Incomplete)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", Err(Violation::Incomplete)),
        ("HTTP/1.1 100 Continue\r\n\r\n", Err(Violation::Incomplete)),
        ("HTTP/1.1 200 OK\r\n\r\nall", Ok(())),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nall", Ok(())),
    ] {
        assert_eq!(response(Asked::Ordinary, bytes).0.end(), expected, "{bytes:?}");
    }
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(5001));
    assert_eq!(response(Asked::Ordinary, &endless).1, Err(Violation::BodyTooLarge));
}

#[test]
fn what_will_never_be_a_response_is_given_up_whether_or_not_its_end_has_come() {
    let long_line = format!("HTTP/1.1 200 {}", "x".repeat(300));
    let long_head = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(2000));
    for (bytes, expected) in [
        ("SSH-2.0", Violation::NotHttp),
        ("\r\nHTTP/1.1 200 OK", Violation::NotHttp),
        ("HTTP/2 200", Violation::NotHttp),
        (&long_line, Violation::HeadTooLarge),
        (&long_head, Violation::HeadTooLarge),
    ] {
        for end in ["", "\r\n\r\n"] {
            let bytes = format!("{bytes}{end}");
            assert_eq!(response(Asked::Ordinary, &bytes).1, Err(expected), "{bytes:?}");
        }
    }
    for line in [
        "HTTP/1.1 20 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.2 200 OK",
        "HTTP/1.1 200OK",
        "HTTP/1.1 099 X",
    ] {
        let read = response(Asked::Ordinary, &format!("{line}\r\n\r\n")).1;
        assert_eq!(read, Err(Violation::StatusLine), "{line:?}");
    }
}

#[test]
fn how_many_bytes_of_data_come_next_is_known() {
    let next = |bytes: &str| response(Asked::Ordinary, bytes).0.data_next();
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(next("HTTP/1.1 200 OK\r\nContent-Le"), 0);
    assert_eq!(next("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhe"), 9);
    assert_eq!(next("HTTP/1.1 200 OK\r\n\r\n"), u64::MAX);
    for (begun, expected) in [("9", 0), ("9\r\n", 9), ("9\r\nlong", 5), ("9\r\nlong body", 0)] {
        assert_eq!(next(&format!("{chunked}{begun}")), expected, "{begun:?}");
    }
}

#[test]
fn a_head_says_what_the_client_wants_of_the_connection() {
    let head = |version: &str, fields: &str| {
        let mut reader = RequestReader::new(LIMITS);
        let bytes = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(reader.next(bytes.as_bytes()), Ok(Some(Event::Head(bytes.len()))));
        let head = reader.head();
        (head.keep, head.upgrade, head.expects_continue)
    };
    assert_eq!(head("1.1", ""), (true, false, false));
    assert_eq!(head("1.1", "Connection: a, CLOSE\r\n"), (false, false, false));
    assert_eq!(head("1.1", "Expect: 100-Continue\r\n"), (true, false, true));
    assert_eq!(head("1.1", "Upgrade: a\r\n"), (true, true, false));
    let all = "Upgrade: a\r\nExpect: 100-continue\r\n";
    assert_eq!(head("1.0", all), (false, false, false));
    assert_eq!(head("1.0", "Connection: keep-alive\r\n"), (true, false, false));
    assert_eq!(head("1.0", "Connection: keep-alive, close\r\n"), (false, false, false));
}

#[test]
fn memory_is_let_go_between_requests_and_not_within_one() {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut reader = RequestReader::new(LIMITS);
    for _ in 0..2 {
        assert!(reader.is_between_requests());
        reader.release();
        assert_eq!(reader.next(&request[..20]), Ok(None));
        assert!(!reader.is_between_requests());
        reader.release();
        assert_eq!(reader.next(request), Ok(Some(Event::Head(request.len()))));
        assert_eq!(reader.next(b""), Ok(Some(Event::End)));
    }
}
