//! Sample mail, drawn by a seed: for a first look, and for load.
//!
//! Sizes, kinds and threads vary as in a mailbox of work: most messages are short text, some are
//! answers that quote, some have HTML beside the text, few have attachments.

use std::collections::VecDeque;
use std::fmt::Write;

use mail_parser::DateTime;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// When the first message was sent, in seconds since 1970: 1 March 2025.
const FIRST_SECONDS: i64 = 1_740_787_200;

/// The longest pause between messages, in seconds.
const PAUSE_SECONDS_MAX: i64 = 7_200;

/// How many messages are remembered, to be answered.
const ANSWERABLE_MAX: usize = 64;

const PEOPLE: [(&str, &str); 12] = [
    ("Reception", "reception"),
    ("Front Office", "office"),
    ("Library", "library"),
    ("Network Operations", "operations"),
    ("Purchasing", "purchasing"),
    ("Travel Desk", "travel"),
    ("Bureau d’été", "ete"),
    ("Geschäftsstelle", "geschaeftsstelle"),
    ("Security Team", "security"),
    ("Workshop", "workshop"),
    ("Research Group", "research"),
    ("Kitchen", "kitchen"),
];

const TOPICS: [&str; 14] = [
    "Minutes of the meeting",
    "New printer on the second floor",
    "Maintenance on Saturday",
    "Draft of the report",
    "Invoice for March",
    "Travel to the conference",
    "Question about the schedule",
    "Lunch on Friday",
    "Results of the measurement",
    "Déjeuner du vendredi",
    "Prüfung der Anlage",
    "Reading group: staged servers",
    "Backup of the mail store",
    "Room for the workshop",
];

const WORDS: [&str; 64] = [
    "the",
    "a",
    "of",
    "to",
    "and",
    "we",
    "you",
    "is",
    "in",
    "it",
    "for",
    "on",
    "with",
    "this",
    "that",
    "be",
    "as",
    "at",
    "by",
    "from",
    "please",
    "meeting",
    "report",
    "draft",
    "room",
    "server",
    "request",
    "queue",
    "stage",
    "load",
    "answer",
    "question",
    "schedule",
    "plan",
    "measure",
    "result",
    "table",
    "figure",
    "change",
    "review",
    "morning",
    "week",
    "month",
    "printer",
    "paper",
    "book",
    "key",
    "list",
    "order",
    "price",
    "travel",
    "ticket",
    "hotel",
    "conference",
    "coffee",
    "kitchen",
    "floor",
    "window",
    "network",
    "cable",
    "backup",
    "disk",
    "message",
    "folder",
];

const LINKS: [&str; 4] = [
    "http://example.org/minutes/2025",
    "https://example.org/calendar?week=12&room=2",
    "https://example.org/reports/draft.html#figures",
    "mailto:office@example.org",
];

/// `count` messages, which are the same for the same `seed`.
pub fn messages(seed: u64, count: usize) -> impl Iterator<Item = Vec<u8>> {
    messages_since(seed, count, FIRST_SECONDS)
}

/// The same, sent within the days before `now_seconds` since 1970: none of them later.
pub fn recent_messages(seed: u64, count: usize, now_seconds: i64) -> impl Iterator<Item = Vec<u8>> {
    let longest = i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(PAUSE_SECONDS_MAX);
    messages_since(seed, count, now_seconds.saturating_sub(longest))
}

fn messages_since(seed: u64, count: usize, first_seconds: i64) -> impl Iterator<Item = Vec<u8>> {
    let random = StdRng::seed_from_u64(seed);
    let mut writer =
        SampleWriter { seed, random, sent_seconds: first_seconds, answerable: VecDeque::new() };
    (0..count).map(move |index| writer.message(index))
}

/// A message that may be answered.
#[derive(Clone)]
struct Answerable {
    identifier: String,
    references: String,
    subject: String,
    first_line: String,
}

struct SampleWriter {
    seed: u64,
    random: StdRng,
    sent_seconds: i64,
    answerable: VecDeque<Answerable>,
}

