//! The way of a request through an upstream: sent under its permit, and its answer on the way back.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Response, StatusCode};
use tamarisk_http_gate::{Hold, grpc_failure};
use tamarisk_observe::access_log::Admission;
use tamarisk_server::{Tunnel, Upgrade};
use tokio::io::{AsyncWriteExt, copy_bidirectional};

use crate::answer::delivery::Recipient;
use crate::answer::proxy_body::ProxyBody;
use crate::budget::Budget;
use crate::error::ProxyError;
use crate::peer::Peer;
use crate::upstream::answer_reader::AnswerHead;
use crate::upstream::client::{Answered, Outgoing, UpstreamClient};

/// For whom a request is passed on, and how its answer comes back.
#[derive(Clone, Copy)]
pub(crate) struct Passage<'a> {
    pub(crate) peer: &'a Peer,
    /// What stands for the client in bounds.
    pub(crate) client: IpAddr,
    /// The answer comes little by little.
    pub(crate) streams: bool,
    pub(crate) budget: &'a Budget,
}

impl Passage<'_> {
    /// Sends a request to an upstream and begins to read its answer, as the client gets it.
    pub(crate) async fn go(
        self,
        to: &Arc<UpstreamClient>,
        request: Outgoing<'_>,
        logged: Option<&mut Admission>,
    ) -> Result<Response<ProxyBody>, ProxyError> {
        let Self { peer, client, streams, budget } = self;
        let Outgoing { head, id, body, permit } = request;
        let answered = to.exchange(peer, Outgoing { head: &mut *head, id, body, permit }).await?;
        if answered.head.status == StatusCode::SWITCHING_PROTOCOLS {
            return switch(answered, head.extensions.remove::<Upgrade>());
        }
        let recipient = Recipient { upstream_client: to, budget, client };
        Ok(poll_once(|cx| deliver(answered, streams, recipient, logged, cx)).await)
    }
}

/// Polls once, with the context of the task, and is ready whatever comes of it.
fn poll_once<T>(poll: impl FnOnce(&mut Context<'_>) -> T) -> impl Future<Output = T> {
    let mut poll = Some(poll);
    poll_fn(move |cx| Poll::Ready(poll.take().expect("it is ready at once")(cx)))
}

/// Whether an answer with this status counts as failed.
pub(crate) fn has_failed(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// Why an answer with this head counts as failed, if it does. One of gRPC that has no messages says
/// so in a field, for it has no trailers.
fn failure(head: &AnswerHead) -> Option<String> {
    match has_failed(head.status) {
        true => Some(format!("answered {}", head.status.as_u16())),
        false if head.is_stream => grpc_failure(&head.headers),
        false => None,
    }
}

/// The answer of an upstream as the client gets it.
fn deliver(
    answered: Answered,
    streams: bool,
    recipient: Recipient<'_>,
    logged: Option<&mut Admission>,
    cx: &mut Context<'_>,
) -> Response<ProxyBody> {
    let Answered { mut head, mut connection, permit, .. } = answered;
    let failure = failure(&head);
    // Of an answer that is there and has not failed nothing is left to be decided.
    let is_open = head.whole.is_none() || failure.is_some();
    // An error that comes at once says nothing of the places that streams wait for.
    let is_stream = (streams || head.is_stream) && failure.is_none() && head.status.is_success();
    let mut hold = Hold::new(permit, failure);
    if let Some(logged) = logged.filter(|_| is_open) {
        logged.held(hold.outcome());
    }
    if is_stream {
        hold.streams();
    } else {
        hold.stays_open();
        connection.set_stall_time(recipient.upstream_client.upstream.stall_time);
    }
    let body = match head.whole.take() {
        Some(bytes) => {
            hold.completes(bytes.len());
            recipient.upstream_client.give_back(connection);
            ProxyBody::whole(bytes)
        }
        None => ProxyBody::passing(connection, hold, recipient, cx),
    };
    with_head(head, body)
}

/// The answer that changes the protocol. What follows on either connection goes
/// to the other one, once the client's has taken this answer.
fn switch(answered: Answered, client: Option<Upgrade>) -> Result<Response<ProxyBody>, ProxyError> {
    let Answered { mut head, connection, permit, wish } = answered;
    let (Some(client), Some(_)) = (client, wish) else {
        permit.fail_because("changed protocols without being asked to");
        return Err(ProxyError::Broken);
    };
    permit.complete();
    let upgrade = head.upgrade.take();
    let mut answer = with_head(head, ProxyBody::from(Bytes::new()));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    answer.headers_mut().extend(upgrade.map(|protocols| (UPGRADE, protocols)));
    answer.extensions_mut().insert(Tunnel::new(async move {
        let (mut upstream, read_ahead) = connection.into_stream();
        let Ok(mut client) = client.await else { return };
        // Whichever end breaks off, the other one is closed.
        if client.write_all(&read_ahead).await.is_ok() {
            let _ = copy_bidirectional(&mut client, &mut upstream).await;
        }
    }));
    Ok(answer)
}

fn with_head(head: AnswerHead, body: ProxyBody) -> Response<ProxyBody> {
    let mut answer = Response::new(body);
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.headers;
    if let Some(reason) = head.reason {
        answer.extensions_mut().insert(reason);
    }
    answer
}
