//! Heads and trailers of HTTP/2 requests, and those that make a request malformed.

use std::convert::Infallible;

use crate::support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, NO_FLAGS, RST_STREAM, RawHttp2,
};
use crate::support::{any_port, within};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::service::service_fn;
use tamarisk_server::{ClientBody, DrainTrigger, Server, WithoutFastPath};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
const PROTOCOL_ERROR: [u8; 4] = 1_u32.to_be_bytes();

/// A request with a body. `:path: /x` and `:authority: a` become 63 and 62 of the dynamic table.
const HEAD: &[u8] = b"\x83\x86\x44\x02/x\x41\x01a";

/// A request without a body, of static and literal fields; heads may go on behind it.
const HEAD_ALONE: &[u8] = b"\x82\x86\x84\x01\x01a";

/// `x-digest: d`, as a literal.
const DIGEST: &[u8] = b"\0\x08x-digest\x01d";

/// The fields of a request's head, and the trailers its body has ended with, or why it has failed.
type Read = (HeaderMap, Result<HeaderMap, String>);

/// A server that tells what it has read of each request.
struct Reading {
    client: RawHttp2,
    read: mpsc::UnboundedReceiver<Read>,
    stream: u32,
    server: Server,
    _drain: DrainTrigger,
}

impl Reading {
    async fn start() -> Self {
        let listener = TcpListener::bind(any_port()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, read) = mpsc::unbounded_channel();
        let connect = move |_| {
            let sender = sender.clone();
            WithoutFastPath(service_fn(move |request: Request<ClientBody>| {
                let sender = sender.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let collected = body.collect().await;
                    let trailers = collected.map(|body| body.trailers().cloned());
                    let trailers = trailers.map(Option::unwrap_or_default);
                    let trailers = trailers.map_err(|error| error.to_string());
                    sender.send((head.headers, trailers)).unwrap();
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                }
            }))
        };
        let (trigger, drain) = DrainTrigger::new();
        let server = Server::default();
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener, connect, drain).await });
        let client = RawHttp2::connect(address, 1 << 16).await;
        Self { client, read, stream: 1, server, _drain: trigger }
    }

    /// Sends a request whose trailers are these frames; what its service read of them.
    async fn request(&mut self, trailers: &[(u8, u8, &[u8])]) -> Result<HeaderMap, String> {
        self.client.frame(HEADERS, END_HEADERS, self.stream, HEAD).await;
        self.client.frame(DATA, NO_FLAGS, self.stream, b"body").await;
        self.send(trailers).await;
        within(self.read.recv()).await.unwrap().1
    }

    /// Sends these frames on a stream, which is the last one from then on.
    async fn send(&mut self, frames: &[(u8, u8, &[u8])]) {
        for (kind, flags, payload) in frames {
            self.client.frame(*kind, *flags, self.stream, payload).await;
        }
        self.stream += 2;
    }

    /// The code with which the stream of the last request was reset; none if it was answered.
    async fn reset(&mut self) -> Option<Vec<u8>> {
        loop {
            let frame = self.client.read_frame().await.expect("the connection stays open");
            if frame.stream != self.stream - 2 {
                continue;
            }
            match frame.kind {
                RST_STREAM => return Some(frame.payload),
                _ if frame.flags & END_STREAM != 0 => return None,
                _ => {}
            }
        }
    }
}

/// One frame of trailers.
fn trailers(flags: u8, block: &[u8]) -> [(u8, u8, &[u8]); 1] {
    [(HEADERS, END_HEADERS | END_STREAM | flags, block)]
}

#[tokio::test]
async fn trailers_are_read_as_they_were_sent() {
    let mut reading = Reading::start().await;
    let (first, second) = DIGEST.split_at(6);
    let padded = [b"\x03", DIGEST, b"\0\0\0"].concat();
    let with_priority = [b"\0\0\0\0\x10", DIGEST].concat();
    let with_updates = [b"\x20\x3f\xe1\x1f", DIGEST].concat();
    let with_host = [DIGEST, b"\0\x04host\x01b"].concat();
    for frames in [
        &trailers(0, DIGEST)[..],
        &trailers(PADDED, &padded),
        &trailers(PRIORITY, &with_priority),
        &trailers(0, &with_updates),
        &trailers(0, &with_host),
        &[(HEADERS, END_STREAM, first), (CONTINUATION, END_HEADERS, second)],
        &[(HEADERS, END_STREAM, b""), (CONTINUATION, END_HEADERS, DIGEST)],
    ] {
        let read = reading.request(frames).await.unwrap();
        assert_eq!(reading.reset().await, None, "{frames:?}");
        assert_eq!((read.len(), &read["x-digest"]), (1, &"d".parse().unwrap()), "{frames:?}");
    }
    assert!(reading.request(&trailers(0, b"")).await.unwrap().is_empty());
    assert!(reading.request(&[(DATA, END_STREAM, b"")]).await.unwrap().is_empty());
}

