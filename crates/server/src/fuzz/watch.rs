//! The framing watch, against itself and against hyper's parser; and what is made of a head that
//! it has let pass, for an answer at hand.

use super::input::Input;
use crate::asked_at_hand;
use crate::guard::{Limits, Violation, Watch};

/// The watch judges the requests in `input` the same however they are cut, and
/// lets no head pass that hyper's parser would read to another end; an answer at hand is to
/// what that parser reads.
///
/// # Panics
/// If it does not.
pub fn check(input: &[u8]) {
    let input = Input::new(input);
    let (whole, violation) = show(&[input.bytes]);
    let (pieces, violation_in_pieces) = show(&input.pieces());
    assert_eq!(violation, violation_in_pieces);
    assert!(whole.starts_with(&pieces) || pieces.starts_with(&whole));
    heads_are_read_alike(input.bytes);
}

fn limits() -> Limits {
    Limits::default().request_line(256).head(1024).body(Some(1000))
}

/// What a watch releases of `parts`, and what it refuses.
fn show(parts: &[&[u8]]) -> (Vec<u8>, Option<Violation>) {
    let mut watch = Watch::new(limits());
    let (mut released, mut held) = (Vec::new(), Vec::new());
    for part in parts {
        held.extend_from_slice(part);
        loop {
            match watch.scan(&held) {
                Ok(0) => break,
                Ok(count) => released.extend(held.drain(..count)),
                Err(violation) => return (released, Some(violation)),
            }
        }
    }
    (released, None)
}

fn heads_are_read_alike(mut bytes: &[u8]) {
    let mut watch = Watch::new(limits());
    while watch.is_between_requests() && !bytes.is_empty() {
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n");
        let end = end.map_or(bytes.len(), |at| at + 4);
        let before = watch.requests();
        let Ok(released) = watch.scan(&bytes[..end]) else { return };
        if watch.requests() == before {
            return;
        }
        let mut fields = [httparse::EMPTY_HEADER; 100];
        let mut request = httparse::Request::new(&mut fields);
        assert_eq!(request.parse(bytes), Ok(httparse::Status::Complete(released)));
        assert!(request.path.is_some_and(|path| path.parse::<http::Uri>().is_ok()));
        if let Some((asked, length)) = asked_at_hand(bytes) {
            assert_eq!((length, request.version), (released, Some(1)));
            let asked_for = (Some(asked.method()), Some(asked.target()));
            assert_eq!(asked_for, (request.method, request.path));
            let read = request.headers.iter().map(|field| (field.name.as_bytes(), field.value));
            assert!(asked.fields().eq(read));
        }
        bytes = &bytes[released..];
    }
}
