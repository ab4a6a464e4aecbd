//! Writing to other users of this service.

use std::collections::BTreeSet;

use http::StatusCode;

use super::change::after;
use super::problem::Problem;
use super::running::RunningRequest;
use crate::mail::{Draft, Mail, SUBJECT_BYTES_MAX, compose as composed, new_message};
use crate::store::{Account, MessageId, Session, StoreError};
use crate::web::answer::{Answer, page};
use crate::web::notice::Notice;
use crate::web::page::{ComposeForm, compose_page};

/// The most recipients of a message: each is a copy in the database.
const RECIPIENTS_MAX: usize = 20;

/// The most of a text that an answer quotes, in characters.
const QUOTED_CHARACTERS_MAX: usize = 20_000;

/// The empty form, or one that answers a message.
pub(super) fn compose(
    running: &mut RunningRequest<'_>,
    reply: Option<MessageId>,
) -> Result<Answer, Problem> {
    let Some(id) = reply else {
        let empty = compose_page(running.session, &ComposeForm::default(), None);
        return Ok(page(StatusCode::OK, empty));
    };
    let message = running.store.message(running.work, running.user(), id)?;
    let draft = answer_to(id, &Mail::without_html(&message.raw));
    let is_known = draft.to.is_empty() || running.store.account(running.work, &draft.to)?.is_some();
    let trouble = format!(
        "{} is no user of this service. An answer can be sent to its users only.",
        draft.to
    );
    let trouble = (!is_known).then_some(&*trouble);
    Ok(page(StatusCode::OK, compose_page(running.session, &draft, trouble)))
}

/// Sends a message to all of its recipients, or to none of them.
pub(super) fn send(
    running: &mut RunningRequest<'_>,
    draft: &ComposeForm,
) -> Result<Answer, Problem> {
    let rejected = |running: &RunningRequest<'_>, trouble: &str| {
        let form = compose_page(running.session, draft, Some(trouble));
        Ok(page(StatusCode::UNPROCESSABLE_ENTITY, form))
    };
    let names = recipients(&draft.to);
    if names.is_empty() {
        return rejected(running, "The message has no recipient. Nothing was sent.");
    }
    if names.len() > RECIPIENTS_MAX {
        let trouble = format!(
            "{} recipients are more than the {RECIPIENTS_MAX} of a message. Nothing was sent.",
            names.len()
        );
        return rejected(running, &trouble);
    }
    if draft.subject.len() > SUBJECT_BYTES_MAX {
        let trouble = format!(
            "The subject has {} bytes, and {SUBJECT_BYTES_MAX} are the most. Nothing was sent.",
            draft.subject.len()
        );
        return rejected(running, &trouble);
    }
    let (mut users, mut unknown) = (BTreeSet::new(), Vec::new());
    for name in &names {
        match running.store.account(running.work, local_name(name))? {
            Some(Account { id, .. }) => _ = users.insert(id),
            None => unknown.push(*name),
        }
    }
    if !unknown.is_empty() {
        let trouble = format!(
            "No user of this service has the name {}. Nothing was sent.",
            unknown.join(", ")
        );
        return rejected(running, &trouble);
    }
    let reply = draft.reply.map(|id| running.store.message(running.work, running.user(), id));
    let answered = match reply.transpose() {
        Ok(message) => message.map(|message| message.raw),
        Err(StoreError::NotFound) => {
            let draft = ComposeForm { reply: None, ..draft.clone() };
            let trouble = "The message that this answers is no longer there. Nothing was sent. \
                           Send it again to send it without a reference to that message.";
            let form = compose_page(running.session, &draft, Some(trouble));
            return Ok(page(StatusCode::NOT_FOUND, form));
        }
        Err(error) => return Err(error.into()),
    };
    let raw = composed(&Draft {
        from: &running.session.account.name,
        to: &names,
        subject: &draft.subject,
        text: &draft.text,
        in_reply_to: answered.as_deref(),
    });
    let mail = new_message(raw, running.now_seconds);
    running.store.send(running.work, running.user(), &users, &mail)?;
    Ok(after(None, Notice::Sent))
}

/// The form as it was filled, for a session that did not make it: it is not sent, and not lost.
pub(super) fn from_earlier_session(session: &Session, draft: &ComposeForm) -> Answer {
    let trouble = "The form was from an earlier session or from another site, so nothing was \
                   sent. If you have written this, send it now.";
    page(StatusCode::FORBIDDEN, compose_page(session, draft, Some(trouble)))
}

/// Names between commas, each once.
fn recipients(line: &str) -> Vec<&str> {
    let mut names: Vec<_> = Vec::new();
    for name in line.split([',', ';']).map(str::trim).filter(|name| !name.is_empty()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The name of the account at an address here.
fn local_name(name: &str) -> &str {
    name.strip_suffix("@localhost").unwrap_or(name)
}

/// An answer, with the text quoted.
fn answer_to(id: MessageId, mail: &Mail) -> ComposeForm {
    let re = mail.subject.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("re:"));
    let mut subject = if re { mail.subject.clone() } else { format!("Re: {}", mail.subject) };
    subject.truncate(subject.floor_char_boundary(SUBJECT_BYTES_MAX));
    let text = mail.text.as_deref().unwrap_or_default();
    let quoted: String = text.chars().take(QUOTED_CHARACTERS_MAX).collect();
    let quoted: String = quoted.trim_end().lines().map(|line| format!("> {line}\n")).collect();
    let author = if mail.from.is_empty() { "Somebody" } else { &mail.from };
    let text = format!("\n\n{author} wrote:\n{quoted}");
    ComposeForm { to: local_name(address(&mail.from)).to_owned(), subject, text, reply: Some(id) }
}

/// The address of the first author.
fn address(from: &str) -> &str {
    let start = from.find('<').map_or(0, |start| start + 1);
    let address = &from[start..];
    address.split(['>', ',']).next().unwrap_or(address).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_are_named_once() {
        assert_eq!(recipients(" ada, bob;ada ,, "), ["ada", "bob"]);
        assert!(recipients(" , ").is_empty());
    }

    #[test]
    fn an_answer_goes_to_the_author_and_quotes_the_text() {
        let mail = Mail {
            from: "Ada L <ada@localhost>".into(),
            subject: "Storms".into(),
            text: Some("One\nTwo\n".into()),
            ..Mail::default()
        };
        let draft = answer_to(MessageId(7), &mail);
        assert_eq!((&*draft.to, &*draft.subject), ("ada", "Re: Storms"));
        assert_eq!(draft.text, "\n\nAda L <ada@localhost> wrote:\n> One\n> Two\n");
        let again = answer_to(MessageId(7), &Mail { subject: "RE: é".into(), ..mail });
        assert_eq!(again.subject, "RE: é");
        // A subject that is as long as is shown can be answered.
        let long = answer_to(MessageId(7), &Mail { subject: "é".repeat(500), ..Mail::default() });
        assert_eq!(long.subject, format!("Re: {}", "é".repeat(498)));
    }
}