#[tokio::test]
async fn pseudo_header_fields_in_trailers_make_the_request_malformed_and_no_other() {
    let mut reading = Reading::start().await;
    let field_first = [DIGEST, b"\x84"].concat();
    let field_last = [b"\x84", DIGEST].concat();
    let padded = [b"\x01\x84", DIGEST, b"\0"].concat();
    let after_updates = [b"\x20\x3f\xe1\x1f\x84", DIGEST].concat();
    let (cut_in_a_field, rest) = field_last.split_at(5);
    // Each of the names, from the static table, literal, in Huffman's code, or of the dynamic table.
    for frames in [
        &trailers(0, b"\x81")[..],
        &trailers(0, b"\x82"),
        &trailers(0, b"\x84"),
        &trailers(0, b"\x86"),
        &trailers(0, b"\x88"),
        &trailers(0, b"\0\x09:protocol\x01x"),
        &trailers(0, b"\0\x05:path\x02/y"),
        &trailers(0, b"\x04\x02/y"),
        &trailers(0, b"\0\x84\xb9\x58\xd3\x3f\x02/y"),
        &trailers(0, b"\xbf"),
        &trailers(0, &field_first),
        &trailers(0, &field_last),
        &trailers(PADDED, &padded),
        &trailers(0, &after_updates),
        &[(HEADERS, END_STREAM, b"\x84"), (CONTINUATION, END_HEADERS, DIGEST)],
        &[(HEADERS, END_STREAM, DIGEST), (CONTINUATION, END_HEADERS, b"\x84")],
        &[(HEADERS, END_STREAM, cut_in_a_field), (CONTINUATION, END_HEADERS, rest)],
    ] {
        let read = reading.request(frames).await;
        assert!(read.is_err(), "{frames:?}: {read:?}");
        assert_eq!(reading.reset().await.unwrap(), PROTOCOL_ERROR, "{frames:?}");
        assert!(reading.request(&trailers(0, DIGEST)).await.is_ok(), "after {frames:?}");
        assert_eq!(reading.reset().await, None, "after {frames:?}");
    }
}

#[tokio::test]
async fn trailers_of_more_than_one_full_frame_end_their_stream_alone() {
    let mut reading = Reading::start().await;
    // Fields of 8 bytes in HPACK; h2 leaves out those beyond the limit on heads.
    let block = b"\0\x01x\x04dddd".repeat(16_384 / 8 + 1);
    let (first, second) = block.split_at(16_000);
    for frames in [
        &trailers(0, &block[..16_384])[..],
        &[(HEADERS, END_STREAM, first), (CONTINUATION, END_HEADERS, second)],
    ] {
        assert!(reading.request(frames).await.is_err());
        assert_eq!(reading.reset().await.unwrap(), PROTOCOL_ERROR);
        assert!(reading.request(&trailers(0, DIGEST)).await.is_ok());
        assert_eq!(reading.reset().await, None);
    }
}

/// Fields of 8 bytes in HPACK, which hold 37 of a list: as many as have `bytes` or more in HPACK.
fn fields_of(bytes: usize) -> Vec<u8> {
    b"\0\x01x\x04dddd".repeat(bytes.div_ceil(8))
}

/// `y` with a value of so many bytes, 127 or more [RFC7541 §5.1].
fn long_field(bytes: usize) -> Vec<u8> {
    let rest = bytes - 127;
    let length = [0x80 | rest as u8, 0x80 | (rest >> 7) as u8, (rest >> 14) as u8];
    [&b"\0\x01y\x7f"[..], &length, &vec![b'v'; bytes]].concat()
}

