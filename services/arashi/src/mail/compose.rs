//! Messages that are written here: valid by RFC 5322 whatever the fields hold.

use mail_builder::MessageBuilder;
use mail_builder::headers::address::Address;
use mail_builder::headers::message_id::MessageId;
use mail_parser::{HeaderValue, Message};

use super::parsed::FIELD_BYTES_MAX;
use super::structure::with_message;
use super::text::clean_line;

/// The longest subject, in bytes: as much as is shown of one.
pub(crate) const SUBJECT_BYTES_MAX: usize = FIELD_BYTES_MAX;
/// The longest address: 64 bytes, `@`, and a domain of 255 [RFC5321 §4.5.3.1].
const ADDRESS_BYTES_MAX: usize = 320;
/// How many earlier messages of a thread are referred to.
const REFERENCES_MAX: usize = 20;
/// The longest identifier that is referred to: that of a line [RFC5322 §2.1.1].
const IDENTIFIER_BYTES_MAX: usize = 900;

/// What a user has written.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// Who writes: an account's name, or an address.
    pub from: &'a str,
    /// To whom: names of accounts, or addresses.
    pub to: &'a [&'a str],
    /// The subject.
    pub subject: &'a str,
    /// The text.
    pub text: &'a str,
    /// The message that this one answers, as it came.
    pub in_reply_to: Option<&'a [u8]>,
}

/// `draft` as a message. A name without `@` becomes an address at `localhost`. Control
/// characters, by which one field could pretend to be several, are taken out.
pub fn compose(draft: &Draft<'_>) -> Vec<u8> {
    let to = draft.to.iter().map(|to| Address::new_address(None::<&str>, address(to)));
    let mut builder = MessageBuilder::new()
        .from(Address::new_address(None::<&str>, address(draft.from)))
        .to(Address::new_list(to.collect()))
        .subject(clean_line(draft.subject, SUBJECT_BYTES_MAX))
        .text_body(draft.text);
    let thread = draft
        .in_reply_to
        .map_or_else(Vec::new, |raw| with_message(raw, thread).unwrap_or_default());
    if let Some(last) = thread.last() {
        builder = builder.in_reply_to(last.clone());
        builder = builder.references(MessageId::new_list(thread.into_iter()));
    }
    let mut raw = Vec::new();
    builder.serialize(&mut raw);
    raw
}

/// `name` as an address, with its part before `@` quoted where it must be.
fn address(name: &str) -> String {
    let name = clean_line(name, ADDRESS_BYTES_MAX);
    let (local, domain) = name.rsplit_once('@').unwrap_or((&name, "localhost"));
    let mut domain: String = domain
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, '.' | '-'))
        .collect();
    if domain.is_empty() {
        domain.push_str("localhost");
    }
    let is_atom = local.split('.').all(|atom| {
        let is_of_atom =
            |letter: char| letter.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(letter);
        !atom.is_empty() && atom.chars().all(is_of_atom)
    });
    if is_atom {
        return format!("{local}@{domain}");
    }
    let quoted = local.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{quoted}\"@{domain}")
}

/// The identifiers of the messages before an answer to `message`, the oldest first.
fn thread(message: &Message<'_>) -> Vec<String> {
    let identifiers = |value: &HeaderValue<'_>| match value {
        HeaderValue::Text(one) => vec![one.to_string()],
        HeaderValue::TextList(all) => all.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let Some(own) = message.message_id() else { return Vec::new() };
    let mut thread = identifiers(message.references());
    if thread.is_empty() {
        thread = identifiers(message.in_reply_to());
    }
    thread.push(own.to_owned());
    let is_identifier = |identifier: &String| {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>');
        !identifier.is_empty()
            && identifier.len() <= IDENTIFIER_BYTES_MAX
            && identifier.bytes().all(is_allowed)
    };
    thread.retain(is_identifier);
    let surplus = thread.len().saturating_sub(REFERENCES_MAX);
    thread.drain(..surplus);
    thread
}
