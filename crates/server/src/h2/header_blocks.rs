//! Pseudo-header fields in the trailers of HTTP/2 requests, which h2 is made to reject.
//!
//! They make a request malformed, and its stream is to be reset with PROTOCOL_ERROR
//! [RFC9113 §8.1, §8.1.1]. h2 0.4 leaves them out instead, and nothing tells of it. But it does reject
//! a pseudo-header field that follows a regular one. So a regular field, the mark, is put in front of
//! all trailers before h2 reads them. It is one byte and changes no table, so no header block has to
//! be decoded. [`remove_mark`] takes it out of the trailers again.
//!
//! Trailers in several frames become one frame: h2 forgets that a block is malformed if a frame ends
//! within a field. Those that do not fit into one frame lose their END_STREAM flag, without which h2
//! resets the stream just so.

use std::mem;

use bytes::Bytes;
use http::header::HOST;
use http_body::Frame;

/// Of "PRI * HTTP/2.0", which the client sends before its first frame [RFC9113 §3.4].
const PREFACE_BYTES: usize = 24;

/// Of the head of a frame [RFC9113 §4.1].
const HEAD_BYTES: usize = 9;

/// Of the fields of a HEADERS frame that state a priority [RFC9113 §6.2].
const PRIORITY_BYTES: usize = 5;

/// The longest payload that h2 takes, as long as we allow no more [RFC9113 §4.2].
const PAYLOAD_BYTES_MAX: usize = 16_384;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 0x01;
const END_HEADERS: u8 = 0x04;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;

/// `host` with an empty value: it is in the static table, and may not be in trailers anyway
/// [RFC7541 App. A, RFC9110 §6.5.1].
const MARK: u8 = 0x80 | 38;

/// Frames of one block: as many as h2 takes, a HEADERS and 6 CONTINUATIONs.
const FRAMES_MAX: usize = 7;

/// Streams that are remembered as open: more than we let a client open.
const OPEN_MAX: usize = 128;

/// Takes the mark out of trailers, and with it any `host` that the client sent.
pub(crate) fn remove_mark(frame: &mut Frame<Bytes>) {
    if let Some(trailers) = frame.trailers_mut() {
        trailers.remove(HOST);
    }
}

/// Follows the frames of a client, and marks the trailers among them.
pub(crate) struct HeaderGuard {
    /// What is still to pass as it is: of the preface, or of a frame.
    passing: usize,
    open: OpenStreams,
    /// The start of a frame's head, or of trailers.
    held: Vec<u8>,
}

impl HeaderGuard {
    /// For a client that has sent nothing yet.
    pub(crate) fn new() -> Self {
        Self { passing: PREFACE_BYTES, open: OpenStreams::default(), held: Vec::new() }
    }

    /// Takes the next bytes of the client: how many of them pass as they are, and what is to be read
    /// after these in place of the others.
    pub(crate) fn follow(&mut self, bytes: &[u8]) -> (usize, Vec<u8>) {
        let passed = if self.held.is_empty() { self.pass(bytes) } else { 0 };
        let replaced = if passed < bytes.len() { self.hold(&bytes[passed..]) } else { Vec::new() };
        (passed, replaced)
    }

    /// How many of `bytes` come before trailers, or the incomplete head of a frame.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let mut passed = 0;
        loop {
            let passing = self.passing.min(bytes.len() - passed);
            passed += passing;
            self.passing -= passing;
            let Some(head) = FrameHead::read(&bytes[passed..]) else { return passed };
            if head.kind == HEADERS && self.open.contains(head.stream) {
                return passed;
            }
            self.open.follow(head);
            self.passing = HEAD_BYTES + head.length;
        }
    }

    /// Holds `bytes` until they can be judged; what is ready of those held.
    fn hold(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut held = mem::take(&mut self.held);
        held.extend_from_slice(bytes);
        let mut rest = &held[..];
        let mut ready = Vec::new();
        loop {
            let (passed, behind) = rest.split_at(self.pass(rest));
            ready.extend_from_slice(passed);
            let Some(trailers) = Trailers::read(behind) else {
                let is_all = behind.len() == held.len();
                self.held = if is_all { held } else { behind.to_vec() };
                return ready;
            };
            if trailers.ends {
                self.open.end(trailers.stream);
            }
            ready.extend_from_slice(&trailers.replacement);
            self.passing = trailers.passing;
            rest = &behind[trailers.length..];
        }
    }
}

/// The streams on which the client may have trailers to send.
#[derive(Default)]
struct OpenStreams {
    open: Vec<u32>,
    /// Those below may be open, too: there were too many to be remembered.
    forgotten_below: u32,
}

impl OpenStreams {
    fn contains(&self, stream: u32) -> bool {
        stream < self.forgotten_below || self.open.contains(&stream)
    }

    /// Follows a frame that is no trailers.
    fn follow(&mut self, head: FrameHead) {
        match (head.kind, head.has(END_STREAM)) {
            (HEADERS, false) => self.begin(head.stream),
            (DATA, true) | (RST_STREAM, _) => self.end(head.stream),
            _ => {}
        }
    }

