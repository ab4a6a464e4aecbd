//! The page to choose another password.

use maud::{Markup, html};

use super::layout::{Frame, csrf_field};
use crate::store::Session;

/// What was typed into the form.
#[derive(Debug)]
pub(crate) struct PasswordForm {
    pub(crate) current: String,
    pub(crate) new: String,
    pub(crate) again: String,
}

/// The form, with what was wrong the last time.
pub(crate) fn password_page(session: &Session, trouble: Option<&str>) -> Markup {
    Frame::of(session, "password", "Password").around(&html! {
        div.narrow {
            div.head { h1 { "Change your password" } }
            @if let Some(trouble) = trouble {
                div.note.bad role="alert" { p { (trouble) } }
            }
            form.sheet.padded action="/password" method="post" {
                (csrf_field(session))
                input type="text" name="name" value=(session.account.name) autocomplete="username"
                    hidden;
                (field("current", "Current password", "current-password", 1))
                (field("new", "New password", "new-password", 8))
                (field("again", "New password again", "new-password", 8))
                button.primary type="submit" { "Change" }
                p.hint { "You will be logged out everywhere else." }
            }
        }
    })
}

fn field(name: &str, label: &str, autocomplete: &str, length_min: u32) -> Markup {
    html! {
        div.field {
            label for=(name) { (label) }
            input id=(name) type="password" name=(name) autocomplete=(autocomplete) required
                minlength=(length_min) maxlength="1000";
        }
    }
}
