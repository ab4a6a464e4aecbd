//! Messages: what is shown of them, and what is answered to them.

use std::cell::RefCell;

use html5ever::buffer_queue::BufferQueue;
use html5ever::tokenizer::{Tag, Token, TokenSink, TokenSinkResult, Tokenizer};

use crate::mail::{Draft, Mail, attachment, compose, linkify, new_message};

/// What is shown of the message `input` is safe in a page, is read alike a second time, and an
/// answer to it is a message.
///
/// # Panics
/// If it is not.
pub fn check(input: &[u8]) {
    let mail = Mail::parse_with_images(input, Some("/attachment?id=1&part="));
    for (index, listed) in mail.attachments.iter().enumerate() {
        let one = attachment(input, index).expect("it is listed");
        assert_eq!((&one.name, one.bytes.len() as u64), (&listed.name, listed.size_bytes));
        assert!(!one.name.is_empty() && !one.name.contains(['/', '\\', '"']), "{}", one.name);
        assert!(!one.name.contains(char::is_control), "{:?}", one.name);
    }
    assert_eq!(attachment(input, mail.attachments.len()), None);
    for line in [&mail.from, &mail.to, &mail.cc, &mail.subject] {
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    let text = linkify(mail.text.as_deref().unwrap_or_default());
    is_safe(&text);
    if let Some(html) = &mail.html {
        is_safe(html);
        let again = shown_again(html);
        is_safe(&again);
        assert_eq!(in_order(&shown_again(&again)), in_order(&again), "{html:?}");
    }
    let kept = new_message(input.to_vec(), 0);
    assert!(!kept.headers.contains('\0') && !kept.snippet.contains('\0'));
    is_answered(&mail, input);
}

/// `html` as it is shown when it is sent again.
fn shown_again(html: &str) -> String {
    let raw = format!("Content-Type: text/html; charset=utf-8\r\n\r\n{html}");
    Mail::parse(raw.as_bytes()).html.unwrap_or_default()
}

/// The tags of `html`, with their attributes in the order of names.
fn in_order(html: &str) -> Vec<String> {
    let tags = tags(html).into_iter();
    tags.map(|mut tag| {
        tag.attrs.sort_by(|one, other| one.name.cmp(&other.name));
        format!("{tag:?}")
    })
    .collect()
}

/// No tag that a browser finds in `html` executes, loads, acts, or leaves its place.
fn is_safe(html: &str) {
    for tag in tags(html) {
        let forbidden = [
            "script",
            "style",
            "iframe",
            "object",
            "embed",
            "form",
            "input",
            "button",
            "base",
            "meta",
            "link",
            "svg",
            "math",
            "template",
            "frame",
            "video",
            "audio",
            "textarea",
            "title",
            "noscript",
            "xmp",
            "noembed",
            "noframes",
            "plaintext",
            "select",
        ];
        assert!(!forbidden.contains(&&*tag.name), "{} in {html:?}", tag.name);
        for attribute in &tag.attrs {
            let name = &*attribute.name.local;
            let value = &*attribute.value;
            let is_safe = match name {
                "href" => ["http://", "https://", "mailto:"]
                    .iter()
                    .any(|scheme| value.trim_start().to_ascii_lowercase().starts_with(scheme)),
                "src" => value.starts_with("/attachment?id=1&part="),
                "id" | "class" | "name" | "style" | "background" | "srcset" => false,
                name => !name.starts_with("on") && !name.starts_with("data-"),
            };
            assert!(is_safe, "{name}={value:?} in {html:?}");
        }
    }
}

/// The tags that a browser finds in `html`; comments, of which there are none, end the test.
fn tags(html: &str) -> Vec<Tag> {
    #[derive(Default)]
    struct Tags(RefCell<Vec<Tag>>);
    impl TokenSink for Tags {
        type Handle = ();

        fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
            match token {
                Token::TagToken(tag) => self.0.borrow_mut().push(tag),
                Token::CommentToken(comment) => panic!("comment {comment:?}"),
                Token::DoctypeToken(doctype) => panic!("{doctype:?}"),
                _ => {}
            }
            TokenSinkResult::Continue
        }
    }
    let tokenizer = Tokenizer::new(Tags::default(), Default::default());
    let input = BufferQueue::default();
    input.push_back(html.into());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}

/// An answer that quotes it, sent to whom it names, has the fields of one message.
fn is_answered(mail: &Mail, input: &[u8]) {
    let text = mail.text.as_deref().unwrap_or_default();
    let to = &[&*mail.from, &*mail.cc];
    let draft =
        Draft { from: &mail.to, to, subject: &mail.subject, text, in_reply_to: Some(input) };
    let answer = compose(&draft);
    let header = answer.windows(4).position(|at| at == b"\r\n\r\n").expect("a header ends");
    let header = std::str::from_utf8(&answer[..header]).expect("a header is text");
    let fields = header.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
    for field in fields {
        let (name, _) = field.split_once(':').expect("each line is a field");
        let known = [
            "From",
            "To",
            "Subject",
            "In-Reply-To",
            "References",
            "Message-ID",
            "Date",
            "MIME-Version",
            "Content-Type",
            "Content-Transfer-Encoding",
        ];
        assert!(known.contains(&name), "{name} in {header:?}");
    }
    let read = Mail::parse(&answer).subject;
    // What looks like an encoded word is decoded.
    let is_alike = read.replace(' ', "") == mail.subject.replace(' ', "");
    assert!(is_alike || mail.subject.contains("=?"), "{read:?} in {header:?}");
}
