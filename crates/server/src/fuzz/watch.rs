//! The reader of requests, against itself and against hyper's parser.

use tamarisk_h1::{Event, Limits, RequestReader, Violation};

use super::input::Input;

/// The reader judges the requests in `input` the same however they are cut, and
/// lets no head pass that hyper's parser would read to another end or otherwise.
///
/// # Panics
/// If it does not.
pub fn check(input: &[u8]) {
    let input = Input::new(input);
    let (whole, violation) = read(&[input.bytes]);
    let (pieces, violation_in_pieces) = read(&input.pieces());
    assert_eq!(violation, violation_in_pieces);
    assert!(whole.starts_with(&pieces) || pieces.starts_with(&whole));
    heads_are_read_alike(input.bytes);
}

const LIMITS: Limits = Limits { first_line_max: 256, head_max: 1024, body_max: Some(1000) };

/// What a reader takes of `parts`, and what it rejects.
fn read(parts: &[&[u8]]) -> (Vec<u8>, Option<Violation>) {
    let mut reader = RequestReader::new(LIMITS);
    let (mut taken, mut held) = (Vec::new(), Vec::new());
    for part in parts {
        held.extend_from_slice(part);
        loop {
            match reader.next(&held) {
                Ok(None) => break,
                Ok(Some(event)) => taken.extend(held.drain(..event.len())),
                Err(violation) => return (taken, Some(violation)),
            }
        }
    }
    (taken, None)
}

fn heads_are_read_alike(mut bytes: &[u8]) {
    let mut reader = RequestReader::new(LIMITS);
    while let Ok(Some(event)) = reader.next(bytes) {
        if let Event::Head(length) = event {
            let mut fields = [httparse::EMPTY_HEADER; 100];
            let mut request = httparse::Request::new(&mut fields);
            assert_eq!(request.parse(bytes), Ok(httparse::Status::Complete(length)));
            assert!(request.path.is_some_and(|path| path.parse::<http::Uri>().is_ok()));
            let head = reader.head();
            let said = [head.method.of(bytes), head.target.of(bytes)];
            assert_eq!(
                said.map(Some),
                [request.method, request.path].map(|text| text.map(str::as_bytes))
            );
            let read = request.headers.iter().map(|field| (field.name.as_bytes(), field.value));
            let said =
                head.fields.iter().map(|field| (field.name.of(bytes), field.value.of(bytes)));
            assert!(said.eq(read));
        }
        bytes = &bytes[event.len()..];
    }
}
