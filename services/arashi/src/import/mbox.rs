//! The messages of an mbox: each begins behind a line `From sender date`, and such lines within
//! messages have a `>` put before them.

use std::io::{self, BufRead, Read};

use mail_parser::DateTime;

/// What is looked at of a line to tell whether it begins a message, and read at once.
const PIECE_BYTES: u64 = 64 << 10;

/// Splits an mbox, of which it holds one message at a time.
pub(crate) struct Mbox<R> {
    reader: R,
    piece: Vec<u8>,
    /// The line `From …` of the message that is read next.
    separator: Option<Vec<u8>>,
    bytes_max: usize,
    /// How many bytes have been read.
    pub(crate) position: u64,
}

/// A message of an mbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MboxMessage {
    /// Where in the file it begins.
    pub(crate) position: u64,
    /// When it came, by the line before it.
    pub(crate) received_seconds: Option<i64>,
    /// Its bytes; its size alone if it is longer than the bound.
    pub(crate) content: Result<Vec<u8>, u64>,
}

/// Whether a file that begins with `start` is an mbox.
pub(crate) fn is_mbox(start: &[u8]) -> bool {
    let first = start.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(0);
    start[first..].starts_with(b"From ")
}

impl<R: BufRead> Mbox<R> {
    /// Messages of more than `bytes_max` bytes are counted and not kept.
    pub(crate) fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader, piece: Vec::new(), separator: None, bytes_max, position: 0 }
    }

    /// Reads a line, or a piece of one that is long.
    fn read_piece(&mut self) -> io::Result<usize> {
        self.piece.clear();
        let mut limited = self.reader.by_ref().take(PIECE_BYTES);
        let read = limited.read_until(b'\n', &mut self.piece)?;
        self.position += read as u64;
        Ok(read)
    }

    /// The next message, or none at the end.
    ///
    /// # Errors
    /// If the file cannot be read further.
    pub(crate) fn next_message(&mut self) -> io::Result<Option<MboxMessage>> {
        while self.separator.is_none() {
            if self.read_piece()? == 0 {
                return Ok(None);
            }
            if self.piece.starts_with(b"From ") {
                self.separator = Some(self.piece.clone());
            }
        }
        let separator = self.separator.take().unwrap_or_default();
        let position = self.position - separator.len() as u64;
        let received_seconds = date(&separator);
        let mut message = Content { bytes: Vec::new(), size: 0, bytes_max: self.bytes_max };
        let mut is_line_start = separator.ends_with(b"\n");
        let mut is_behind_empty = false;
        while self.read_piece()? > 0 {
            if is_line_start && is_behind_empty && is_separator(&self.piece) {
                self.separator = Some(std::mem::take(&mut self.piece));
                break;
            }
            let line = if is_line_start { unquoted(&self.piece) } else { &self.piece };
            message.add(line);
            is_behind_empty = is_line_start && matches!(&*self.piece, b"\n" | b"\r\n");
            is_line_start = self.piece.ends_with(b"\n");
        }
        let content = message.finish(self.separator.is_some() || is_behind_empty);
        Ok(Some(MboxMessage { position, received_seconds, content }))
    }
}

/// The bytes of a message, and how many it has.
struct Content {
    bytes: Vec<u8>,
    size: u64,
    bytes_max: usize,
}

impl Content {
    fn add(&mut self, line: &[u8]) {
        self.size += line.len() as u64;
        if self.size <= self.bytes_max as u64 {
            self.bytes.extend_from_slice(line);
        } else {
            self.bytes = Vec::new();
        }
    }

    /// The empty line before the next separator belongs to the mbox.
    fn finish(mut self, has_empty_line: bool) -> Result<Vec<u8>, u64> {
        if self.size > self.bytes_max as u64 {
            return Err(self.size);
        }
        if has_empty_line {
            let end = if self.bytes.ends_with(b"\r\n") { 2 } else { 1 };
            self.bytes.truncate(self.bytes.len().saturating_sub(end));
        }
        Ok(self.bytes)
    }
}

/// Whether `line` is `From sender date`: it has a time of day, which sentences seldom have.
fn is_separator(line: &[u8]) -> bool {
    let is_time = |at: &[u8]| {
        at[0].is_ascii_digit() && at[1] == b':' && at[2].is_ascii_digit() && at[3].is_ascii_digit()
    };
    line.starts_with(b"From ") && line[..line.len().min(1_000)].windows(4).any(is_time)
}

