//! Finds the errors of clients in the HTTP/2 frames that are sent.
//!
//! h2 resets the stream of a malformed request, or closes the connection, and tells no service of it.

use crate::h2_frames::frame_head::{FrameHead, GOAWAY, HEAD_BYTES, RST_STREAM};

/// Bytes of an error code, and of the stream's number before it in GOAWAY [RFC9113 §6.4, §6.8].
const CODE_BYTES: usize = 4;
const STREAM_BYTES: usize = 4;

/// What only a client that does not follow the protocol is told: `PROTOCOL_ERROR`,
/// `FLOW_CONTROL_ERROR`, `FRAME_SIZE_ERROR` and `COMPRESSION_ERROR` [RFC9113 §7].
const ERRORS_OF_CLIENTS: [u32; 4] = [1, 3, 6, 9];

/// What has been sent of a connection's last frame.
#[derive(Debug, Default)]
pub(crate) struct SentFrames {
    /// What is still to pass of the frame.
    passing: usize,
    /// Its start: the head, and the error code if it tells one.
    held: Vec<u8>,
}

impl SentFrames {
    /// Follows `bytes`, which have been sent next; how many errors of the client they tell.
    pub(crate) fn follow(&mut self, mut bytes: &[u8]) -> u64 {
        let mut errors = 0;
        loop {
            let passing = self.passing.min(bytes.len());
            self.passing -= passing;
            bytes = &bytes[passing..];
            self.hold(&mut bytes, HEAD_BYTES);
            let Some(FrameHead { length, kind, .. }) = FrameHead::read(&self.held) else {
                return errors;
            };
            let told = match kind {
                RST_STREAM => CODE_BYTES,
                GOAWAY => STREAM_BYTES + CODE_BYTES,
                _ => 0,
            };
            if !self.hold(&mut bytes, HEAD_BYTES + told) {
                return errors;
            }
            let code = self.held.last_chunk().map(|code| u32::from_be_bytes(*code));
            let is_error = told > 0 && code.is_some_and(|code| ERRORS_OF_CLIENTS.contains(&code));
            errors += u64::from(is_error);
            self.passing = length.saturating_sub(told);
            self.held.clear();
        }
    }

    /// Takes from `bytes` until `count` are held; whether they are.
    fn hold(&mut self, bytes: &mut &[u8], count: usize) -> bool {
        let missing = count.saturating_sub(self.held.len());
        let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
        self.held.extend_from_slice(taken);
        *bytes = rest;
        self.held.len() >= count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let head = [0, 0, payload.len() as u8, kind, 0, 0, 0, 0, 1];
        [&head[..], payload].concat()
    }

    #[test]
    fn errors_of_the_client_are_found_in_whatever_pieces_they_are_sent() {
        let error = [0, 0, 0, 7, 0, 0, 0, 1];
        let sent = [
            frame(4, &[]),
            frame(RST_STREAM, &error[4..]),
            // Data that looks like one.
            frame(0, &frame(RST_STREAM, &error[4..])),
            // The client has cancelled, or leaves.
            frame(RST_STREAM, &[0, 0, 0, 8]),
            frame(GOAWAY, &[0; 8]),
            frame(GOAWAY, &[&error[..], b"why"].concat()),
            frame(0, b"x"),
        ];
        let sent = sent.concat();
        for piece in 1..=sent.len() {
            let mut frames = SentFrames::default();
            let errors: u64 = sent.chunks(piece).map(|piece| frames.follow(piece)).sum();
            assert_eq!((errors, frames.passing, frames.held.len()), (2, 0, 0), "{piece}");
        }
    }
}
