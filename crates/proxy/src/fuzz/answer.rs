//! The reader of upstream answers, against itself and against hyper's client.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use http::header::{CONNECTION, CONTENT_LENGTH, VIA};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper::rt::ReadBufCursor;
use tamarisk_h1::Framing;

use super::input::Input;
use crate::hop_by_hop::HOP_BY_HOP;
use crate::upstream::answer_reader::AnswerReader;

/// More than a reader ever needs to hold of an answer: the longest head, and what
/// is read at once of a body.
const BUFFER_MAX: usize = 256 * 1024;

/// Trailers longer than these, of which we read twice as many bytes, hyper rejects.
const HYPER_TRAILERS_MAX: usize = 16 * 1024;

/// The answer in `input` is read the same however it is cut, to its end and no
/// further, and as hyper reads it if hyper does.
///
/// # Panics
/// If it is not.
pub fn check(input: &[u8]) {
    let input = Input::new(input);
    let to_head = input.says("HEAD");
    let whole = Reading::of(&[input.bytes], to_head);
    assert_eq!(whole, Reading::of(&input.pieces(), to_head));
    assert_eq!(whole, Reading::of(&input.bytes.chunks(1).collect::<Vec<_>>(), to_head));
    whole.has_no_part_in_what_follows(input.bytes, to_head);
    whole.is_what_hyper_reads(input.bytes, to_head);
}

/// What was read of an answer, and how that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reading {
    head: Option<Head>,
    data: Vec<u8>,
    trailers: Option<HeaderMap>,
    end: End,
    /// Bytes behind the end.
    rest: Vec<u8>,
    /// Another request could be sent on the connection.
    idle: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Head {
    status: StatusCode,
    headers: HeaderMap,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// All of the answer has come.
    Complete,
    /// All of it that is HTTP has: another protocol follows.
    Switched,
    /// The connection ended first.
    #[default]
    BrokenOff,
    /// It is no answer.
    Malformed,
}

impl Reading {
    /// What is read of `pieces`, behind which the connection ends.
    fn of(pieces: &[&[u8]], to_head: bool) -> Self {
        let mut reader = AnswerReader::new();
        reader.begin(to_head);
        let mut reading = Self::default();
        for (index, piece) in pieces.iter().enumerate() {
            let mut piece = *piece;
            while !piece.is_empty() {
                let room = reader.room();
                assert!(room.capacity() > room.len() && room.capacity() <= BUFFER_MAX);
                let count = piece.len().min(room.capacity() - room.len());
                room.extend_from_slice(&piece[..count]);
                piece = &piece[count..];
                if let Some(end) = reading.take(&mut reader) {
                    return reading.ends(end, reader, &[piece, &pieces[index + 1..].concat()]);
                }
            }
        }
        let end = match reading.head.is_some() && reader.end().is_ok() {
            true => End::Complete,
            false => End::BrokenOff,
        };
        reading.ends(end, reader, &[])
    }

    /// Takes what there is; how it ends, if it does.
    fn take(&mut self, reader: &mut AnswerReader) -> Option<End> {
        while self.head.is_none() {
            let Ok(head) = reader.head(&mut HeaderMap::new()) else { return Some(End::Malformed) };
            let head = head?;
            if !head.is_interim() {
                self.head =
                    Some(Head { status: head.status, headers: head.headers, framing: head.body });
            }
        }
        if self.has_status(StatusCode::SWITCHING_PROTOCOLS) {
            return Some(End::Switched);
        }
        loop {
            match reader.frame() {
                Err(_) => return Some(End::Malformed),
                Ok(None) => return reader.is_done().then_some(End::Complete),
                Ok(Some(frame)) => match frame.into_data() {
                    Ok(data) => self.data.extend_from_slice(&data),
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                },
            }
        }
    }

    fn ends(mut self, end: End, reader: AnswerReader, unread: &[&[u8]]) -> Self {
        self.end = end;
        let idle = reader.is_idle();
        if matches!(end, End::Complete | End::Switched) {
            self.rest = [&reader.into_rest()[..], &unread.concat()].concat();
            // What has not been read yet, `UpstreamConnection` finds on its socket.
            self.idle = idle && unread.concat().is_empty();
        }
        self
    }

    fn has_status(&self, status: StatusCode) -> bool {
        self.head.as_ref().is_some_and(|head| head.status == status)
    }

