//! The guard by itself: which bytes it passes on, and what it makes of header blocks.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::h2_frames::frame_head::{PADDED, PRIORITY};

const PREFACE: &[u8; PREFACE_BYTES] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: u8 = 4;
const NO_FLAGS: u8 = 0;

/// The longest payload of a frame, unless the server allows more [RFC9113 §6.5.2].
const FRAME: usize = 16_384;

const END: u8 = END_HEADERS | END_STREAM;

/// `:path: /` of the static table.
const PATH: u8 = 0x84;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { length: payload.len(), kind, flags, stream };
    [&head.bytes()[..], payload].concat()
}

/// The head of a request on a stream that stays open.
fn opening(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &[PATH])
}

/// What h2 reads of a client that sends these frames in pieces of the given lengths.
fn read_in(frames: &[u8], mut lengths: impl FnMut() -> usize) -> Vec<u8> {
    let sent = [PREFACE, frames].concat();
    let (mut guard, mut rest, mut read) = (HeaderGuard::new(), &sent[..], Vec::new());
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(lengths().clamp(1, rest.len()));
        let (passed, replaced) = guard.follow(piece);
        read.extend_from_slice(&piece[..passed]);
        read.extend_from_slice(&replaced);
        rest = behind;
    }
    assert_eq!(read[..PREFACE_BYTES], *PREFACE);
    read.split_off(PREFACE_BYTES)
}

/// h2 reads `expected` of a client that sends `frames`, wherever these are cut.
#[track_caller]
fn check(frames: &[Vec<u8>], expected: &[Vec<u8>]) {
    let (frames, expected) = (frames.concat(), expected.concat());
    for cut in 1..PREFACE_BYTES + frames.len() {
        let mut lengths = [cut, usize::MAX].into_iter().cycle();
        let read = read_in(&frames, || lengths.next().expect("it has no end"));
        assert_eq!(read, expected, "cut at {cut}");
    }
    assert_eq!(read_in(&frames, || 1), expected, "byte by byte");
}

#[test]
fn trailers_begin_with_the_mark() {
    let data = frame(DATA, NO_FLAGS, 1, b"body");
    check(
        &[opening(1), data.clone(), frame(HEADERS, END, 1, b"trailers"), opening(3)],
        &[opening(1), data, frame(HEADERS, END, 1, b"\xa6trailers"), opening(3)],
    );
    check(
        &[opening(1), frame(HEADERS, END, 1, b"")],
        &[opening(1), frame(HEADERS, END, 1, b"\xa6")],
    );
}

#[test]
fn trailers_that_do_not_end_the_stream_still_do_not() {
    let marked = frame(HEADERS, END_HEADERS, 1, b"\xa6trailers");
    check(&[opening(1), frame(HEADERS, END_HEADERS, 1, b"trailers")], &[opening(1), marked]);
}

#[test]
fn table_size_updates_stay_in_front_of_the_mark() {
    for (block, marked) in [
        (&b"\x20field"[..], &b"\x20\xa6field"[..]),
        (b"\x20\x3f\xe1\x1ffield", b"\x20\x3f\xe1\x1f\xa6field"),
        (b"\x3e", b"\x3e\xa6"),
        (b"\x3f\xe1", b"\x3f\xe1\xa6"),
    ] {
        check(
            &[opening(1), frame(HEADERS, END, 1, block)],
            &[opening(1), frame(HEADERS, END, 1, marked)],
        );
    }
}

#[test]
fn padding_and_priority_are_left_out() {
    let marked = [opening(1), frame(HEADERS, END, 1, b"\xa6field")];
    for (flags, payload) in [
        (PADDED, &b"\x02field\0\0"[..]),
        (PRIORITY, b"\0\0\0\0\x10field"),
        (PADDED | PRIORITY, b"\x01\0\0\0\0\x10field\0"),
    ] {
        check(&[opening(1), frame(HEADERS, END | flags, 1, payload)], &marked);
    }
}