impl SampleWriter {
    fn message(&mut self, index: usize) -> Vec<u8> {
        self.sent_seconds += self.random.random_range(60..PAUSE_SECONDS_MAX);
        let answered = match self.answerable.is_empty() || self.random.random_ratio(7, 10) {
            true => None,
            false => {
                let which = self.random.random_range(0..self.answerable.len());
                Some(self.answerable[which].clone())
            }
        };
        let subject = match &answered {
            Some(answered) => answered.subject.clone(),
            None => format!("{} ({})", self.one_of(&TOPICS), self.random.random_range(1..100)),
        };
        let (name, address) = self.one_of(&PEOPLE);
        let (to_name, to_address) = self.one_of(&PEOPLE);
        let identifier = format!("<{index}.{}@example.org>", self.seed);

        let mut mail = String::with_capacity(4096);
        push_line(&mut mail, format_args!("From: {} <{address}@example.org>", encoded(name)));
        push_line(&mut mail, format_args!("To: {} <{to_address}@example.org>", encoded(to_name)));
        let prefix = if answered.is_some() { "Re: " } else { "" };
        push_line(&mut mail, format_args!("Subject: {prefix}{}", encoded(&subject)));
        let date = DateTime::from_timestamp(self.sent_seconds).to_rfc822();
        push_line(&mut mail, format_args!("Date: {date}"));
        push_line(&mut mail, format_args!("Message-ID: {identifier}"));
        let mut references = String::new();
        if let Some(answered) = &answered {
            references = format!("{}{} ", answered.references, answered.identifier);
            push_line(&mut mail, format_args!("In-Reply-To: {}", answered.identifier));
            push_line(&mut mail, format_args!("References: {}", references.trim_end()));
        }
        mail.push_str("MIME-Version: 1.0\r\n");

        let text = self.text(name, answered.as_ref());
        let first_line = text.lines().nth(2).unwrap_or_default().to_owned();
        self.push_body(&mut mail, &text, index);
        // A thread ends somewhere, or its references grow for ever.
        if references.len() < 400 {
            if self.answerable.len() == ANSWERABLE_MAX {
                self.answerable.pop_front();
            }
            self.answerable.push_back(Answerable { identifier, references, subject, first_line });
        }
        mail.into_bytes()
    }

    fn push_body(&mut self, mail: &mut String, text: &str, index: usize) {
        match self.random.random_range(0..20) {
            0..=11 => push_part(mail, "text/plain; charset=utf-8", Transfer::Plain(text)),
            12 | 13 => {
                push_part(mail, "text/plain; charset=iso-8859-1", Transfer::Latin1(text));
            }
            14 => push_part(mail, "text/plain; charset=utf-8", Transfer::Base64(text.as_bytes())),
            15..=17 => {
                push_line(
                    mail,
                    format_args!(
                        "Content-Type: multipart/alternative; boundary=\"alternative-{index}\"\r\n"
                    ),
                );
                push_line(mail, format_args!("--alternative-{index}"));
                push_part(mail, "text/plain; charset=utf-8", Transfer::Plain(text));
                push_line(mail, format_args!("--alternative-{index}"));
                push_part(mail, "text/html; charset=utf-8", Transfer::Plain(&html(text)));
                push_line(mail, format_args!("--alternative-{index}--"));
            }
            _ => {
                push_line(
                    mail,
                    format_args!("Content-Type: multipart/mixed; boundary=\"mixed-{index}\"\r\n"),
                );
                push_line(mail, format_args!("--mixed-{index}"));
                push_part(mail, "text/plain; charset=utf-8", Transfer::Plain(text));
                push_line(mail, format_args!("--mixed-{index}"));
                let size = self.random.random_range(200..12_000);
                let mut content = vec![0; size];
                self.random.fill(&mut content[..]);
                let attachment = format!("application/octet-stream; name=\"figures-{index}.dat\"");
                push_part(mail, &attachment, Transfer::Base64(&content));
                push_line(mail, format_args!("--mixed-{index}--"));
            }
        }
    }

