//! A call without an answer, in HTTP's terms.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode};
use tamarisk_http_gate::{Details, Form, Message};
use tamarisk_stage::{CallError, EnterError};

const OVERDUE: Message =
    Message::new(StatusCode::GATEWAY_TIMEOUT, "overdue", "the deadline of the request has passed");
const FAILED: Message = Message::new(
    StatusCode::INTERNAL_SERVER_ERROR,
    "failed",
    "the service failed to answer the request",
);

/// What a handler of axum returns when a call to a stage has no answer: `?` makes it of a
/// [`CallError`].
///
/// A rejection is 503 with `Retry-After`, an event ended at its deadline 504, anything else
/// 500.
///
/// # Examples
/// ```
/// use axum::extract::State;
/// use tamarisk_axum::{RequestEntry, StageError};
/// use tamarisk_stage::{Request, Stage};
///
/// async fn length(
///     State(count): State<Stage<Request<String, usize>>>,
///     RequestEntry(entry): RequestEntry,
///     text: String,
/// ) -> Result<String, StageError> {
///     Ok(count.call_as(text, entry).await?.to_string())
/// }
/// # let router: axum::Router<Stage<Request<String, usize>>> =
/// #     axum::Router::new().route("/", axum::routing::post(length));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct StageError(#[from] CallError);

impl StageError {
    /// The response to a request with this method and these headers: as HTML, JSON or text, by
    /// `Accept`.
    pub fn response_to(self, method: &Method, headers: &HeaderMap) -> Response {
        self.response(Form::of(method, headers))
    }

    pub(crate) fn response(&self, form: Form) -> Response {
        let rejected = match self.0.cause() {
            CallError::Rejected(rejection) => EnterError::Rejected(*rejection),
            CallError::Dropped => EnterError::Dropped,
            CallError::Closed => EnterError::Closed,
            CallError::Terminated => return OVERDUE.answer(form),
            _ => return FAILED.answer(form),
        };
        tamarisk_http_gate::rejected(&rejected, form, Details::default())
    }
}

impl IntoResponse for StageError {
    fn into_response(self) -> Response {
        self.response(Form::Text)
    }
}