    fn has_no_part_in_what_follows(&self, bytes: &[u8], to_head: bool) {
        let Some(head) = self.head.as_ref().filter(|_| self.end != End::Malformed) else { return };
        assert!(bytes.ends_with(&self.rest));
        assert!(self.rest.is_empty() || !self.idle, "a next request would get {:?}", self.rest);
        let answer = &bytes[..bytes.len() - self.rest.len()];
        let alone = Self::of(&[answer], to_head);
        let expected = Self { rest: Vec::new(), idle: alone.idle, ..self.clone() };
        assert_eq!(alone, expected);
        if self.end == End::Complete && head.framing != Framing::UntilClose {
            let short = Self::of(&[&answer[..answer.len() - 1]], to_head);
            assert_eq!(short.end, End::BrokenOff);
        }
    }

    /// Hyper may read what we reject. What we read, it reads to the same end.
    fn is_what_hyper_reads(&self, bytes: &[u8], to_head: bool) {
        let is_theirs_too = bytes.len() < HYPER_TRAILERS_MAX;
        if matches!(self.end, End::Malformed | End::Switched) || !is_theirs_too {
            return;
        }
        match (self.end, read_by_hyper(bytes, to_head)) {
            (End::Complete, Ok(theirs)) => {
                let head = self.head.as_ref().expect("a complete answer has a head");
                assert_eq!(head.status, theirs.status);
                assert_eq!(self.data, theirs.data);
                assert_eq!(self.trailers, theirs.trailers);
                let mut ours = head.headers.clone();
                ours.remove(VIA);
                assert_eq!(ours, theirs.end_to_end());
            }
            (End::Complete, Err(error)) => panic!("hyper does not read it: {error:?}"),
            (_, Ok(theirs)) => panic!("hyper finds an end: {theirs:?}"),
            (_, Err(_)) => {}
        }
    }
}

/// An answer as hyper reads it.
#[derive(Debug)]
struct Theirs {
    status: StatusCode,
    headers: HeaderMap,
    data: Vec<u8>,
    trailers: Option<HeaderMap>,
}

impl Theirs {
    /// Its fields that are for more than one connection, the last line of
    /// those that say a length, and without what a proxy adds itself.
    fn end_to_end(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        for line in self.headers.get_all(CONNECTION) {
            for name in std::str::from_utf8(line.as_bytes()).unwrap_or_default().split(',') {
                let name = name.trim().to_ascii_lowercase();
                if name != "host" && name != "content-length" {
                    headers.remove(name);
                }
            }
        }
        for name in self.headers.keys().filter(|name| HOP_BY_HOP.contains(&name.as_str())) {
            headers.remove(name);
        }
        if let Some(length) = self.headers.get_all(CONTENT_LENGTH).iter().next_back() {
            headers.insert(CONTENT_LENGTH, length.clone());
        }
        headers.remove(VIA);
        headers
    }
}

fn read_by_hyper(bytes: &[u8], to_head: bool) -> hyper::Result<Theirs> {
    let method = if to_head { "HEAD" } else { "GET" };
    let request = Request::builder().method(method).uri("/").body(Empty::<&[u8]>::new());
    let request = request.expect("a request of constants is valid");
    let wire = Wire { incoming: bytes, asked: false };
    let (mut sender, mut connection) = drive(None, pin!(http1::handshake(wire)))?;
    let response = drive(Some(&mut connection), pin!(sender.send_request(request)));
    let (parts, incoming) = response?.into_parts();
    let collected = drive(Some(&mut connection), pin!(incoming.collect()))?;
    let trailers = collected.trailers().cloned();
    let data = collected.to_bytes().to_vec();
    Ok(Theirs { status: parts.status, headers: parts.headers, data, trailers })
}

type Connection<'a> = http1::Connection<Wire<'a>, Empty<&'static [u8]>>;

/// The outcome of `future`, which comes as `connection` gets on. Nothing here
/// waits for anything, so that polling in turn is enough.
fn drive<F: Future>(
    mut connection: Option<&mut Connection<'_>>,
    mut future: Pin<&mut F>,
) -> F::Output {
    let cx = &mut Context::from_waker(Waker::noop());
    for _ in 0..1_000_000 {
        if let Poll::Ready(outcome) = future.as_mut().poll(cx) {
            return outcome;
        }
        // Its own outcome comes to whoever waits for the answer, too.
        let ended = connection.as_mut().map(|connection| Pin::new(connection).poll(cx));
        if matches!(ended, Some(Poll::Ready(_))) {
            connection = None;
        }
    }
    panic!("hyper gets nowhere");
}

/// The server's side: once it has heard something, it sends `incoming` and closes.
struct Wire<'a> {
    incoming: &'a [u8],
    asked: bool,
}

impl hyper::rt::Read for Wire<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.asked {
            return Poll::Pending;
        }
        let (now, later) = self.incoming.split_at(self.incoming.len().min(buf.remaining()));
        buf.put_slice(now);
        self.incoming = later;
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Wire<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.asked = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