/// `line` without the `>` that was put before it: one of any number, as mboxrd has it.
fn unquoted(line: &[u8]) -> &[u8] {
    let quotes = line.iter().take_while(|&&byte| byte == b'>').count();
    if quotes > 0 && line[quotes..].starts_with(b"From ") { &line[1..] } else { line }
}

/// The date in `From sender Tue Jul  1 10:52:37 2003`, in UTC.
fn date(separator: &[u8]) -> Option<i64> {
    let line = String::from_utf8_lossy(separator);
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let time = words.iter().position(|word| {
        word.split(':').count() >= 2 && word.len() >= 4 && word.as_bytes()[0].is_ascii_digit()
    })?;
    let month = words.get(time.checked_sub(2)?)?;
    let day = words.get(time - 1)?;
    let year =
        words[time + 1..].iter().find(|word| word.len() == 4 && word.parse::<u16>().is_ok())?;
    let date = DateTime::parse_rfc822(&format!("{day} {month} {year} {} +0000", words[time]))?;
    date.is_valid().then(|| date.to_timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "From a@example.org Tue Jul  1 10:52:37 2003\n";

    fn messages(mbox: &str, bytes_max: usize) -> Vec<Result<String, u64>> {
        let mut mbox = Mbox::new(mbox.as_bytes(), bytes_max);
        let mut all = Vec::new();
        while let Some(message) = mbox.next_message().unwrap() {
            all.push(message.content.map(|content| String::from_utf8(content).unwrap()));
        }
        all
    }

    fn check(mbox: &str, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(|&one| Ok(one.to_owned())).collect();
        assert_eq!(messages(mbox, 1_000), expected, "{mbox:?}");
    }

    #[test]
    fn splits_at_lines_that_begin_a_message() {
        check("", &[]);
        check("no mbox\n", &[]);
        check(START, &[""]);
        check(&format!("{START}A: b\n\nc\n\n{START}D: e\n\nf\n"), &["A: b\n\nc\n", "D: e\n\nf\n"]);
        check(&format!("\n\n{START}A: b\n\nc\n\n"), &["A: b\n\nc\n"]);
        check(&format!("{START}A: b\n\nno newline"), &["A: b\n\nno newline"]);
        let in_crlf = format!("{START}A: b\n\nc\n\n{START}D: e\n\nf\n").replace('\n', "\r\n");
        check(&in_crlf, &["A: b\r\n\r\nc\r\n", "D: e\r\n\r\nf\r\n"]);
    }

    #[test]
    fn leaves_sentences_alone_that_begin_with_from() {
        check(&format!("{START}A: b\n\n\nFrom here on\n"), &["A: b\n\n\nFrom here on\n"]);
        check(&format!("{START}A: b\n\nc\n{START}"), &[&format!("A: b\n\nc\n{START}")]);
        let quoted = format!("{START}A: b\n\n>From here\n>>From there\n> From\n>\n");
        check(&quoted, &["A: b\n\nFrom here\n>From there\n> From\n>\n"]);
    }

    #[test]
    fn counts_messages_that_are_too_long_and_goes_on() {
        let long = "x".repeat(3 * PIECE_BYTES as usize);
        let mbox = format!("{START}A: b\n\n{long}\n\n{START}D: e\n");
        assert_eq!(messages(&mbox, 1_000), [Err(long.len() as u64 + 8), Ok("D: e\n".to_owned())]);
        let all = messages(&mbox, 1 << 20);
        assert_eq!(all[0], Ok(format!("A: b\n\n{long}\n")));
    }

    #[test]
    fn a_long_line_is_one_line() {
        let mut long = "x".repeat(PIECE_BYTES as usize);
        long.push_str(START);
        check_long(&long);
        check_long(&format!("{}>From \n", "y".repeat(PIECE_BYTES as usize)));
    }

    fn check_long(line: &str) {
        let all = messages(&format!("{START}\n{line}"), 1 << 20);
        assert_eq!(all, [Ok(format!("\n{line}"))]);
    }

    #[test]
    fn reads_the_date_of_the_separator() {
        let check = |line: &str, expected| assert_eq!(date(line.as_bytes()), expected, "{line}");
        check(START, Some(1_057_056_757));
        check("From a at example.org  Tue Jul  1 10:52:37 2003", Some(1_057_056_757));
        check("From a@example.org Tue Jul 01 10:52:37 CEST 2003", Some(1_057_056_757));
        check("From a@example.org", None);
        check("From 10:52:37 2003", None);
        check("From a@example.org Tue Xxx 99 10:52:37 2003", None);
    }
}
