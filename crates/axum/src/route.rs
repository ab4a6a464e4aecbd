//! Routes that stages answer.

use std::convert::Infallible;
use std::pin::Pin;

use axum::extract::{FromRequest, FromRequestParts, Request as HttpRequest};
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use tamarisk_http_gate::{Form, timeout};
use tamarisk_stage::{Entry, Request, Stage};

use crate::error::StageError;

/// A handler of axum that has `stage` answer: the stage's requests are made by an extractor
/// of axum (`String`, `Json<T>`), its answers are responses of axum.
///
/// Each request enters as the stage's default class, with the deadline that its head names
/// (`X-Request-Timeout`, `grpc-timeout`); see [`Answers::classify`].
pub fn answers<Q: Send + 'static, R: Send + 'static>(
    stage: &Stage<Request<Q, R>>,
) -> Answers<Q, R> {
    Answers { stage: stage.clone(), classify: |_| Entry::new() }
}

/// The handler that [`answers`] makes.
pub struct Answers<Q: Send + 'static, R: Send + 'static, C = fn(&Parts) -> Entry> {
    stage: Stage<Request<Q, R>>,
    classify: C,
}

impl<Q: Send + 'static, R: Send + 'static, C> Answers<Q, R, C> {
    /// As what each request enters, by its head. A deadline that the head names
    /// (`X-Request-Timeout`, `grpc-timeout`) counts only if it is earlier than that of the
    /// [`Entry`]: a client can shorten the operator's deadline and not extend it.
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
    pub fn classify<D>(self, classify: D) -> Answers<Q, R, D>
    where
        D: Fn(&Parts) -> Entry + Clone + Send + Sync + 'static,
    {
        Answers { stage: self.stage, classify }
    }
}

impl<Q: Send + 'static, R: Send + 'static, C: Clone> Clone for Answers<Q, R, C> {
    fn clone(&self) -> Self {
        Self { stage: self.stage.clone(), classify: self.classify.clone() }
    }
}

impl<Q, R, C, S, M> Handler<(M, Q), S> for Answers<Q, R, C>
where
    Q: FromRequest<S, M> + Send + 'static,
    R: IntoResponse + Send + 'static,
    C: Fn(&Parts) -> Entry + Clone + Send + Sync + 'static,
    S: Send + Sync + 'static,
    M: 'static,
{
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: HttpRequest, state: S) -> Self::Future {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let entry = with_timeout((self.classify)(&head), &head);
            let form = Form::of(&head.method, &head.headers);
            let request = HttpRequest::from_parts(head, body);
            let body = match Q::from_request(request, &state).await {
                Ok(body) => body,
                Err(malformed) => return malformed.into_response(),
            };
            match self.stage.call_as(body, entry).await {
                Ok(answer) => answer.into_response(),
                Err(error) => StageError::from(error).response(form),
            }
        })
    }
}

/// An extractor for handlers of axum that call stages themselves: an [`Entry`] of the default
/// class with the deadline that the head names.
#[derive(Clone, Copy, Debug)]
pub struct RequestEntry(pub Entry);

impl<S: Sync> FromRequestParts<S> for RequestEntry {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(with_timeout(Entry::new(), head)))
    }
}

fn with_timeout(entry: Entry, head: &Parts) -> Entry {
    timeout(&head.headers).map_or(entry, |timeout| entry.timeout_at_most(timeout))
}
