//! Routes that stages answer.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Request as HttpRequest};
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use tamarisk_http_gate::{ClientAddress, Form, client_network, timeout};
use tamarisk_stage::{CallError, Entry, Request, Stage};

use crate::error::StageError;

/// A handler of axum that has `stage` answer: the stage's requests are made by an extractor
/// of axum (`String`, `Json<T>`), its answers are responses of axum; [`Answers::map`] translates
/// where they are not.
///
/// Each request enters as the stage's default class, with the deadline that its head names
/// (`X-Request-Timeout`, `grpc-timeout`), as one of its client's: while not all can be served,
/// clients share equally. A client is who has an address, or an IPv6 network of 64 bits. A
/// [`Service`](crate::Service) tells it, `axum::serve` does with
/// `into_make_service_with_connect_info::<SocketAddr>()`. See [`Answers::classify`].
pub fn answers<Q: Send + 'static, R: Send + 'static>(
    stage: &Stage<Request<Q, R>>,
) -> Answers<Q, R> {
    Answers {
        stage: stage.clone(),
        classify: |_| Entry::new(),
        ask: |body| body,
        answer: |answer| answer,
        errors: Errors::default(),
    }
}

/// The handler that [`answers`] makes.
pub struct Answers<Q, R, C = fn(&Parts) -> Entry, I = fn(Q) -> Q, O = fn(R) -> R>
where
    Q: Send + 'static,
    R: Send + 'static,
{
    stage: Stage<Request<Q, R>>,
    classify: C,
    /// Makes a request of the stage of what was extracted.
    ask: I,
    /// Makes what axum can send of an answer of the stage.
    answer: O,
    errors: Errors,
}

/// The responses to errors of handlers: those of the types that are known.
#[derive(Clone, Default)]
struct Errors(Option<Arc<ResponseTo>>);

type ResponseTo = dyn Fn(&CallError) -> Option<Response> + Send + Sync;

impl Errors {
    fn response(&self, error: &CallError) -> Option<Response> {
        self.0.as_ref()?(error)
    }
}

impl<Q: Send + 'static, R: Send + 'static, C, I, O> Answers<Q, R, C, I, O> {
    /// As what each request enters, by its head. A deadline that the head names
    /// (`X-Request-Timeout`, `grpc-timeout`) counts only if it is earlier than that of the
    /// [`Entry`]: a client can shorten the operator's deadline and not extend it. An entry that states
    /// no [flow](Entry::flow) gets the client's address.
    ///
    /// # Examples
    /// ```
    /// # use axum::{Router, routing::post};
    /// # use tamarisk_axum::answers;
    /// # use tamarisk_stage::{Context, Entry, Stage};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shout = Stage::builder("shout")
    ///     .classes(["gold", "bronze"])
    ///     .handler(async |text: String, _: Context| Ok(text.to_uppercase()))?;
    /// let gold = shout.class("gold").ok_or("no such class")?;
    /// let route = answers(&shout).classify(move |head| match head.headers.get("x-plan") {
    ///     Some(plan) if plan == "gold" => Entry::new().class(gold),
    ///     _ => Entry::new(),
    /// });
    /// let router: Router = Router::new().route("/shout", post(route));
    /// # Ok(())
    /// # }
    /// ```
    pub fn classify<D>(self, classify: D) -> Answers<Q, R, D, I, O>
    where
        D: Fn(&Parts) -> Entry + Clone + Send + Sync + 'static,
    {
        let Self { stage, ask, answer, errors, .. } = self;
        Answers { stage, classify, ask, answer, errors }
    }

    /// Translates between HTTP's terms and the stage's: `ask` makes a request of what axum extracts,
    /// `answer` what axum sends of the answer. So no stage behind the route knows of `Json`.
    ///
    /// # Examples
    /// ```
    /// # use axum::{Json, Router, routing::post};
    /// # use tamarisk_axum::answers;
    /// # use tamarisk_stage::{Context, Stage};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sum = Stage::builder("sum")
    ///     .handler(async |numbers: Vec<u32>, _: Context| Ok(numbers.iter().sum::<u32>()))?;
    /// let route = answers(&sum).map(|Json(numbers): Json<Vec<u32>>| numbers, Json);
    /// let router: Router = Router::new().route("/sum", post(route));
    /// # Ok(())
    /// # }
    /// ```
    pub fn map<X, A, J, P>(self, ask: J, answer: P) -> Answers<Q, R, C, J, P>
    where
        J: Fn(X) -> Q + Clone + Send + Sync + 'static,
        P: Fn(R) -> A + Clone + Send + Sync + 'static,
    {
        let Self { stage, classify, errors, .. } = self;
        Answers { stage, classify, ask, answer, errors }
    }

