//! Handlers made of functions.

use std::future::Future;

use super::{Batch, BlockingHandler, Context, Handler};
use crate::call::{BoxError, CallError, Reply, Request, share};

/// A function handles one event after the other: those behind it in a batch would wait for it,
/// while other workers may have nothing to do.
const ONE_BY_ONE: u32 = 1;

/// A handler made of a function, for the short case: one event at a time, no
/// private state.
#[derive(Clone, Copy, Debug)]
pub struct StageFn<F>(F);

/// Makes a factory of handlers from an async function of one event.
///
/// # Examples
/// ```
/// use tamarisk_stage::{Context, StageBuilder, stage_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (seen, mut seeing) = tokio::sync::mpsc::unbounded_channel();
/// let stage = StageBuilder::new("greet").workers(2).tasks(stage_fn(
///     move |name: String, _cx: Context| {
///         let seen = seen.clone();
///         async move { Ok(seen.send(format!("hello, {name}"))?) }
///     },
/// ))?;
/// stage.sink().try_send("world".to_owned())?;
/// assert_eq!(seeing.recv().await.as_deref(), Some("hello, world"));
/// # Ok(())
/// # }
/// ```
pub fn stage_fn<E, F, R>(function: F) -> impl Fn() -> StageFn<F> + Send + Sync + 'static
where
    E: Send + 'static,
    F: FnMut(E, Context) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<(), BoxError>> + Send,
{
    move || StageFn(function.clone())
}

/// Makes a factory of blocking handlers from a function of one event.
pub fn blocking_fn<E, F>(function: F) -> impl Fn() -> StageFn<F> + Send + Sync + 'static
where
    E: Send + 'static,
    F: FnMut(E, Context) -> Result<(), BoxError> + Clone + Send + Sync + 'static,
{
    move || StageFn(function.clone())
}

impl<E, F, R> Handler<E> for StageFn<F>
where
    E: Send + 'static,
    F: FnMut(E, Context) -> R + Send + 'static,
    R: Future<Output = Result<(), BoxError>> + Send,
{
    fn batch() -> u32 {
        ONE_BY_ONE
    }

    async fn handle(&mut self, batch: &mut Batch<E>) -> Result<(), BoxError> {
        while let Some((event, cx)) = batch.next() {
            (self.0)(event, cx).await?;
        }
        Ok(())
    }
}

impl<E, F> BlockingHandler<E> for StageFn<F>
where
    E: Send + 'static,
    F: FnMut(E, Context) -> Result<(), BoxError> + Send + 'static,
{
    fn batch() -> u32 {
        ONE_BY_ONE
    }

    fn handle(&mut self, batch: &mut Batch<E>) -> Result<(), BoxError> {
        while let Some((event, cx)) = batch.next() {
            (self.0)(event, cx)?;
        }
        Ok(())
    }
}

/// Answers each request with what a function returns; a clone of it is called for each.
pub(crate) struct AnswerFn<F>(pub(crate) F);

impl<Q, R, F, W> Handler<Request<Q, R>> for AnswerFn<F>
where
    Q: Send + 'static,
    R: Send + 'static,
    F: FnOnce(Q, Context) -> W + Clone + Send + 'static,
    W: Future<Output = Result<R, BoxError>> + Send,
{
    fn batch() -> u32 {
        ONE_BY_ONE
    }

    async fn handle(&mut self, batch: &mut Batch<Request<Q, R>>) -> Result<(), BoxError> {
        while let Some((Request { body, reply }, cx)) = batch.next() {
            let answer = self.0.clone()(body, cx).await;
            answered(batch, reply, answer)?;
        }
        Ok(())
    }
}

impl<Q, R, F> BlockingHandler<Request<Q, R>> for AnswerFn<F>
where
    Q: Send + 'static,
    R: Send + 'static,
    F: Fn(Q, Context) -> Result<R, BoxError> + Send + 'static,
{
    fn batch() -> u32 {
        ONE_BY_ONE
    }

    fn handle(&mut self, batch: &mut Batch<Request<Q, R>>) -> Result<(), BoxError> {
        while let Some((Request { body, reply }, cx)) = batch.next() {
            let answer = (self.0)(body, cx);
            answered(batch, reply, answer)?;
        }
        Ok(())
    }
}

fn answered<Q: Send + 'static, R: Send + 'static>(
    batch: &Batch<Request<Q, R>>,
    reply: Reply<R>,
    answer: Result<R, BoxError>,
) -> Result<(), BoxError> {
    match answer {
        Ok(answer) => {
            // An error means that the caller has left.
            let _ = reply.send(answer);
            Ok(())
        }
        Err(error) => {
            let error = share(error, |error| batch.core().expects(error));
            reply.fail(CallError::returned(&error));
            Err(error)
        }
    }
}

/// Runs a function on each event; a clone of it is called for each.
pub(crate) struct EventFn<F>(pub(crate) F);

impl<E, F, W> Handler<E> for EventFn<F>
where
    E: Send + 'static,
    F: FnOnce(E, Context) -> W + Clone + Send + 'static,
    W: Future<Output = Result<(), BoxError>> + Send,
{
    fn batch() -> u32 {
        ONE_BY_ONE
    }

    async fn handle(&mut self, batch: &mut Batch<E>) -> Result<(), BoxError> {
        while let Some((event, cx)) = batch.next() {
            self.0.clone()(event, cx).await?;
        }
        Ok(())
    }
}
