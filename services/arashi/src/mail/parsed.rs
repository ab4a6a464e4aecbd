//! A message as it is shown.

use mail_parser::decoders::html::html_to_text;
use mail_parser::{Address, HeaderName, Message, MessagePart, MimeHeaders, PartType};

use super::attachment::{ATTACHMENTS_MAX, AttachmentSummary, content_ids, summaries};
use super::html::{HTML_BYTES_MAX, SafeHtml, sanitise};
use super::structure::{header_length, with_message};
use super::text::{TEXT_BYTES_MAX, clean_line, clean_lines, linkify, split_at_most};

/// The most of a header field that is shown, in bytes.
pub(super) const FIELD_BYTES_MAX: usize = 1_000;

/// A message as it is shown. All strings but [`html`](Self::html) are plain text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mail {
    /// Whom it is from, in a line; may be empty.
    pub from: String,
    /// Whom it is to, in a line; may be empty.
    pub to: String,
    /// Who has a copy, in a line; may be empty.
    pub cc: String,
    /// Its subject, in a line; may be empty.
    pub subject: String,
    /// When it was sent, in seconds since 1970.
    pub date_seconds: Option<i64>,
    /// Its text, made of the HTML where it has no other; [`linkify()`] makes HTML of it.
    pub text: Option<String>,
    /// Its HTML, safe to be put into a page.
    pub html: Option<String>,
    /// How many images of the HTML are not shown: those that would be loaded from elsewhere.
    pub blocked_images: usize,
    /// What else is in it.
    pub attachments: Vec<AttachmentSummary>,
    /// What is wrong with it, a sentence each: parts of it are shown as they came, or cut off.
    pub defects: Vec<String>,
}

/// Whether HTML is made, and where its page has attachments.
#[derive(Clone, Copy)]
enum HtmlOf<'a> {
    Nothing,
    Page { attachment_url: Option<&'a str> },
}

impl Mail {
    /// The message `raw`, whatever it is; images that are attached are not shown in its HTML.
    pub fn parse(raw: &[u8]) -> Self {
        Self::parse_with_images(raw, None)
    }

    /// The message `raw`, whatever it is. Images of the HTML that are attached are shown from
    /// `attachment_url` with the index of the attachment added, as in `/attachment?id=7&part=`.
    pub fn parse_with_images(raw: &[u8], attachment_url: Option<&str>) -> Self {
        Self::read(raw, HtmlOf::Page { attachment_url })
    }

    /// The message `raw` without its HTML, which costs the most.
    pub(crate) fn without_html(raw: &[u8]) -> Self {
        Self::read(raw, HtmlOf::Nothing)
    }

    fn read(raw: &[u8], html: HtmlOf<'_>) -> Self {
        with_message(raw, |message| Self::of(message, raw, html))
            .unwrap_or_else(|defect| Self::unparsed(raw, defect))
    }

    /// A message of which nothing is understood.
    fn unparsed(raw: &[u8], defect: String) -> Self {
        let mut mail =
            Self { defects: vec![format!("{defect}: it is shown as it came")], ..Self::default() };
        mail.set_raw(raw);
        mail
    }

    fn of(message: &Message<'_>, raw: &[u8], html: HtmlOf<'_>) -> Self {
        let mut mail = Self {
            from: people(message.from()),
            to: people(message.to()),
            cc: people(message.cc()),
            subject: clean_line(message.subject().unwrap_or_default(), FIELD_BYTES_MAX),
            attachments: summaries(message),
            ..Self::default()
        };
        mail.set_date(message);
        let root = message.root_part();
        let is_multipart = root.content_type().is_some_and(|stated| stated.ctype() == "multipart");
        if is_multipart && !matches!(&root.body, PartType::Multipart(parts) if !parts.is_empty()) {
            mail.defects.push("the parts have no boundary: the message is shown as it came".into());
            mail.set_raw(raw);
            return mail;
        }
        let attached = message.attachment_count();
        if attached > ATTACHMENTS_MAX {
            mail.defects.push(format!("of {attached} attachments, {ATTACHMENTS_MAX} are listed"));
        }
        mail.note_encodings(message);
        mail.set_text(message);
        if let HtmlOf::Page { attachment_url } = html {
            mail.set_html(message, attachment_url);
        }
        let is_empty = mail.text.is_none() && !has_html(message) && mail.attachments.is_empty();
        let has_content = !raw[header_length(raw)..].trim_ascii().is_empty();
        if is_empty && has_content {
            mail.defects.push("no part has content: the message is shown as it came".into());
            mail.set_raw(raw);
        } else if is_empty && !mail.has_header() && !raw.trim_ascii().is_empty() {
            mail.defects.push(
                "no sender, recipient, subject, date or text is found: it is shown as it came"
                    .into(),
            );
            mail.set_raw(raw);
        }
        mail
    }

    fn has_header(&self) -> bool {
        let Self { from, to, cc, subject, date_seconds, .. } = self;
        date_seconds.is_some() || [from, to, cc, subject].iter().any(|field| !field.is_empty())
    }

    fn set_raw(&mut self, raw: &[u8]) {
        let start = &raw[..raw.len().min(TEXT_BYTES_MAX)];
        self.note_cut(raw.len(), start.len(), "text");
        self.text = Some(clean_lines(&String::from_utf8_lossy(start), TEXT_BYTES_MAX));
    }