    /// A greeting, paragraphs, perhaps a link and a quote, and the name.
    fn text(&mut self, name: &str, answered: Option<&Answerable>) -> String {
        let mut text = String::from("Hello,\r\n\r\n");
        if let Some(answered) = answered {
            let _ = write!(text, "> {}\r\n\r\n", answered.first_line.trim_start_matches("> "));
        }
        // Few are long: 2 to 200 sentences, as often 2 to 6 as 60 to 200.
        let sentences = 2.0 * 100f64.powf(self.random.random::<f64>().powi(2));
        for sentence in 1..=sentences as usize {
            self.push_sentence(&mut text);
            let ending = if sentence % 5 == 0 { "\r\n\r\n" } else { "\r\n" };
            text.push_str(ending);
        }
        if self.random.random_ratio(1, 4) {
            let _ = write!(text, "See {}.\r\n", self.one_of(&LINKS));
        }
        let _ = write!(text, "\r\n-- \r\n{name}\r\n");
        text
    }

    fn push_sentence(&mut self, text: &mut String) {
        // The bits of one number choose ten words of 64.
        let mut bits: u64 = self.random.random();
        for word in 0..4 + (bits >> 61) {
            let chosen = WORDS[(bits & 63) as usize];
            bits = bits.rotate_right(6);
            if word == 0 {
                text.push(chosen.as_bytes()[0].to_ascii_uppercase() as char);
                text.push_str(&chosen[1..]);
            } else {
                text.push(' ');
                text.push_str(chosen);
            }
        }
        text.push('.');
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.random_range(0..all.len())]
    }
}

/// How a part is written.
enum Transfer<'a> {
    Plain(&'a str),
    Latin1(&'a str),
    Base64(&'a [u8]),
}

fn push_line(mail: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = mail.write_fmt(line);
    mail.push_str("\r\n");
}

fn push_part(mail: &mut String, content_type: &str, content: Transfer<'_>) {
    let encoding = match content {
        Transfer::Plain(_) => "8bit",
        Transfer::Latin1(_) => "quoted-printable",
        Transfer::Base64(_) => "base64",
    };
    push_line(
        mail,
        format_args!("Content-Type: {content_type}\r\nContent-Transfer-Encoding: {encoding}\r\n"),
    );
    match content {
        Transfer::Plain(text) => mail.push_str(text),
        Transfer::Latin1(text) => push_quoted_printable(mail, text),
        Transfer::Base64(bytes) => push_base64(mail, bytes),
    }
    mail.push_str("\r\n");
}

/// `text` in ISO 8859-1; what that has no letter for is a question mark.
fn push_quoted_printable(mail: &mut String, text: &str) {
    for letter in text.chars() {
        match u8::try_from(letter) {
            Ok(byte) if byte.is_ascii() && byte != b'=' => mail.push(letter),
            Ok(byte) => {
                let _ = write!(mail, "={byte:02X}");
            }
            Err(_) => mail.push('?'),
        }
    }
}

fn push_base64(mail: &mut String, bytes: &[u8]) {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for line in bytes.chunks(57) {
        for three in line.chunks(3) {
            let at = |index: usize| u32::from(*three.get(index).unwrap_or(&0));
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            for digit in 0..4 {
                let index = (bits >> (18 - 6 * digit)) & 63;
                mail.push(if digit <= three.len() { digits[index as usize] as char } else { '=' });
            }
        }
        mail.push_str("\r\n");
    }
}

/// `text` for a header field.
fn encoded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut word = String::from("=?utf-8?Q?");
    for &byte in text.as_bytes() {
        match byte {
            b' ' => word.push('_'),
            byte if byte.is_ascii_alphanumeric() => word.push(byte as char),
            byte => {
                let _ = write!(word, "={byte:02X}");
            }
        }
    }
    word + "?="
}

/// `text` as HTML, a paragraph for each line.
fn html(text: &str) -> String {
    let mut html = String::from("<html><body style=\"font-family: sans-serif\">\r\n");
    for line in text.lines() {
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = write!(html, "<p>{line}</p>\r\n");
    }
    html + "<img src=\"http://example.org/logo.png\" width=\"1\" height=\"1\"></body></html>\r\n"
}
