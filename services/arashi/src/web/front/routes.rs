//! Routes: from a request to its stage.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::middleware::map_response;
use axum::routing::{get, post};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, SET_COOKIE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use subtle::ConstantTimeEq;
use tamarisk::{ClassId, Entry, Request, Stage};
use tamarisk_http_gate::client_network;
use tamarisk_pytec::Site;

use super::form::{self, LongForms};
use super::headers::secured;
use super::unanswered::{Unanswered, problem};
use crate::store::AccountClass;
use crate::web::action::Action;
use crate::web::answer::{Answer, page, see_other};
use crate::web::client::ClientAddresses;
use crate::web::device::DeviceTokens;
use crate::web::fields::Fields;
use crate::web::known_accounts::KnownAccount;
use crate::web::local_path::LocalPath;
use crate::web::origin::is_from_elsewhere;
use crate::web::page::{STYLE, log_in_page};
use crate::web::stage::{MailRequest, Problem, Shared};
use crate::web::token::new_token;

/// After this, nobody waits for an answer any longer, and its statement is cancelled.
const DEADLINE: Duration = Duration::from_secs(30);

/// What routes need.
pub(crate) struct Front {
    /// One for each kind, in their order, or one for all.
    pub(crate) stages: Vec<Stage<Request<MailRequest, Answer>>>,
    /// Of the page that writes digests; its processes end with it.
    pub(crate) site: Site,
    pub(crate) gold: ClassId,
    pub(crate) bronze: ClassId,
    /// A header that states a class.
    pub(crate) class_header: Option<HeaderName>,
    pub(crate) addresses: ClientAddresses,
    pub(crate) long_forms: LongForms,
    pub(crate) shared: Arc<Shared>,
}

/// All routes. But for the page to log in and the style sheet, none answers whoever is not
/// logged in.
pub(crate) fn router(front: Arc<Front>) -> Router {
    Router::new()
        .route("/", get(async || see_other("/folders")))
        .route("/style.css", get(style))
        .route("/login", get(show_log_in).post(log_in))
        .route("/logout", post(answer))
        .route("/folders", get(answer))
        .route("/list", get(answer))
        .route("/message", get(answer))
        .route("/attachment", get(answer))
        .route("/search", get(answer))
        .route("/digest", get(answer))
        .route("/delete", post(answer))
        .route("/refile", post(answer))
        .route("/create-folder", post(answer))
        .route("/delete-folder", post(answer))
        .route("/compose", get(answer).post(answer))
        .route("/password", get(answer).post(answer))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(map_response(secured))
        .with_state(front)
}

async fn style() -> Answer {
    let mut answer = Answer::new(Body::from(STYLE));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    answer
}

async fn not_found() -> Answer {
    problem(
        StatusCode::NOT_FOUND,
        "Not found",
        "There is no page at this address.",
        "Please check it for typing errors.",
    )
}

async fn wrong_method() -> Answer {
    problem(
        StatusCode::METHOD_NOT_ALLOWED,
        "Not here",
        "This address does not take a request of this method.",
        "Please use the links and the forms of the pages.",
    )
}

/// The page to log in, with a token that the form must contain: so that no other site can log
/// its visitors in as somebody whose mail it then sees being written.
async fn show_log_in(State(front): State<Arc<Front>>, request: HttpRequest) -> Answer {
    let (head, body) = request.into_parts();
    match form::read(&head, body, &front.long_forms, false).await {
        Ok(fields) => {
            let next = fields.text("next").and_then(LocalPath::new);
            front.log_in_form(&head, StatusCode::OK, "", next.as_ref(), None)
        }
        Err(unreadable) => malformed(&unreadable),
    }
}

async fn log_in(State(front): State<Arc<Front>>, request: HttpRequest) -> Answer {
    let (head, body) = request.into_parts();
    let fields = match form::read(&head, body, &front.long_forms, false).await {
        Ok(fields) => fields,
        Err(unreadable) => return malformed(&unreadable),
    };
    let csrf = fields.text("csrf").unwrap_or_default();
    let token = front.shared.cookies.log_in_token(&head.headers);
    let is_own = token.is_some_and(|token| token.as_bytes().ct_eq(csrf.as_bytes()).into());
    if !is_own || is_from_elsewhere(&head.headers) {
        let trouble = "The form was too old, or this browser keeps no cookies. Please try again.";
        let next = fields.text("next").and_then(LocalPath::new);
        let name = fields.text("name").unwrap_or_default();
        let status = StatusCode::FORBIDDEN;
        return front.log_in_form(&head, status, name, next.as_ref(), Some(trouble));
    }
    front.answer(&head, &fields).await
}

async fn answer(State(front): State<Arc<Front>>, request: HttpRequest) -> Answer {
    let (head, body) = request.into_parts();
    let Some(session) = front.shared.cookies.session(&head.headers) else {
        // Before anything is read. The stage looks closer, at the session itself.
        let path = (head.method != Method::POST).then(|| path(&head));
        return shown(&Problem::LoggedOut { path });
    };
    let is_user = front.shared.accounts.of_session(&session).is_some();
    match form::read(&head, body, &front.long_forms, is_user).await {
        Ok(fields) => front.answer(&head, &fields).await,
        Err(unreadable) => malformed(&unreadable),
    }
}

fn malformed(unreadable: &form::Unreadable) -> Answer {
    const CURE: &str = "Please use the links and the forms of the pages.";
    problem(unreadable.status, "This cannot be answered", &unreadable.reason, CURE)
}

