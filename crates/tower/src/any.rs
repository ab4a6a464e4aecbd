//! Any tower service behind a gate, whatever its requests and responses are.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tamarisk_stage::{BoxError, Entry, Gate, RunError};
use tower::{Layer, Service};

/// Puts a service of any protocol behind a gate.
///
/// A request that the gate does not let through, or that is ended at the deadline of its
/// [`Entry`], is a [`RunError`]; the service's own errors stay what they are. Both arrive as
/// [`BoxError`], so ask `error.downcast_ref::<RunError>()`. The layer is always ready: the
/// service is made ready after admission.
///
/// An HTTP service goes behind a [`StageLayer`](crate::StageLayer), which answers in its terms.
#[derive(Clone)]
pub struct GateLayer<C> {
    gate: Gate,
    classify: C,
}

/// The service that a [`GateLayer`] makes.
#[derive(Clone)]
pub struct GateService<S, C> {
    inner: S,
    gate: Gate,
    classify: C,
}

impl<C> GateLayer<C> {
    /// Each request enters `gate` as `classify` says.
    pub fn new(gate: Gate, classify: C) -> Self {
        Self { gate, classify }
    }
}

impl<S, C: Clone> Layer<S> for GateLayer<C> {
    type Service = GateService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        GateService { inner, gate: self.gate.clone(), classify: self.classify.clone() }
    }
}

impl<S, C, R> Service<R> for GateService<S, C>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Into<BoxError> + Send,
    C: Fn(&R) -> Entry,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let entry = (self.classify)(&request);
        let (gate, mut inner) = (self.gate.clone(), self.inner.clone());
        Box::pin(async move {
            let permit = gate.enter(entry).await.map_err(RunError::from)?;
            let work = async {
                poll_fn(|cx| inner.poll_ready(cx)).await?;
                inner.call(request).await
            };
            let left = permit.deadline().map(|deadline| deadline.since(gate.clock().now()));
            match crate::in_time(work, left).await {
                None => {
                    permit.terminate();
                    Err(RunError::Terminated.into())
                }
                Some(Ok(response)) => {
                    permit.complete();
                    Ok(response)
                }
                Some(Err(error)) => {
                    let error = error.into();
                    permit.fail_because(error.to_string());
                    Err(error)
                }
            }
        })
    }
}