#[tokio::test]
async fn a_field_that_makes_a_head_malformed_does_so_wherever_its_frames_end() {
    let mut reading = Reading::start().await;
    let mut rejected = 0;
    for malformed in [
        &b"\0\x11transfer-encoding\x07chunked"[..],
        b"\0\x0aconnection\x05close",
        b"\x04\x02/b",
        b"\x82",
    ] {
        let head = [HEAD_ALONE, malformed, DIGEST].concat();
        for cut in 0..=head.len() {
            let (first, rest) = head.split_at(cut);
            let frames = [(HEADERS, END_STREAM, first), (CONTINUATION, END_HEADERS, rest)];
            reading.send(&frames).await;
            assert_eq!(reading.reset().await.unwrap(), PROTOCOL_ERROR, "{frames:?}");
            rejected += 1;
        }
        let padded = [b"\x02", HEAD_ALONE, malformed, &DIGEST[..5], b"\0\0"].concat();
        let frames = [
            (HEADERS, END_STREAM | PADDED, &padded[..]),
            (CONTINUATION, NO_FLAGS, b""),
            (CONTINUATION, END_HEADERS, &DIGEST[5..]),
        ];
        reading.send(&frames).await;
        assert_eq!(reading.reset().await.unwrap(), PROTOCOL_ERROR, "{frames:?}");
        rejected += 1;
    }
    assert_eq!(reading.server.rejected().malformed, rejected);
    assert!(reading.read.try_recv().is_err(), "none of them was served");
    reading.send(&[(HEADERS, END_STREAM, HEAD_ALONE), (CONTINUATION, END_HEADERS, DIGEST)]).await;
    assert_eq!(reading.reset().await, None);
}

#[tokio::test]
async fn a_field_that_makes_a_head_of_more_than_one_full_frame_malformed_does_so_too() {
    for (fields_before, length) in [(0, 16_384), (0, 300), (15_000, 16_384), (15_000, 15_100)] {
        let mut reading = Reading::start().await;
        let before = [HEAD_ALONE, &fields_of(fields_before)].concat();
        let longer_than_a_frame = long_field(17_000);
        let close = b"\0\x0aconnection\x05close";
        let head = [&before, &close[..], &longer_than_a_frame, DIGEST].concat();
        let (first, rest) = head.split_at(length);
        let (second, third) = rest.split_at(rest.len().min(16_384));
        reading.send(&[(HEADERS, END_STREAM, first), (CONTINUATION, NO_FLAGS, second)]).await;
        reading.stream -= 2;
        reading.send(&[(CONTINUATION, END_HEADERS, third)]).await;
        let code = reading.client.closed().await;
        assert_eq!(code, Some(1), "cut at {length}");
        assert_eq!(reading.server.rejected().malformed, 1);
        assert!(reading.read.try_recv().is_err(), "it was not served");
    }
}

#[tokio::test]
async fn long_heads_are_served_up_to_their_limit() {
    let mut reading = Reading::start().await;
    for lengths in [&[17_000][..], &[30_000], &[9_000, 9_000, 9_000], &[200, 20_000, 10_000]] {
        let values = lengths.iter().flat_map(|bytes| long_field(*bytes)).collect::<Vec<_>>();
        let head = [HEAD_ALONE, &values, DIGEST].concat();
        let (first, rest) = head.split_at(16_000);
        let (second, third) = rest.split_at(rest.len().min(16_384));
        reading
            .send(&[
                (HEADERS, END_STREAM, first),
                (CONTINUATION, NO_FLAGS, second),
                (CONTINUATION, END_HEADERS, third),
            ])
            .await;
        let (head, _) = within(reading.read.recv()).await.unwrap();
        let read = head.get_all("y").iter().map(HeaderValue::len).collect::<Vec<_>>();
        assert_eq!((&read[..], &head["x-digest"]), (lengths, &"d".parse().unwrap()));
        assert_eq!(reading.reset().await, None);
    }
    let too_long = [HEAD_ALONE, &long_field(33_000), DIGEST].concat();
    let (first, rest) = too_long.split_at(16_384);
    let (second, third) = rest.split_at(16_384);
    let frames = [(CONTINUATION, NO_FLAGS, second), (CONTINUATION, END_HEADERS, third)];
    reading.send(&[&[(HEADERS, END_STREAM, first)], &frames[..]].concat()).await;
    assert_eq!(reading.reset().await, None, "it is answered with 431");
    assert!(reading.read.try_recv().is_err());
    assert!(reading.request(&trailers(0, DIGEST)).await.is_ok());
}
