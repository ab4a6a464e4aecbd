//! Choosing another password.

use std::time::Instant;

use http::StatusCode;

use super::change::after;
use super::log_in::with_session;
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
        return Ok(rejected(running, "The two new passwords differ."));
    }
    let RunningRequest { store, work, session, .. } = running;
    let name = &*session.account.name;
    store.device_key(*work)?;
    let guesser = shared.guesser(name, &request.device, request.address);
    let begun = shared.log_ins.begin(name, &guesser, Instant::now());
    begun.map_err(Problem::TooManyLogIns)?;
    let changed = store.change_password(*work, name, current, new);
    if !matches!(changed, Ok(None)) {
        shared.log_ins.succeed(name, &guesser);
    }
    let (session, key) = match changed {
        Ok(Some(changed)) => changed,
        Ok(None) => return Ok(rejected(running, "The current password is wrong.")),
        Err(StoreError::Invalid(invalid)) => {
            return Ok(rejected(running, &format!("The new {invalid}.")));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(before) = &request.key {
        shared.accounts.forget(before);
    }
    let answer = after(None, Notice::PasswordChanged);
    Ok(with_session(answer, shared, &session, &key, running.now_seconds))
}

fn rejected(running: &RunningRequest<'_>, trouble: &str) -> Answer {
    page(StatusCode::UNPROCESSABLE_ENTITY, password_page(running.session, Some(trouble)))
}
