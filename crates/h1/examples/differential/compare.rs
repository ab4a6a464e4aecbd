//! One input to both readers, and inputs that try what readers disagree about.

use std::collections::BTreeMap;
use std::fmt;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tamarisk_h1::{Event, Limits, RequestReader, Violation};
use tamarisk_server::guard::{Limits as GuardLimits, Watch};

/// Small, so that inputs come to them.
const LIMITS: Limits = Limits { first_line_max: 128, head_max: 512, body_max: Some(600) };

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) heads: u64,
    pub(crate) violation: Option<Violation>,
}

/// Shows `input` to both in pieces of the lengths that `next_piece` gives.
///
/// After each piece they have seen as many heads, say the same of the request that is under way,
/// and have come to the same byte; within a body the codec may hold trailers back that the guard
/// lets pass.
pub(crate) fn compare(
    input: &[u8],
    mut next_piece: impl FnMut(usize) -> usize,
) -> Result<Outcome, String> {
    let guard_limits = GuardLimits::default()
        .request_line(LIMITS.first_line_max)
        .head(LIMITS.head_max)
        .body(LIMITS.body_max);
    let (mut guard, mut codec) = (Watch::new(guard_limits), RequestReader::new(LIMITS));
    let (mut passed, mut used, mut heads, mut end) = (0, 0, 0, 0);
    while end < input.len() {
        end += next_piece(input.len() - end).clamp(1, input.len() - end);
        let by_guard = loop {
            match guard.scan(&input[passed..end]) {
                Ok(0) => break None,
                Ok(bytes) => passed += bytes,
                Err(violation) => break Some(violation),
            }
        };
        let by_codec = loop {
            match codec.next(&input[used..end]) {
                Ok(None) => break None,
                Ok(Some(event)) => {
                    used += event.len();
                    heads += u64::from(matches!(event, Event::Head(_)));
                }
                Err(violation) => break Some(violation),
            }
        };
        let said = [
            (guard.requests(), by_guard, guard.is_within_body(), guard.is_undecided()),
            (heads, by_codec, codec.is_within_body(), codec.is_undecided()),
        ];
        let is_same_place = if codec.is_within_body() { used <= passed } else { used == passed };
        if said[0] != said[1] || !is_same_place {
            let [guard, codec] = said;
            return Err(format!(
                "after {end} bytes of b\"{}\":\n  guard {guard:?} at {passed}\n  codec {codec:?} at {used}",
                input.escape_ascii()
            ));
        }
        if by_codec.is_some() {
            return Ok(Outcome { heads, violation: by_codec });
        }
        if codec.is_undecided() {
            guard.resume();
            codec.resume();
        }
    }
    Ok(Outcome { heads, violation: None })
}

/// Makes inputs out of well-formed requests and shows them to both.
pub(crate) struct Mutator {
    random: StdRng,
    pub(crate) seen: Seen,
}

/// How often which outcome was seen.
#[derive(Default)]
pub(crate) struct Seen {
    heads: u64,
    violations: BTreeMap<String, u64>,
    sound: u64,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} heads; {} without a violation", self.heads, self.sound)?;
        self.violations.iter().try_for_each(|(violation, count)| write!(f, ", {count} {violation}"))
    }
}

const METHODS: [&str; 8] = ["GET", "POST", "HEAD", "OPTIONS", "CONNECT", "PUT", "FETCH", "get"];
const TARGETS: [&str; 8] =
    ["/", "/a?b=%20", "*", "http://a/x", "a:80", "/{}|^", "http://u@a/", "/#f"];
const VERSIONS: [&str; 6] =
    ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "http/1.1"];
const FRAMINGS: [&str; 4] =
    ["Content-Length: 5", "Transfer-Encoding: chunked", "Connection: close", "Upgrade: websocket"];