    fn begin(&mut self, stream: u32) {
        if self.open.len() == OPEN_MAX {
            // Most of these are over: a client need not end a stream that was answered early.
            let highest = self.open.iter().max().map_or(0, |highest| highest + 1);
            self.forgotten_below = self.forgotten_below.max(highest);
            self.open.clear();
        }
        self.open.push(stream);
    }

    fn end(&mut self, stream: u32) {
        if let Some(place) = self.open.iter().position(|open| *open == stream) {
            self.open.swap_remove(place);
        }
    }
}

/// What begins with a HEADERS frame on an open stream.
struct Trailers {
    stream: u32,
    /// Whether h2 reads that they end their stream.
    ends: bool,
    /// To be read in place of the bytes of that `length`.
    replacement: Vec<u8>,
    length: usize,
    /// How many bytes pass behind these.
    passing: usize,
}

impl Trailers {
    /// Reads the trailers that `bytes` begin with, once they can be judged.
    fn read(bytes: &[u8]) -> Option<Self> {
        let first = FrameHead::read(bytes)?;
        let (mut length, mut payload_bytes) = (0, 0);
        for number in 0..FRAMES_MAX {
            let head = FrameHead::read(bytes.get(length..)?)?;
            let is_continued = head.kind == CONTINUATION && head.stream == first.stream;
            payload_bytes += head.length;
            // One byte is left for the mark.
            if (number > 0 && !is_continued) || payload_bytes >= PAYLOAD_BYTES_MAX {
                break;
            }
            length += HEAD_BYTES + head.length;
            if head.has(END_HEADERS) {
                return Some(match marked(first, bytes.get(..length)?) {
                    Some(replacement) => Self::of(first, replacement, length),
                    None => Self::without_end(first),
                });
            }
        }
        Some(Self::without_end(first))
    }

    /// Those that do not fit into one frame, or for which h2 will close the connection.
    fn without_end(first: FrameHead) -> Self {
        let head = FrameHead { flags: first.flags & !END_STREAM, ..first };
        let replacement = head.bytes().to_vec();
        Self { passing: first.length, ..Self::of(head, replacement, HEAD_BYTES) }
    }

    fn of(head: FrameHead, replacement: Vec<u8>, length: usize) -> Self {
        let ends = head.has(END_STREAM);
        Self { stream: head.stream, ends, replacement, length, passing: 0 }
    }
}

/// One frame in place of `frames`, which are a `first` one and those that continue it: with the mark,
/// without padding and priority. None if the padding is longer than the frame.
fn marked(first: FrameHead, frames: &[u8]) -> Option<Vec<u8>> {
    let (payload, mut rest) = frames[HEAD_BYTES..].split_at(first.length);
    let mut block = first.fragment(payload)?.to_vec();
    while let Some(head) = FrameHead::read(rest) {
        let (fragment, behind) = rest[HEAD_BYTES..].split_at(head.length);
        block.extend_from_slice(fragment);
        rest = behind;
    }
    block.insert(size_updates_length(&block), MARK);
    let flags = (first.flags & END_STREAM) | END_HEADERS;
    let head = FrameHead { length: block.len(), flags, ..first };
    Some([&head.bytes()[..], &block].concat())
}

/// The bytes of the dynamic table size updates, which come before all fields [RFC7541 §4.2, §6.3].
fn size_updates_length(block: &[u8]) -> usize {
    let mut rest = block;
    while let [first, behind @ ..] = rest
        && first & 0xe0 == 0x20
    {
        // The size takes more bytes if its first five bits are set, until one without the highest bit.
        let more = match first & 0x1f {
            0x1f => {
                behind.iter().position(|byte| byte & 0x80 == 0).map_or(behind.len(), |at| at + 1)
            }
            _ => 0,
        };
        rest = &behind[more..];
    }
    block.len() - rest.len()
}

/// The head of a frame [RFC9113 §4.1].
#[derive(Clone, Copy)]
struct FrameHead {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl FrameHead {
    /// Of the frame that `bytes` begin with, if all of the head is there.
    fn read(bytes: &[u8]) -> Option<Self> {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes.first_chunk::<HEAD_BYTES>()?;
        Some(Self {
            length: u32::from_be_bytes([0, l0, l1, l2]) as usize,
            kind,
            flags,
            // The highest bit is reserved.
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        })
    }

    fn bytes(self) -> [u8; HEAD_BYTES] {
        let [_, l0, l1, l2] = (self.length as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// What the `payload` of this HEADERS frame has of a header block [RFC9113 §6.2].
    fn fragment(self, payload: &[u8]) -> Option<&[u8]> {
        let (padding, payload) = match self.has(PADDED) {
            true => payload.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
            false => (0, payload),
        };
        let fields = if self.has(PRIORITY) { PRIORITY_BYTES } else { 0 };
        let padded = payload.get(fields..)?;
        padded.get(..padded.len().checked_sub(padding)?)
    }
}

#[cfg(test)]
mod tests;
