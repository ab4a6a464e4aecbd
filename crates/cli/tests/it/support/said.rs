//! What a process says, line by line; nothing is waited for without end.

#![allow(dead_code, unreachable_pub, reason = "no file of tests needs all of it")]

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// What takes longer than this comes to no end.
pub const STUCK: Duration = Duration::from_secs(60);

/// The lines of outputs of a process, which are read for as long as it lives: its pipes are never
/// full.
pub struct Said(Receiver<String>);

impl Said {
    pub fn by(output: impl Read + Send + 'static) -> Self {
        Self::by_all([Box::new(output)])
    }

    pub fn by_all<const N: usize>(outputs: [Box<dyn Read + Send>; N]) -> Self {
        let (heard, lines) = channel();
        for output in outputs {
            let (heard, output) = (heard.clone(), BufReader::new(output).lines());
            thread::spawn(move || output.map_while(Result::ok).for_each(|l| drop(heard.send(l))));
        }
        Self(lines)
    }

    /// The next line after those so far; `None` once the process has closed its outputs.
    pub fn next(&self, so_far: &str) -> Option<String> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        match self.0.recv_timeout(STUCK) {
            Ok(line) => Some(line),
            Err(Disconnected) => None,
            Err(Timeout) => panic!("nothing more is said in {STUCK:?} after: {so_far}"),
        }
    }

    /// The next line.
    pub fn line(&self) -> String {
        self.next("").expect("one more line")
    }

    /// All lines up to the next one with `end` in it.
    pub fn up_to(&self, end: &str) -> String {
        let mut text = String::new();
        loop {
            let Some(line) = self.next(&text) else { panic!("{end:?} was not said: {text}") };
            text.extend([&line, "\n"]);
            if line.contains(end) {
                return text;
            }
        }
    }

    /// What follows `start` in the next line with `start` in it.
    pub fn after(&self, start: &str) -> String {
        let text = self.up_to(start);
        let (_, rest) = text.split_once(start).expect("`up_to` ends with it");
        rest.trim_end_matches('\n').to_owned()
    }

    /// Where it serves, as its next line of that kind says: `Serving ./public at http://ADDRESS (…`.
    pub fn address(&self) -> String {
        address(&self.up_to(" at http")).to_owned()
    }

    /// All lines until the process has ended.
    pub fn rest(&self) -> String {
        let mut text = String::new();
        while let Some(line) = self.next(&text) {
            text.extend([&line, "\n"]);
        }
        text
    }
}

/// The address in a line such as `Protecting … at http://ADDRESS: 90 % …`.
pub fn address(line: &str) -> &str {
    let (_, rest) = line.rsplit_once(" at http").expect("the line says where");
    let (_, rest) = rest.split_once("://").expect("it is a URL");
    let end = rest.find([' ', '\n', '"']).unwrap_or(rest.len());
    rest[..end].trim_end_matches(':')
}
