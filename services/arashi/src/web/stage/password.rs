//! Choosing another password.

use http::StatusCode;

use super::change::after;
use super::log_in::{checked, with_session};
use super::problem::Problem;
use super::request::{MailRequest, Shared};
use super::running::RunningRequest;
use crate::store::StoreError;
use crate::web::answer::{Answer, page};
use crate::web::notice::Notice;
use crate::web::page::{PasswordForm, password_page};

pub(super) fn password(running: &RunningRequest<'_>) -> Answer {
    page(StatusCode::OK, password_page(running.session, None))
}

/// Ends all sessions of the user, and begins another one for this browser.
pub(super) fn set_password(
    running: &mut RunningRequest<'_>,
    shared: &Shared,
    request: &MailRequest,
    form: &PasswordForm,
) -> Result<Answer, Problem> {
    let PasswordForm { current, new, again } = form;
    if new != again {
        return Ok(rejected(running, "The new password was typed in two ways."));
    }
    let RunningRequest { store, work, session, .. } = running;
    let (work, name) = (*work, &*session.account.name);
    if checked(store, work, shared, (name, current), request.address)?.is_none() {
        return Ok(rejected(running, "The current password is wrong."));
    }
    match store.set_password(work, name, new) {
        Err(StoreError::Invalid(invalid)) => {
            return Ok(rejected(running, &format!("The new {invalid}.")));
        }
        set => _ = set?,
    }
    if let Some(key) = &request.key {
        shared.classes.forget(key);
    }
    let begun = checked(store, work, shared, (name, new), request.address)?;
    let (account, key) = begun.ok_or(Problem::LoggedOut { path: None })?;
    with_session(after(None, Notice::PasswordChanged), store, work, shared, (&account, &key))
}

fn rejected(running: &RunningRequest<'_>, trouble: &str) -> Answer {
    page(StatusCode::UNPROCESSABLE_ENTITY, password_page(running.session, Some(trouble)))
}