#[test]
fn padding_beyond_the_frame_is_not_mended() {
    for (flags, payload) in [
        (PADDED, &b"\x06field"[..]),
        (PADDED, b""),
        (PRIORITY, b"\0\0\0\0"),
        (PADDED | PRIORITY, b"\x01\0\0\0\0\x10"),
    ] {
        check(
            &[opening(1), frame(HEADERS, END | flags, 1, payload)],
            &[opening(1), frame(HEADERS, END_HEADERS | flags, 1, payload)],
        );
    }
}

#[test]
fn trailers_in_several_frames_become_one() {
    let frames = [
        frame(HEADERS, END_STREAM | PADDED, 1, b"\x01trai\0"),
        frame(CONTINUATION, NO_FLAGS, 1, b""),
        frame(CONTINUATION, END_HEADERS, 1, b"lers"),
    ];
    check(
        &[&[opening(1)], &frames[..], &[opening(3)]].concat(),
        &[opening(1), frame(HEADERS, END, 1, b"\xa6trailers"), opening(3)],
    );
}

#[test]
fn trailers_that_are_continued_by_something_else_lose_their_end() {
    for next in [
        frame(SETTINGS, NO_FLAGS, 0, b""),
        frame(CONTINUATION, END_HEADERS, 3, b"x"),
        frame(HEADERS, END, 1, b"x"),
    ] {
        let read =
            read_in(&[opening(1), frame(HEADERS, END_STREAM, 1, b"a"), next].concat(), || {
                usize::MAX
            });
        let lost = [opening(1), frame(HEADERS, NO_FLAGS, 1, b"a")].concat();
        assert!(read.starts_with(&lost), "{read:?}");
    }
}

#[test]
fn trailers_that_fill_one_frame_are_the_longest_that_are_marked() {
    let most = FRAME - 1;
    let half = most / 2;
    let block = vec![b'x'; most + 1];
    let marked = |bytes: &[u8]| frame(HEADERS, END, 1, &[&[MARK][..], bytes].concat());
    let in_two = |length: usize| {
        let (first, second) = block[..length].split_at(half);
        let end = if length > most { NO_FLAGS } else { END_STREAM };
        let sent =
            [frame(HEADERS, END_STREAM, 1, first), frame(CONTINUATION, END_HEADERS, 1, second)]
                .concat();
        let lost = [frame(HEADERS, end, 1, first), sent[HEAD_BYTES + half..].to_vec()].concat();
        (sent, lost)
    };
    for (sent, expected) in [
        (frame(HEADERS, END, 1, &block[..most]), marked(&block[..most])),
        (frame(HEADERS, END, 1, &block), frame(HEADERS, END_HEADERS, 1, &block)),
        (in_two(most).0, marked(&block[..most])),
        in_two(most + 1),
    ] {
        for length in [7, 1000, usize::MAX] {
            let read = read_in(&[opening(1), sent.clone()].concat(), || length);
            assert!(read == [opening(1), expected.clone()].concat(), "in pieces of {length}");
        }
    }
}

/// The most bytes that are held of a block that goes on and on, on stream 1.
fn most_held(guard: &mut HeaderGuard) -> usize {
    let (mut held, mut frame) = (0, frame(HEADERS, END_STREAM, 1, b""));
    for _ in 0..100 {
        guard.follow(&frame);
        held = held.max(guard.held.len());
        frame = self::frame(CONTINUATION, NO_FLAGS, 1, &[b'x'; 4096]);
    }
    held
}

#[test]
fn no_more_is_held_than_one_frame() {
    let mut guard = HeaderGuard::new();
    guard.follow(&[&PREFACE[..], &opening(1)].concat());
    let held = most_held(&mut guard);
    assert!((4096..FRAME + 7 * 9).contains(&held), "{held}");
    assert_eq!(guard.held.len(), 0, "it has let go");
}

#[test]
fn of_heads_as_many_frames_are_held_as_h2_takes() {
    let mut guard = HeaderGuard::new();
    guard.follow(PREFACE);
    assert_eq!(most_held(&mut guard), 6 * 9 + 5 * 4096, "before a seventh is seen");
    assert_eq!(guard.held.len(), 0, "it has let go");
}

