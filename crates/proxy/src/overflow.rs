//! Overflow: a request that a gate has rejected goes to another upstream [Welsh03 §2.3].
//!
//! The overflow has a gate of its own, without a queue: it bounds how many requests are in
//! flight there, so that the excess of one service cannot overload the next. A request that the
//! overflow cannot take has the rejection that it would have had without, and so has one without an
//! answer, if it may be sent again. It stays a rejection of the first gate in any case.

use std::sync::Arc;
use std::time::Instant;

use http::request::Parts;
use http::{HeaderMap, Response};
use tamarisk_control::Reason;
use tamarisk_observe::RequestId;
use tamarisk_observe::access_log::Admission;
use tamarisk_stage::{EnterError, Entry, Gate};

use crate::answer::proxy_body::ProxyBody;
use crate::error::ProxyError;
use crate::passage::Passage;
use crate::request::body::RequestBody;
use crate::request::head::OVERFLOW;
use crate::upstream::client::{Outgoing, UpstreamClient};

/// A request that a gate has rejected.
pub(crate) struct Excess<'a> {
    pub(crate) head: &'a mut Parts,
    pub(crate) id: &'a RequestId,
    /// None of it has been sent.
    pub(crate) body: Option<Box<RequestBody>>,
    /// How it asks for a place, with the time that is left.
    pub(crate) entry: Entry,
    /// Which gate that was.
    pub(crate) rejected_by: &'a Gate,
}

/// The overflow for a request of these `headers` that the upstream's gate has rejected, if there is one.
///
/// A request that has overflowed once is not sent on again: two services that overflow into each other
/// would pass a request to and fro.
pub(crate) fn of(
    upstream_client: &UpstreamClient,
    rejected: &EnterError,
    headers: &HeaderMap,
) -> Option<Arc<UpstreamClient>> {
    let overflow = upstream_client.overflow()?;
    // Where this proxy itself is short of something, a request to elsewhere takes still more of it.
    let is_overload = !matches!(
        tamarisk_http_gate::reason(rejected),
        Reason::Closed | Reason::Draining | Reason::ResourceScarce
    );
    (is_overload && !headers.contains_key(OVERFLOW)).then_some(overflow)
}

/// The answer of `overflow`, or why there is none; `None` if the rejection says all that the client has
/// to know.
///
/// That one invites to try again, which nobody should whose request may have been executed, unless it
/// is idempotent [RFC9110 §9.2.2].
pub(crate) async fn answer(
    overflow: &Arc<UpstreamClient>,
    passage: Passage<'_>,
    excess: Excess<'_>,
    logged: Option<&mut Admission>,
) -> Option<Result<Response<ProxyBody>, ProxyError>> {
    let Excess { head, id, body, entry, rejected_by } = excess;
    let gate = overflow.upstream.gate();
    let permit = gate.try_enter_from(rejected_by, entry).ok()?;
    let start = Instant::now();
    let is_idempotent = head.method.is_idempotent();
    match passage.go(overflow, Outgoing { head, id, body, permit }, None).await {
        Ok(answer) => {
            logged.into_iter().for_each(|logged| logged.overflowed(start.elapsed()));
            Some(Ok(answer))
        }
        Err(error) => {
            tracing::debug!(
                "Request {} of {} to {:?} has no answer: {}.",
                id.as_str(),
                passage.client,
                gate.name(),
                error.reason()
            );
            let is_final = match error {
                ProxyError::Client(_) => true,
                error => error.may_be_done() && !is_idempotent,
            };
            is_final.then_some(Err(error))
        }
    }
}
