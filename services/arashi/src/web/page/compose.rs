//! The page to write a message.

use maud::{Markup, html};

use super::layout::{Frame, csrf_field};
use crate::store::{MessageId, Session};

/// A message that is being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComposeForm {
    /// Names of accounts, separated by commas.
    pub(crate) to: String,
    pub(crate) subject: String,
    pub(crate) text: String,
    /// The message that it answers.
    pub(crate) reply: Option<MessageId>,
}

/// The form with `draft` in it, and why it was not sent.
pub(crate) fn compose_page(
    session: &Session,
    draft: &ComposeForm,
    trouble: Option<&str>,
) -> Markup {
    let title = if draft.reply.is_some() { "Reply" } else { "New message" };
    Frame::of(session, "compose", title).around(&html! {
        div.head { h1 { (title) } }
        @if let Some(trouble) = trouble {
            div.note.bad role="alert" { p { (trouble) } }
        }
        form.sheet.padded data-go="compose" action="/compose" method="post" {
            (csrf_field(session))
            @if let Some(reply) = draft.reply {
                input type="hidden" name="reply" value=(reply.0);
            }
            div.field {
                label for="to" { "To" }
                input #to type="text" name="to" value=(draft.to) required maxlength="2000"
                    autocapitalize="none" spellcheck="false" aria-describedby="to-hint"
                    autofocus[draft.to.is_empty()];
                p.hint #to-hint { "Names of users of this service, separated by commas." }
            }
            div.field {
                label for="subject" { "Subject" }
                input #subject type="text" name="subject" value=(draft.subject) maxlength="500";
            }
            div.field {
                label for="text" { "Text" }
                // A browser leaves out the first line feed of a text area.
                textarea #text name="text" rows="14" autofocus[!draft.to.is_empty()] {
                    "\n" (draft.text)
                }
            }
            button.primary type="submit" { "Send" }
        }
    })
}
