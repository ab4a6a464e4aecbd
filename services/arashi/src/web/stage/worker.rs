//! A worker of a stage.

use std::cell::Cell;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use tamarisk::{Batch, BlockingHandler, BoxError, Request};

use super::problem::Problem;
use super::request::{MailRequest, Shared};
use super::running::{RequestWork, RunningRequest};
use super::{attachment, change, compose, digest, folders, list, log_in, message, password};
use crate::store::{Session, Store};
use crate::web::action::Action;
use crate::web::answer::Answer;

/// A worker: it has a connection of its own, so that there are as many connections as workers,
/// and control finds how many are of use.
pub(crate) struct Worker {
    store: Store,
    shared: Arc<Shared>,
}

impl Worker {
    pub(crate) fn new(store: Store, shared: &Arc<Shared>) -> Self {
        Self { store, shared: Arc::clone(shared) }
    }
}

impl BlockingHandler<Request<MailRequest, Answer>> for Worker {
    fn handle(&mut self, batch: &mut Batch<Request<MailRequest, Answer>>) -> Result<(), BoxError> {
        while let Some((Request { body: request, reply }, cx)) = batch.next() {
            let mut session = None;
            let Self { store, shared } = self;
            let served = {
                let work = RequestWork { cx: &cx, waited: Cell::default() };
                let served = serve(store, shared, &request, &work, &mut session);
                if work.has_waited_unusually() {
                    cx.teach_nothing();
                }
                served
            };
            let problem = match served {
                Ok(answer) => {
                    // An error means that the client has left.
                    let _ = reply.send(answer);
                    continue;
                }
                Err(problem) => problem,
            };
            let reloads = !request.action.is_change();
            let Some(answer) = problem.answer(session.as_ref(), reloads) else {
                return Err(problem.unanswered());
            };
            let _ = reply.send(answer);
            if problem.is_failure() {
                return Err(problem.into());
            }
        }
        Ok(())
    }
}

fn serve(
    store: &mut Store,
    shared: &Shared,
    request: &MailRequest,
    work: &RequestWork<'_>,
    session: &mut Option<Session>,
) -> Result<Answer, Problem> {
    if let Action::LogIn { name, password, next } = &request.action {
        let asked = log_in::LogIn { name, password, next: next.as_ref() };
        return log_in::log_in(store, work, shared, request, &asked);
    }
    let session = session.insert(logged_in(store, work, shared, request)?);
    if request.action.is_change() && !is_same(&request.csrf, &session.csrf) {
        return match &request.action {
            Action::Send(draft) => Ok(compose::from_earlier_session(session, draft)),
            _ => Err(Problem::Forged),
        };
    }
    let Shared { page_size, digest, .. } = shared;
    let (page_size, now_seconds) = (*page_size, store.now_seconds());
    let mut running = RunningRequest { store, work, session, page_size, digest, now_seconds };
    match &request.action {
        Action::LogIn { .. } => unreachable!("it was answered above"),
        Action::LogOut => log_in::log_out(&mut running, shared, request.key.as_ref()),
        Action::Password => Ok(password::password(&running)),
        Action::SetPassword(form) => password::set_password(&mut running, shared, request, form),
        Action::Folders { notice } => folders::folders(&mut running, *notice),
        Action::List { place, notice } => list::list(&mut running, place, *notice),
        Action::Search { place, notice } => list::search(&mut running, place, *notice),
        Action::Digest(place) => digest::digest(&mut running, place),
        Action::Message(place) => message::message(&mut running, place),
        Action::Attachment { id, part } => attachment::attached(&mut running, *id, *part),
        Action::Delete { messages, for_good, back } => {
            change::delete(&mut running, messages, *for_good, back.clone())
        }
        Action::Refile { messages, to, back } => {
            change::refile(&mut running, messages, *to, back.clone())
        }
        Action::CreateFolder { name } => change::create_folder(&mut running, name),
        Action::DeleteFolder { folder } => change::delete_folder(&mut running, *folder),
        Action::Compose { reply } => compose::compose(&mut running, *reply),
        Action::Send(draft) => compose::send(&mut running, draft),
    }
}

/// The session of a request.
fn logged_in(
    store: &mut Store,
    work: &RequestWork<'_>,
    shared: &Shared,
    request: &MailRequest,
) -> Result<Session, Problem> {
    let path = (!request.action.is_change()).then(|| request.path.clone());
    let Some(key) = &request.key else { return Err(Problem::LoggedOut { path }) };
    let Some(session) = store.session(work, key)? else {
        shared.accounts.forget(key);
        return Err(Problem::LoggedOut { path });
    };
    shared.accounts.note_session(key, &session.account);
    Ok(session)
}

/// Compares in a time that tells nothing of where they differ.
fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}