/// The page about a problem that no stage needs to look at.
fn shown(problem: &Problem) -> Answer {
    problem.answer(None, false).unwrap_or_default()
}

/// As one of the account's requests or, where none is known, of the client's at this address: they
/// share equally with others of the class.
fn shared_by(entry: Entry, account: Option<KnownAccount>, address: IpAddr) -> Entry {
    match account {
        Some(account) => entry.flow(account.id),
        None => entry.flow(client_network(address)),
    }
}

/// Path and query.
fn path(head: &Parts) -> String {
    head.uri.path_and_query().map(ToString::to_string).unwrap_or_default()
}

impl Front {
    /// Has the stage answer.
    async fn answer(&self, head: &Parts, fields: &Fields) -> Answer {
        let action = match Action::read(&head.method, head.uri.path(), fields) {
            Ok(Some(action)) => action,
            Ok(None) => return not_found().await,
            Err(wrong) => return malformed(&wrong.into()),
        };
        if action.is_change() && is_from_elsewhere(&head.headers) {
            return problem(
                StatusCode::FORBIDDEN,
                "Not from here",
                "The form was sent by another site. Nothing was changed.",
                "Please do it on a page of this service.",
            );
        }
        let address = self.addresses.of(head);
        let device = self.shared.cookies.device(&head.headers);
        if let Action::LogIn { name, .. } = &action
            && let Some(wait) = self.wait_to_log_in(name, &device, address)
        {
            return shown(&Problem::TooManyLogIns(wait));
        }
        let key = self.shared.cookies.session(&head.headers);
        let seen = key.as_ref().and_then(|key| self.shared.accounts.of_session(key));
        let class = self.class(head, &action, seen.map(|account| account.class));
        let entry = shared_by(Entry::new().class(class).timeout(DEADLINE), seen, address);
        let (kind, title, is_change) = (action.kind(), action.title(), action.is_change());
        let request = MailRequest {
            action,
            key,
            csrf: fields.text("csrf").unwrap_or_default().to_owned(),
            address,
            device,
            path: path(head),
        };
        let stage = &self.stages[(kind as usize).min(self.stages.len() - 1)];
        match stage.call_as(request, entry).await {
            Ok(answer) => answer,
            // Of a session, not of a name: who cannot log in is not to learn whose account there is.
            Err(error) => {
                let class = seen.map(|account| account.class);
                Unanswered { title, is_change, class }.page(&error)
            }
        }
    }

    /// How long a log-in has to wait, if that is known before its stage.
    fn wait_to_log_in(
        &self,
        name: &str,
        device: &DeviceTokens,
        address: IpAddr,
    ) -> Option<Duration> {
        // After a start the stage has to read the key first.
        if !device.is_empty() && self.shared.database.device_key().is_none() {
            return None;
        }
        let guesser = self.shared.guesser(name, device, address);
        self.shared.log_ins.wait(name, &guesser, Instant::now())
    }

    /// The class of a request by what is known without the database: of its session, `seen`.
    fn class(&self, head: &Parts, action: &Action, seen: Option<AccountClass>) -> ClassId {
        let stated = self.class_header.as_ref().and_then(|name| head.headers.get(name));
        let class = match stated.map(HeaderValue::as_bytes) {
            Some(b"gold") => Some(AccountClass::Gold),
            Some(b"bronze") => Some(AccountClass::Bronze),
            _ => match action {
                Action::LogIn { name, .. } => self.shared.accounts.class_of_name(name),
                _ => seen,
            },
        };
        match class {
            Some(AccountClass::Gold) => self.gold,
            Some(AccountClass::Bronze) | None => self.bronze,
        }
    }

    /// The form to log in, whose cookie and field have the same token.
    fn log_in_form(
        &self,
        head: &Parts,
        status: StatusCode,
        name: &str,
        next: Option<&LocalPath>,
        trouble: Option<&str>,
    ) -> Answer {
        let known = self.shared.cookies.log_in_token(&head.headers).map(ToOwned::to_owned);
        let Ok(token) = known.map_or_else(new_token, Ok) else {
            return problem(
                StatusCode::INTERNAL_SERVER_ERROR,
                "Something went wrong",
                "The system has no random numbers.",
                "Please try again in a few minutes.",
            );
        };
        let mut answer = page(status, log_in_page(&token, name, next, trouble));
        answer.headers_mut().insert(SET_COOKIE, self.shared.cookies.set_log_in_token(&token));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::UserId;

    #[test]
    fn requests_are_shared_by_account_and_before_a_log_in_by_address() {
        let shared = |account: Option<i64>, address: &str| {
            let class = AccountClass::Bronze;
            let account = account.map(|id| KnownAccount { id: UserId(id), class });
            shared_by(Entry::new(), account, address.parse().unwrap())
        };
        assert_eq!(shared(Some(1), "192.0.2.1"), shared(Some(1), "192.0.2.2"));
        assert_ne!(shared(Some(1), "192.0.2.1"), shared(Some(2), "192.0.2.1"));
        assert_ne!(shared(Some(1), "192.0.2.1"), Entry::new());
        assert_eq!(shared(None, "2001:db8::1"), shared(None, "2001:db8::2"));
        assert_ne!(shared(None, "192.0.2.1"), shared(None, "192.0.2.2"));
        assert_ne!(shared(None, "192.0.2.1"), Entry::new());
    }
}