    /// Errors of this type that a handler returns, in whatever stage, are answered with what
    /// `respond` makes of them. An error that is a response itself is cloned. Other errors are
    /// answered with 500.
    ///
    /// What the caller did wrong is an answer: have its stage
    /// [expect](tamarisk_stage::StageBuilder::expects) it, else the event counts as failed.
    ///
    /// # Examples
    /// ```
    /// # use axum::response::{IntoResponse, Response};
    /// # use axum::{Router, http::StatusCode, routing::post};
    /// # use tamarisk_axum::answers;
    /// # use tamarisk_stage::{Context, Stage};
    /// #[derive(Clone, Debug, thiserror::Error)]
    /// #[error("{0} is not there")]
    /// struct NotThere(String);
    ///
    /// impl IntoResponse for NotThere {
    ///     fn into_response(self) -> Response {
    ///         (StatusCode::NOT_FOUND, self.to_string()).into_response()
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let find = Stage::builder("find")
    ///     .expects(|_: &NotThere| true)
    ///     .handler(async |name: String, _: Context| -> Result<String, _> { Err(NotThere(name).into()) })?;
    /// let route = answers(&find).errors(NotThere::clone);
    /// let router: Router = Router::new().route("/find", post(route));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn errors<E, A>(mut self, respond: impl Fn(&E) -> A + Send + Sync + 'static) -> Self
    where
        E: Error + 'static,
        A: IntoResponse,
    {
        let others = self.errors;
        self.errors = Errors(Some(Arc::new(move |error| match error.downcast_ref() {
            Some(error) => Some(respond(error).into_response()),
            None => others.response(error),
        })));
        self
    }
}

impl<Q, R, C, I, O> Clone for Answers<Q, R, C, I, O>
where
    Q: Send + 'static,
    R: Send + 'static,
    C: Clone,
    I: Clone,
    O: Clone,
{
    fn clone(&self) -> Self {
        Self {
            stage: self.stage.clone(),
            classify: self.classify.clone(),
            ask: self.ask.clone(),
            answer: self.answer.clone(),
            errors: self.errors.clone(),
        }
    }
}

impl<Q, R, C, I, O, X, A, S, M> Handler<(M, X), S> for Answers<Q, R, C, I, O>
where
    Q: Send + 'static,
    R: Send + 'static,
    C: Fn(&Parts) -> Entry + Clone + Send + Sync + 'static,
    I: Fn(X) -> Q + Clone + Send + Sync + 'static,
    O: Fn(R) -> A + Clone + Send + Sync + 'static,
    X: FromRequest<S, M> + Send + 'static,
    A: IntoResponse,
    S: Send + Sync + 'static,
    M: 'static,
{
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: HttpRequest, state: S) -> Self::Future {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let entry = told_by((self.classify)(&head), &head);
            let form = Form::of(&head.method, &head.headers);
            let request = HttpRequest::from_parts(head, body);
            let body = match X::from_request(request, &state).await {
                Ok(body) => body,
                Err(malformed) => return malformed.into_response(),
            };
            match self.stage.call_as((self.ask)(body), entry).await {
                Ok(answer) => (self.answer)(answer).into_response(),
                Err(error) => {
                    let known = self.errors.response(&error);
                    known.unwrap_or_else(|| StageError::from(error).response(form))
                }
            }
        })
    }
}

/// An extractor for handlers of axum that call stages themselves: an [`Entry`] of the default
/// class with the deadline that the head names, as one of its client's.
#[derive(Clone, Copy, Debug)]
pub struct RequestEntry(pub Entry);

impl<S: Sync> FromRequestParts<S> for RequestEntry {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(told_by(Entry::new(), head)))
    }
}

/// With what the head of a request says: when its client stops waiting, and who that is.
fn told_by(entry: Entry, head: &Parts) -> Entry {
    let entry = timeout(&head.headers).map_or(entry, |timeout| entry.timeout_at_most(timeout));
    let ClientAddress(client) = match (head.extensions.get(), head.extensions.get()) {
        (Some(client), _) => *client,
        (None, Some(ConnectInfo(peer))) => ClientAddress(SocketAddr::ip(peer)),
        (None, None) => return entry,
    };
    entry.flow_or(client_network(client))
}
