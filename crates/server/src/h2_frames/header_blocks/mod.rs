//! Header blocks of HTTP/2 requests, of which h2 is made to reject all that are malformed.
//!
//! This folder goes when h2 rejects these requests itself. They are malformed and are to be reset with
//! PROTOCOL_ERROR [RFC9113 §8.1.1]; h2 0.4 serves them without what is wrong:
//!
//! 1. A head or trailers with a malformed field before the place where a frame ends within a field. h2
//!    forgets the error when it reads the CONTINUATION. So several frames become one. Heads that do not
//!    fit into one frame are cut between their fields; only a field that is longer than a frame is
//!    cut, and nothing is in front of it in its frame. h2 closes the connection if such a head is
//!    malformed.
//! 2. Trailers with a pseudo-header field [RFC9113 §8.1], which h2 leaves out. But it does reject a
//!    pseudo-header field that follows a regular one. So a regular field, the mark, is put in front of
//!    all trailers. It is one byte and changes no table, so no block has to be decoded. [`remove_mark`]
//!    takes it out of the trailers again.
//!
//! `tests/it/header_blocks.rs` sends both, and passes without this folder once h2 is mended. What is
//! left then is to follow frames for the [`FrameBudget`].
//!
//! A head in one frame, and every frame that is no header block, passes uncopied; only its nine bytes
//! of head are read.
//!
//! Trailers that do not fit into one frame lose their END_STREAM flag, without which h2 resets the
//! stream just so. h2 counts 36 bytes for the mark, and leaves out those trailers that exceed the limit
//! on heads.

mod hpack;

use std::mem;

use bytes::Bytes;
use http::header::HOST;
use http_body::Frame;

use crate::h2_frames::frame_budget::FrameBudget;
use crate::h2_frames::frame_head::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameHead, HEAD_BYTES, HEADERS, RST_STREAM,
};

/// Of "PRI * HTTP/2.0", which the client sends before its first frame [RFC9113 §3.4].
const PREFACE_BYTES: usize = 24;

/// The longest payload that h2 takes, as long as we allow no more [RFC9113 §4.2].
const PAYLOAD_BYTES_MAX: usize = 16_384;

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

/// Follows the frames of a client, and replaces the header blocks among them that h2 would misjudge.
pub(crate) struct HeaderGuard {
    budget: FrameBudget,
    /// What is still to pass as it is: of the preface, or of a frame.
    passing: usize,
    open: OpenStreams,
    /// The start of a frame's head, or of a header block.
    held: Vec<u8>,
}

impl HeaderGuard {
    /// For a client that has sent nothing yet.
    pub(crate) fn new() -> Self {
        let (budget, open) = (FrameBudget::default(), OpenStreams::default());
        Self { budget, passing: PREFACE_BYTES, open, held: Vec::new() }
    }

    /// Takes the next bytes of the client: how many of them pass as they are, and what is to be read
    /// after these in place of the others.
    pub(crate) fn follow(&mut self, bytes: &[u8]) -> (usize, Vec<u8>) {
        let passed = if self.held.is_empty() { self.pass(bytes) } else { 0 };
        let replaced = if passed < bytes.len() { self.hold(&bytes[passed..]) } else { Vec::new() };
        (passed, replaced)
    }

    /// What the client may send of frames that bring nothing further.
    pub(crate) fn budget(&mut self) -> &mut FrameBudget {
        &mut self.budget
    }

    /// A frame that passes, or begins what does.
    fn came(&mut self, head: FrameHead) {
        let is_empty = head.length == 0 && !head.has(END_STREAM);
        self.budget.came(head.kind, head.stream, is_empty);
        self.open.follow(head);
    }

