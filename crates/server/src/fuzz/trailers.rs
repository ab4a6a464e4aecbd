//! The header blocks of HTTP/2 requests, as h2 is to read them.

use std::collections::HashSet;

use super::input::Input;
use crate::h2_frames::header_blocks::HeaderGuard;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// Of one block: h2 takes no more.
const FRAMES_MAX: usize = 7;

/// The guard passes the frames in `input` on the same however they are cut; of those that are no
/// header blocks none is changed; all trailers have the mark, or do not end their stream; and heads
/// that fit into one frame come in one.
///
/// # Panics
/// If it does not.
pub fn check(input: &[u8]) {
    let input = Input::new(input);
    let read = read(&[input.bytes]);
    assert_eq!(read, self::read(&input.pieces()));
    trailers_are_judged(&read);
    heads_are_joined(&read);
    let sent = others(input.bytes);
    let passed = others(&read);
    // What follows a header block that is incomplete is held.
    assert!(sent.starts_with(&passed));
    if blocks_are_whole(input.bytes) {
        assert_eq!(sent, passed);
    }
}

/// What h2 reads of frames that come in these `pieces`.
fn read(pieces: &[&[u8]]) -> Vec<u8> {
    let (mut guard, mut read) = (HeaderGuard::new(), Vec::new());
    for piece in [&[PREFACE], pieces].concat() {
        let (passed, replaced) = guard.follow(piece);
        read.extend_from_slice(&piece[..passed]);
        read.extend(replaced);
    }
    assert!(read.starts_with(PREFACE));
    read.split_off(PREFACE.len())
}

struct Frame<'a> {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &'a [u8],
}

/// The frames in `bytes` that are complete.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let (head, behind) = bytes.split_at_checked(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (payload, rest) = behind.split_at_checked(length)?;
        bytes = rest;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & (u32::MAX >> 1);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    })
}

fn trailers_are_judged(read: &[u8]) {
    let mut open = HashSet::new();
    for frame in frames(read) {
        let ends = frame.flags & END_STREAM != 0;
        match frame.kind {
            HEADERS if open.contains(&frame.stream) => {
                assert!(!ends || is_marked(&frame), "trailers of {}", frame.stream);
                if ends {
                    open.remove(&frame.stream);
                }
            }
            HEADERS if !ends => drop(open.insert(frame.stream)),
            DATA if ends => drop(open.remove(&frame.stream)),
            RST_STREAM => drop(open.remove(&frame.stream)),
            _ => {}
        }
    }
}

/// The blocks here are far shorter than the longest frame.
fn heads_are_joined(read: &[u8]) {
    let frames = frames(read).collect::<Vec<_>>();
    for (index, first) in frames.iter().enumerate() {
        if first.kind != HEADERS || is_padded_too_much(first) {
            continue;
        }
        let continued = frames[index..].iter().take(FRAMES_MAX).enumerate();
        let mut continued = continued.map_while(|(number, frame)| {
            let is_next = number == 0 || frame.kind == CONTINUATION && frame.stream == first.stream;
            is_next.then_some(frame.flags & END_HEADERS != 0)
        });
        let is_whole = continued.position(|is_last| is_last);
        assert!(matches!(is_whole, None | Some(0)), "{} has more frames", first.stream);
    }
}

/// Whether what a HEADERS frame says of its padding and priority does not fit into it.
fn is_padded_too_much(frame: &Frame<'_>) -> bool {
    let is_padded = frame.flags & PADDED != 0;
    let padding =
        if is_padded { frame.payload.first().map_or(1, |bytes| 1 + u16::from(*bytes)) } else { 0 };
    let priority = if frame.flags & PRIORITY != 0 { 5 } else { 0 };
    usize::from(padding) + priority > frame.payload.len()
}

/// Whether a header block, all in this frame, begins with an empty `host`.
fn is_marked(frame: &Frame<'_>) -> bool {
    let mut block = frame.payload.iter();
    let mut first = block.next();
    while first.is_some_and(|byte| byte & 0xe0 == 0x20) {
        let is_short = first.is_some_and(|byte| byte & 0x1f != 0x1f);
        let has_end = is_short || block.by_ref().take(4).any(|byte| byte & 0x80 == 0);
        // An update without an end has swallowed the mark, and is an error.
        first = if has_end { block.next() } else { None };
    }
    frame.flags == END_STREAM | END_HEADERS && first.is_none_or(|byte| *byte == 0xa6)
}

/// Heads and payloads of all frames but those of header blocks.
fn others(bytes: &[u8]) -> Vec<(u8, u8, u32, &[u8])> {
    frames(bytes)
        .filter(|frame| !matches!(frame.kind, HEADERS | CONTINUATION))
        .map(|frame| (frame.kind, frame.flags, frame.stream, frame.payload))
        .collect()
}

/// Whether no header block waits for its rest.
fn blocks_are_whole(bytes: &[u8]) -> bool {
    let length = frames(bytes).map(|frame| 9 + frame.payload.len()).sum::<usize>();
    length == bytes.len()
        && frames(bytes)
            .filter(|frame| frame.kind == HEADERS)
            .all(|frame| frame.flags & END_HEADERS != 0)
}