#[test]
fn as_many_frames_are_joined_as_h2_takes() {
    for (continuations, end) in [(6, END), (7, END_HEADERS)] {
        let mut frames = vec![opening(1), frame(HEADERS, END_STREAM, 1, b"a")];
        frames.extend((1..continuations).map(|_| frame(CONTINUATION, NO_FLAGS, 1, b"")));
        frames.push(frame(CONTINUATION, END_HEADERS, 1, b""));
        let read = read_in(&frames.concat(), || usize::MAX);
        let trailers = FrameHead::read(&read[opening(1).len()..]).unwrap();
        assert_eq!(trailers.has(END_STREAM), end == END);
    }
}

#[test]
fn heads_in_several_frames_become_one_without_a_mark() {
    for end in [NO_FLAGS, END_STREAM] {
        let frames = [
            frame(HEADERS, end | PADDED | PRIORITY, 1, b"\x01\0\0\0\0\x10he\0"),
            frame(CONTINUATION, NO_FLAGS, 1, b"a"),
            frame(CONTINUATION, END_HEADERS, 1, b"d"),
        ];
        check(
            &[&frames[..], &[opening(3)]].concat(),
            &[frame(HEADERS, end | END_HEADERS, 1, b"head"), opening(3)],
        );
    }
}

#[test]
fn streams_that_several_frames_open_may_have_trailers() {
    let head = [frame(HEADERS, NO_FLAGS, 1, &[PATH]), frame(CONTINUATION, END_HEADERS, 1, b"")];
    let trailers = frame(HEADERS, END, 1, b"trailers");
    let marked = frame(HEADERS, END, 1, b"\xa6trailers");
    check(&[&head[..], std::slice::from_ref(&trailers)].concat(), &[opening(1), marked]);
    let ended = [frame(HEADERS, END_STREAM, 1, &[PATH]), frame(CONTINUATION, END_HEADERS, 1, b"")];
    check(
        &[&ended[..], std::slice::from_ref(&trailers)].concat(),
        &[frame(HEADERS, END, 1, &[PATH]), trailers],
    );
}

#[test]
fn heads_for_which_h2_closes_the_connection_pass_as_they_are() {
    let first = frame(HEADERS, END_STREAM, 1, b"a");
    let more = frame(CONTINUATION, NO_FLAGS, 1, b"b");
    let last = frame(CONTINUATION, END_HEADERS, 1, b"c");
    let too_many = [vec![first.clone()], vec![more; 6], vec![last.clone()]].concat();
    for frames in [
        &[first.clone(), frame(SETTINGS, NO_FLAGS, 0, b""), last.clone()][..],
        &[first.clone(), frame(CONTINUATION, END_HEADERS, 3, b"x")],
        &[frame(HEADERS, END_STREAM | PADDED, 1, b"\x06field"), last.clone()],
        &too_many,
        &[first, frame(CONTINUATION, END_HEADERS, 1, &vec![b'x'; FRAME + 1])],
        &[frame(HEADERS, END_STREAM, 1, &vec![b'x'; FRAME + 1]), last],
    ] {
        let sent = frames.concat();
        for length in [1, usize::MAX] {
            assert!(read_in(&sent, || length) == sent, "{frames:?}");
        }
    }
}

/// A literal field of so many bytes, 131 or more [RFC7541 §5.1].
fn field(bytes: usize) -> Vec<u8> {
    let rest = bytes - 7 - 127;
    let length = [0x80 | rest as u8, 0x80 | (rest >> 7) as u8, (rest >> 14) as u8];
    [&b"\0\x01x\x7f"[..], &length, &vec![b'v'; bytes - 7]].concat()
}