    fn set_date(&mut self, message: &Message<'_>) {
        self.date_seconds =
            message.date().filter(|date| date.is_valid()).map(mail_parser::DateTime::to_timestamp);
        if self.date_seconds.is_none()
            && let Some(date) = message.header_raw(HeaderName::Date)
        {
            self.defects.push(format!("the date is not understood: {}", clean_line(date, 100)));
        }
    }

    fn note_encodings(&mut self, message: &Message<'_>) {
        for (index, part) in message.parts.iter().enumerate() {
            // A message without a body is marked as well.
            let encoding = part.content_transfer_encoding().unwrap_or_default();
            let is_encoded = ["base64", "quoted-printable"]
                .iter()
                .any(|known| encoding.eq_ignore_ascii_case(known));
            if part.is_encoding_problem && is_encoded {
                self.defects.push(format!(
                    "part {index} is not encoded as it says: it is shown as it came"
                ));
            }
            let charset = part.content_type().and_then(|stated| stated.attribute("charset"));
            if let Some(charset) = charset.filter(|charset| !is_known(charset)) {
                let charset = clean_line(charset, 40);
                self.defects.push(format!(
                    "part {index} has the unknown charset {charset:?}: read as UTF-8"
                ));
            }
            if self.defects.len() >= DEFECTS_MAX {
                self.defects.push("there is more that is wrong".into());
                return;
            }
        }
    }

    fn note_cut(&mut self, length: usize, shown: usize, what: &str) {
        if length > shown {
            self.defects.push(format!("of the {what}, {shown} of {length} bytes are shown"));
        }
    }

    fn set_text(&mut self, message: &Message<'_>) {
        let mut text = String::new();
        let mut length = 0;
        // What is broken is among the attachments, and shown as well.
        let is_broken_text = |part: &&MessagePart<'_>| {
            part.is_encoding_problem && matches!(part.body, PartType::Text(_))
        };
        let broken = message.attachments().filter(is_broken_text);
        for part in message.text_bodies().chain(broken) {
            let shown = match &part.body {
                PartType::Text(shown) => shown.clone(),
                PartType::Html(html) => html_to_text(split_at_most(html, TEXT_BYTES_MAX).0).into(),
                _ => continue,
            };
            length += shown.len();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&clean_lines(&shown, TEXT_BYTES_MAX - text.len().min(TEXT_BYTES_MAX)));
        }
        self.note_cut(length, TEXT_BYTES_MAX, "text");
        self.text = Some(text).filter(|text| !text.trim().is_empty());
    }

    fn set_html(&mut self, message: &Message<'_>, attachment_url: Option<&str>) {
        if !has_html(message) {
            return;
        }
        let images = content_ids(message);
        let url = attachment_url.map(ToOwned::to_owned);
        let attachment = move |identifier: &str| {
            let (_, index) = images.iter().find(|(attached, _)| attached == identifier)?;
            Some(format!("{}{index}", url.as_ref()?))
        };
        match html_of(message).and_then(|html| sanitise(&html, attachment)) {
            Some(SafeHtml { html, blocked_images }) => {
                self.html = Some(html);
                self.blocked_images = blocked_images;
            }
            None => {
                self.defects.push("the HTML is too large to be shown: its text is".into());
                self.text.get_or_insert_default();
            }
        }
    }
}

/// The bodies as one HTML; none if they are longer than what is made safe.
fn html_of(message: &Message<'_>) -> Option<String> {
    let mut html = String::new();
    for part in message.html_bodies() {
        let (PartType::Html(shown) | PartType::Text(shown)) = &part.body else { continue };
        if html.len() + shown.len() > HTML_BYTES_MAX {
            return None;
        }
        if matches!(part.body, PartType::Html(_)) {
            html.push_str(shown);
        } else {
            html.push_str("<pre>");
            html.push_str(&linkify(shown));
            html.push_str("</pre>");
        }
    }
    Some(html)
}

fn has_html(message: &Message<'_>) -> bool {
    message.html_bodies().any(|part| matches!(part.body, PartType::Html(_)))
}

/// How many defects are told.
const DEFECTS_MAX: usize = 10;

fn is_known(charset: &str) -> bool {
    charset.eq_ignore_ascii_case("us-ascii")
        || charset.eq_ignore_ascii_case("utf-8")
        || mail_parser::decoders::charsets::map::charset_decoder(charset.as_bytes()).is_some()
}

/// `addresses` in a line: `Name <address>, …`.
pub(super) fn people(addresses: Option<&Address<'_>>) -> String {
    let mut line = String::new();
    for address in addresses.into_iter().flat_map(|addresses| addresses.iter()) {
        if !line.is_empty() {
            line.push_str(", ");
        }
        match (address.name(), address.address()) {
            (Some(name), Some(address)) => line += &format!("{name} <{address}>"),
            (Some(one), None) | (None, Some(one)) => line += one,
            (None, None) => {}
        }
        if line.len() > FIELD_BYTES_MAX {
            break;
        }
    }
    clean_line(&line, FIELD_BYTES_MAX)
}
