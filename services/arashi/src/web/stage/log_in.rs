//! Logging in and out.

use std::time::Instant;

use http::StatusCode;
use http::header::SET_COOKIE;

use super::problem::Problem;
use super::request::{MailRequest, Shared};
use super::running::RunningRequest;
use crate::store::{Session, SessionKey, Store, Work};
use crate::web::answer::{Answer, page, see_other};
use crate::web::local_path::LocalPath;
use crate::web::page::log_in_page;

/// What the form has in it.
pub(super) struct LogIn<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
    pub(super) next: Option<&'a LocalPath>,
}

pub(super) fn log_in(
    store: &mut Store,
    work: &dyn Work,
    shared: &Shared,
    request: &MailRequest,
    form: &LogIn<'_>,
) -> Result<Answer, Problem> {
    let LogIn { name, password, next } = *form;
    let device_key = store.device_key(work)?;
    let guesser = shared.guesser(name, &request.device, request.address);
    let begun = shared.log_ins.begin(name, &guesser, Instant::now());
    begun.map_err(Problem::TooManyLogIns)?;
    let logged_in = store.log_in(work, name, password);
    if !matches!(logged_in, Ok(None)) {
        // What was terminated or hit a database that is down was no guess.
        shared.log_ins.succeed(name, &guesser);
    }
    let Some((account, key)) = logged_in? else {
        let trouble = "Name or password is wrong.";
        let form = log_in_page(&request.csrf, name, next, Some(trouble));
        return Ok(page(StatusCode::UNAUTHORIZED, form));
    };
    let session = store.session(work, &key)?.ok_or(Problem::LoggedOut { path: None })?;
    if let Some(before) = &request.key {
        shared.accounts.forget(before);
        store.log_out(work, before)?;
    }
    shared.accounts.note_name(name, account.class);
    let answer = see_other(next.map_or("/folders", LocalPath::as_str));
    let now_seconds = store.now_seconds();
    let mut answer = with_session(answer, shared, &session, &key, now_seconds);
    let device = request.device.logged_in(&device_key, name, guesser.device(), now_seconds)?;
    answer.headers_mut().append(SET_COOKIE, shared.cookies.set_device(&device));
    Ok(answer)
}

/// `answer` with the cookie of a session that has begun.
pub(super) fn with_session(
    mut answer: Answer,
    shared: &Shared,
    session: &Session,
    key: &SessionKey,
    now_seconds: i64,
) -> Answer {
    shared.accounts.note_session(key, &session.account);
    let seconds = session.expires_seconds.saturating_sub(now_seconds);
    answer.headers_mut().insert(SET_COOKIE, shared.cookies.set_session(key, seconds));
    answer
}

pub(super) fn log_out(
    running: &mut RunningRequest<'_>,
    shared: &Shared,
    key: Option<&SessionKey>,
) -> Result<Answer, Problem> {
    if let Some(key) = key {
        running.store.log_out(running.work, key)?;
        shared.accounts.forget(key);
    }
    let mut answer = see_other("/login");
    answer.headers_mut().insert(SET_COOKIE, shared.cookies.remove_session());
    Ok(answer)
}