const FIELDS: [&str; 20] = [
    "Content-Length: 5",
    "Content-Length: 0",
    "content-length:3",
    "Content-Length: 5, 5",
    "Content-Length: +5",
    "Content-Length: 700",
    "Transfer-Encoding: chunked",
    "transfer-encoding:\tChunked ",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding : chunked",
    "Connection: close",
    "Connection: upgrade",
    "Upgrade: websocket",
    "Expect: 100-continue",
    "Host: b",
    "X: \u{e9}",
    " folded: yes",
    "X:",
    "Cookie: a=b; c=d",
];
const CHUNKS: [&str; 7] = [
    "5\r\nhello\r\n0\r\n\r\n",
    "5;x=\"y\"\r\nhello\r\n0\r\nX: 1\r\n\r\n",
    "0\r\n\r\n",
    "3\nabc\n0\n\n",
    "00a\r\n0123456789\r\n000\r\n\r\n",
    "fffffffffffffffff\r\n",
    "259\r\n",
];
/// What readers of HTTP have been known to see differently.
const PIECES: [&str; 24] = [
    "\r\n",
    "\n",
    "\r",
    "\r\r\n",
    "\n\n",
    "\r\n\r\n",
    " ",
    "\t",
    ":",
    ";",
    ",",
    "\0",
    "\u{b}",
    "\u{7f}",
    "\u{a0}",
    "0",
    "0\r\n\r\n",
    "chunked",
    "HTTP/1.1",
    "GET / HTTP/1.1\r\n",
    "-",
    "+",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
];

impl Mutator {
    /// The same inputs for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), seen: Seen::default() }
    }

    /// Makes one more input and shows it to both; what they differ in.
    pub(crate) fn run_one(&mut self) -> Result<(), String> {
        let input = self.input();
        let most = [1, 4, 32, usize::MAX][self.random.random_range(0..4)];
        let random = &mut self.random;
        let outcome = compare(&input, |left| random.random_range(1..=most.min(left)))?;
        self.seen.heads += outcome.heads;
        match outcome.violation {
            Some(violation) => {
                *self.seen.violations.entry(format!("{violation:?}")).or_default() += 1
            }
            None => self.seen.sound += 1,
        }
        Ok(())
    }

    fn input(&mut self) -> Vec<u8> {
        let mut input = Vec::new();
        for _ in 0..self.random.random_range(1..=3) {
            self.request(&mut input);
        }
        for _ in 0..self.random.random_range(0..=2) {
            self.change(&mut input);
        }
        input
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a [u8] {
        all[self.random.random_range(0..all.len())].as_bytes()
    }

    fn request(&mut self, input: &mut Vec<u8>) {
        // Mostly the plain one, or hardly any request would be well-formed.
        let plain = self.random.random_range(0..4) > 0;
        let (method, target, version) = if plain {
            (&b"POST"[..], &b"/"[..], &b"HTTP/1.1"[..])
        } else {
            (self.one_of(&METHODS), self.one_of(&TARGETS), self.one_of(&VERSIONS))
        };
        for part in [method, b" ", target, b" ", version, b"\r\nHost: a\r\n"] {
            input.extend_from_slice(part);
        }
        let mut framing = &b""[..];
        for _ in 0..self.random.random_range(0..=2) {
            framing = if plain { self.one_of(&FRAMINGS) } else { self.one_of(&FIELDS) };
            input.extend_from_slice(framing);
            input.extend_from_slice(b"\r\n");
            if plain {
                break;
            }
        }
        input.extend_from_slice(b"\r\n");
        let body = match framing {
            b"Content-Length: 5" => b"hello",
            b"Transfer-Encoding: chunked" => self.one_of(&CHUNKS),
            _ if plain => b"",
            _ => self.one_of(&CHUNKS),
        };
        input.extend_from_slice(body);
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.random.random_range(0..=input.len());
        let end = (at + self.random.random_range(0..8)).min(input.len());
        match self.random.random_range(0..6) {
            0 if at < input.len() => input[at] = self.random.random(),
            1 if at < input.len() => input[at] ^= 1 << self.random.random_range(0..8),
            2 => drop(input.drain(at..end)),
            3 => {
                let doubled = input[at..end].to_vec();
                input.splice(at..at, doubled);
            }
            4 => {
                let long = vec![b'x'; self.random.random_range(0..600)];
                input.splice(at..at, long);
            }
            _ => {
                let piece = self.one_of(&PIECES).to_vec();
                input.splice(at..at, piece);
            }
        }
    }
}