#[test]
fn long_heads_are_cut_between_fields_and_longer_fields_alone() {
    for (fields, expected) in [
        (&[FRAME][..], &[FRAME][..]),
        (&[FRAME - 200, 200], &[FRAME]),
        (&[FRAME - 200, 201], &[FRAME - 200, 201]),
        (&[200, FRAME], &[200, FRAME]),
        (&[9000, 9000, 300, 9000], &[9000, 9300, 9000]),
        (&[FRAME + 1], &[FRAME, 1]),
        (&[200, FRAME + 1, 300], &[200, FRAME, 301]),
        (&[200, 2 * FRAME, 300], &[200, FRAME, FRAME, 300]),
        (&[200, 2 * FRAME + 5000, 6000, 6000], &[200, FRAME, FRAME, 11_000, 6000]),
    ] {
        let block = fields.iter().flat_map(|bytes| field(*bytes)).collect::<Vec<_>>();
        let cut = |lengths: &[usize]| {
            let (mut frames, mut rest) = (Vec::new(), &block[..]);
            for (index, length) in lengths.iter().enumerate() {
                let (fragment, behind) = rest.split_at(*length);
                let (kind, end) =
                    if index == 0 { (HEADERS, END_STREAM) } else { (CONTINUATION, 0) };
                let flags = end | if behind.is_empty() { END_HEADERS } else { NO_FLAGS };
                frames.extend(frame(kind, flags, 1, fragment));
                rest = behind;
            }
            assert!(rest.is_empty());
            frames
        };
        let pieces = block.len().div_ceil(FRAME).max(2);
        let mut lengths = vec![block.len() / pieces; pieces - 1];
        lengths.push(block.len() - lengths.iter().sum::<usize>());
        for length in [997, usize::MAX] {
            let read = read_in(&cut(&lengths), || length);
            assert!(read == cut(expected), "{fields:?} in pieces of {length}");
        }
    }
}

#[test]
fn what_comes_on_a_stream_that_its_client_has_ended_passes() {
    let late = frame(HEADERS, END, 1, &[PATH]);
    for end in [
        vec![frame(HEADERS, END, 1, &[PATH])],
        vec![opening(1), frame(DATA, END_STREAM, 1, b"")],
        vec![opening(1), frame(RST_STREAM, NO_FLAGS, 1, &[0; 4])],
    ] {
        let frames = [&end[..], std::slice::from_ref(&late)].concat();
        check(&frames, &frames);
    }
    let marked = frame(HEADERS, END, 1, &[MARK, b'a']);
    check(&[opening(1), frame(HEADERS, END, 1, b"a"), late.clone()], &[opening(1), marked, late]);
}

#[test]
fn more_streams_than_are_remembered_stay_open() {
    let streams = 400;
    let opened = (0..streams).flat_map(|index| opening(2 * index + 1)).collect::<Vec<_>>();
    for index in 0..streams {
        let trailers = frame(HEADERS, END, 2 * index + 1, b"a");
        let read = read_in(&[&opened[..], &trailers].concat(), || usize::MAX);
        let expected = frame(HEADERS, END, 2 * index + 1, b"\xa6a");
        assert!(read == [&opened[..], &expected].concat(), "stream {index}");
    }
    let mut guard = HeaderGuard::new();
    guard.follow(&[&PREFACE[..], &opened].concat());
    assert!(guard.open.open.capacity() <= 128);
}

#[test]
fn whatever_has_no_trailers_passes_unchanged() {
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..300 {
        let mut frames = Vec::new();
        for stream in 0..random.random_range(1..20) {
            let mut payload = vec![0; random.random_range(0..100)];
            random.fill(&mut payload[..]);
            // Streams ended at once, streams with a body, and frames of other kinds.
            match random.random_range(0..3) {
                0 => frames.extend(frame(HEADERS, random.random(), 2 * stream + 1, &payload)),
                1 => {
                    frames.extend(opening(2 * stream + 1));
                    frames.extend(frame(DATA, random.random(), 2 * stream + 1, &payload));
                }
                _ => frames.extend(frame(random.random_range(2..=255), 0, stream, &payload)),
            }
        }
        // Without another frame, a head that is not complete would wait for its rest.
        frames.extend(frame(SETTINGS, NO_FLAGS, 0, b""));
        let read = read_in(&frames, || random.random_range(1..40));
        assert!(read == frames, "{frames:?}");
    }
}
