//! The page to log in.

use maud::{Markup, html};

use super::layout::{Frame, mark};
use crate::web::local_path::LocalPath;

/// The form, with what was wrong the last time.
pub(crate) fn log_in_page(
    csrf: &str,
    name: &str,
    next: Option<&LocalPath>,
    trouble: Option<&str>,
) -> Markup {
    Frame::new("log-in", "Log in").around(&html! {
        div.narrow {
            div.head { h1.brand { (mark()) "Arashi" } }
            @if let Some(trouble) = trouble {
                div.note.bad role="alert" { p { (trouble) } }
            }
            div.sheet.padded {
                form data-go="log-in" action="/login" method="post" {
                    input type="hidden" name="csrf" value=(csrf);
                    @if let Some(next) = next {
                        input type="hidden" name="next" value=(next.as_str());
                    }
                    div.field {
                        label for="name" { "Name" }
                        input #name type="text" name="name" value=(name) autocomplete="username"
                            autocapitalize="none" spellcheck="false" required
                            autofocus[name.is_empty()] maxlength="200";
                    }
                    div.field {
                        label for="password" { "Password" }
                        input #password type="password" name="password"
                            autocomplete="current-password" required
                            autofocus[!name.is_empty()] maxlength="1000";
                    }
                    button.primary type="submit" { "Log in" }
                }
            }
        }
    })
}