    /// How many of `bytes` come before a block to be replaced, or the incomplete head of a frame.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let mut passed = 0;
        loop {
            let passing = self.passing.min(bytes.len() - passed);
            passed += passing;
            self.passing -= passing;
            let Some(head) = FrameHead::read(&bytes[passed..]) else { return passed };
            let is_whole_head = || head.has(END_HEADERS) && !self.open.contains(head.stream);
            if head.kind == HEADERS && !is_whole_head() {
                return passed;
            }
            self.came(head);
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
            let Some(block) = HeaderBlock::read(behind, &self.open) else {
                let is_all = behind.len() == held.len();
                self.held = if is_all { held } else { behind.to_vec() };
                return ready;
            };
            self.came(block.head);
            ready.extend_from_slice(&block.replacement);
            self.passing = block.passing;
            rest = &behind[block.length..];
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

    /// Follows a frame of the client, as h2 reads it.
    fn follow(&mut self, head: FrameHead) {
        match (head.kind, head.has(END_STREAM)) {
            (HEADERS, false) if !self.contains(head.stream) => self.begin(head.stream),
            (HEADERS | DATA, true) | (RST_STREAM, _) => self.end(head.stream),
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

/// What begins with a HEADERS frame.
struct HeaderBlock {
    /// Of the first frame, as h2 reads it.
    head: FrameHead,
    /// To be read in place of the bytes of that `length`.
    replacement: Vec<u8>,
    length: usize,
    /// How many bytes pass behind these.
    passing: usize,
}

/// What a header block is to its stream.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Head,
    Trailers,
}

impl HeaderBlock {
    /// Reads the block that `bytes` begin with, once it can be judged.
    fn read(bytes: &[u8], open: &OpenStreams) -> Option<Self> {
        let first = FrameHead::read(bytes)?;
        let role = if open.contains(first.stream) { Role::Trailers } else { Role::Head };
        let bytes_max = match role {
            Role::Head => FRAMES_MAX * PAYLOAD_BYTES_MAX,
            // One byte is left for the mark.
            Role::Trailers => PAYLOAD_BYTES_MAX - 1,
        };
        let (mut length, mut payload_bytes) = (0, 0);
        for number in 0..FRAMES_MAX {
            let head = FrameHead::read(bytes.get(length..)?)?;
            let is_next = number == 0 || head.kind == CONTINUATION && head.stream == first.stream;
            payload_bytes += head.length;
            if !is_next || head.length > PAYLOAD_BYTES_MAX || payload_bytes > bytes_max {
                break;
            }
            length += HEAD_BYTES + head.length;
            if head.has(END_HEADERS) {
                return Some(Self::of(first, bytes.get(..length)?, role));
            }
        }
        Some(Self::rejected(first, role))
    }

    /// The block in `frames`: a `first` one and those that continue it.
    fn of(first: FrameHead, frames: &[u8], role: Role) -> Self {
        let Some(mut block) = joined(first, frames) else { return Self::rejected(first, role) };
        if role == Role::Trailers {
            let updates = hpack::fields(&block).take_while(|field| hpack::is_size_update(field));
            block.insert(updates.map(<[u8]>::len).sum(), MARK);
        }
        let replacement = framed(first, &block);
        Self { head: first, replacement, length: frames.len(), passing: 0 }
    }

    /// Trailers that are too long, or a block for which h2 will close the connection.
    fn rejected(first: FrameHead, role: Role) -> Self {
        let kept = match role {
            Role::Head => first.flags,
            Role::Trailers => first.flags & !END_STREAM,
        };
        let head = FrameHead { flags: kept, ..first };
        let replacement = head.bytes().to_vec();
        Self { head, replacement, length: HEAD_BYTES, passing: first.length }
    }
}

/// The block in `frames`, without padding and priority. None if the padding is longer than the frame.
fn joined(first: FrameHead, frames: &[u8]) -> Option<Vec<u8>> {
    let (payload, mut rest) = frames[HEAD_BYTES..].split_at(first.length);
    let mut block = first.fragment(payload)?.to_vec();
    while let Some(head) = FrameHead::read(rest) {
        let (fragment, behind) = rest[HEAD_BYTES..].split_at(head.length);
        block.extend_from_slice(fragment);
        rest = behind;
    }
    Some(block)
}

/// A block in as few frames as hold it, on the stream of the `first`.
fn framed(first: FrameHead, block: &[u8]) -> Vec<u8> {
    let fragments = fragments(block);
    let last = fragments.len() - 1;
    let mut frames = Vec::with_capacity(block.len() + fragments.len() * HEAD_BYTES);
    for (index, fragment) in fragments.into_iter().enumerate() {
        let kind = if index == 0 { HEADERS } else { CONTINUATION };
        let end_stream = if index == 0 { first.flags & END_STREAM } else { 0 };
        let end_headers = if index == last { END_HEADERS } else { 0 };
        let flags = end_stream | end_headers;
        let head = FrameHead { length: fragment.len(), kind, flags, stream: first.stream };
        frames.extend_from_slice(&head.bytes());
        frames.extend_from_slice(fragment);
    }
    frames
}

/// The pieces of a block for one frame each: one, or some that end between fields, but within a field
/// if there is no other in it.
fn fragments(block: &[u8]) -> Vec<&[u8]> {
    let mut fragments = Vec::new();
    let (mut start, mut end) = (0, 0);
    for field in hpack::fields(block) {
        if end > start && end - start + field.len() > PAYLOAD_BYTES_MAX {
            fragments.push(&block[start..end]);
            start = end;
        }
        end += field.len();
        while end - start > PAYLOAD_BYTES_MAX {
            fragments.push(&block[start..start + PAYLOAD_BYTES_MAX]);
            start += PAYLOAD_BYTES_MAX;
        }
    }
    fragments.push(&block[start..end]);
    fragments
}

#[cfg(test)]
mod tests;
