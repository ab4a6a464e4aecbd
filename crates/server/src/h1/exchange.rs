//! One request that the service answers, and its response.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use pin_project_lite::pin_project;
use tamarisk_h1::{Event, trailer_fields};
use tamarisk_http_gate::Rejection;
use tokio::io::{AsyncRead, AsyncWrite};

use super::response::{self, Encoder, FirstPart, Output, RequestFacts};
use super::wire::{Fault, Wire};
use crate::body_error::ClientBodyError;
use crate::client_body::{BodySender, ClientBody, Demand};
use crate::client_service::ClientService;
use crate::rejection_backoff::RejectionBackoff;
use crate::transport::disconnect::PendingBodyGuard;
use crate::transport::outlet::Outlet;
use crate::tunnel::{Occupied, Tunnel};

/// What is read at most of a body that nobody wants, to go on with the connection behind it.
const UNWANTED_MAX: usize = 64 * 1024;

/// Turns of reading, answering and writing before others have theirs.
const TURNS: usize = 64;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

pin_project! {
    /// A request under way, of a service with such futures and bodies.
    pub(super) struct Exchange<F, B> {
        #[pin]
        work: Work<F, B>,
        asked: RequestFacts,
        // None if the body is complete, or there will be no more of it.
        body: Option<BodySender>,
        // The client is still sending a body that nobody reads.
        is_unread: bool,
        output: Output,
        encoder: Encoder,
        keep: bool,
        pending_body: Option<PendingBodyGuard>,
        tunnel: Option<Occupied>,
        is_switched: bool,
        // The response's body has broken off: what there was of it is sent, and nothing behind it.
        is_cut: bool,
        pause: std::time::Duration,
    }
}

pin_project! {
    #[project = WorkProjected]
    enum Work<F, B> {
        // Always Some: it is taken as the service is called.
        Asked { request: Option<Request<ClientBody>> },
        Answering { #[pin] response: F },
        Sending { #[pin] body: B },
        Done,
    }
}

/// How the body of a response ended.
enum BodyEnd {
    Whole,
    Broken,
}

/// How an exchange ended.
pub(super) enum ExchangeEnd {
    /// The next request may follow, after this pause.
    Next { pause: std::time::Duration },
    /// The connection is to close; the client may be sending still.
    Close { is_sending: bool },
    /// The client has left, or there is nothing more that it could be told.
    Broken,
    /// The protocol has changed, and this is what goes on.
    Switched(Option<Occupied>),
}

impl<F, B, E> Exchange<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Data = Bytes>,
{
    /// Has the service answer `request`, whose body goes to it meanwhile if there is a sender.
    pub(super) fn new(
        request: Request<ClientBody>,
        asked: RequestFacts,
        body: Option<BodySender>,
        pending_body: Option<PendingBodyGuard>,
    ) -> Self {
        Self {
            work: Work::Asked { request: Some(request) },
            asked,
            body,
            is_unread: false,
            output: Output::default(),
            encoder: Encoder::Length(0),
            keep: asked.keep,
            pending_body,
            tunnel: None,
            is_switched: false,
            is_cut: false,
            pause: std::time::Duration::ZERO,
        }
    }

    /// The connection closes behind it.
    pub(super) fn closes_later(self: Pin<&mut Self>) {
        *self.project().keep = false;
    }

    /// Reads, answers and writes as far as it goes; ready when that is all.
    pub(super) fn poll<T: AsyncRead + Outlet, S: ClientService<Future = F>>(
        mut self: Pin<&mut Self>,
        wire: &mut Wire<T>,
        service: &S,
        backoff: &RejectionBackoff,
        cx: &mut Context<'_>,
    ) -> Poll<ExchangeEnd> {
        if let Some(body) = self.as_mut().project().body {
            body.forget_waker();
        }
        for _ in 0..TURNS {
            let demand = self.body.as_ref().map(BodySender::demand);
            let has_read = demand.is_some_and(|demand| self.as_mut().read(demand, wire, cx));
            let has_worked = match self.as_mut().work(wire, service, backoff, cx) {
                Ok(has_worked) => has_worked,
                Err(ended) => return Poll::Ready(ended),
            };
            let this = self.as_mut().project();
            let was_written = this.output.is_written();
            let written = match this.output.poll_write(&mut wire.stream, cx) {
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(_)) => return Poll::Ready(ExchangeEnd::Broken),
                Poll::Pending => false,
            };
            if has_read || has_worked || (written && !was_written) {
                continue;
            }
            // Also to learn of a client that has left while it owes a body.
            let is_flushed = match written.then(|| Pin::new(&mut wire.stream).poll_flush(cx)) {
                Some(Poll::Ready(Err(_))) => return Poll::Ready(ExchangeEnd::Broken),
                Some(Poll::Ready(Ok(()))) => true,
                Some(Poll::Pending) | None => false,
            };
            if let (Some(body), Some(demand)) = (this.body, demand) {
                match body.poll_change(demand, cx) {
                    Poll::Ready(()) => continue,
                    Poll::Pending => return Poll::Pending,
                }
            }
            if is_flushed && matches!(*this.work, Work::Done) {
                return Poll::Ready(self.end(wire, cx));
            }
            return match *this.is_unread {
                false if wire.poll_left(cx).is_ready() => Poll::Ready(ExchangeEnd::Broken),
                _ => Poll::Pending,
            };
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn end<T: AsyncRead + Outlet>(
        self: Pin<&mut Self>,
        wire: &mut Wire<T>,
        cx: &mut Context<'_>,
    ) -> ExchangeEnd {
        let this = self.project();
        if *this.is_cut {
            return ExchangeEnd::Broken;
        }
        if *this.is_switched && !*this.is_unread {
            return ExchangeEnd::Switched(this.tunnel.take());
        }
        if !*this.keep || *this.is_unread {
            wire.stream.set_unfinished(false);
            // Who has said that it sends nothing more is believed.
            let is_sending = *this.is_unread || (this.asked.keep && wire.has_more(cx));
            return ExchangeEnd::Close { is_sending };
        }
        wire.resume();
        ExchangeEnd::Next { pause: *this.pause }
    }

    /// Reads on in the request's body, if that is wanted; whether there was anything.
    fn read<T: AsyncRead + Outlet>(
        self: Pin<&mut Self>,
        demand: Demand,
        wire: &mut Wire<T>,
        cx: &mut Context<'_>,
    ) -> bool {
        let this = self.project();
        let Some(body) = this.body else { return false };
        match demand {
            Demand::Later => return false,
            Demand::Never => {
                // Mostly the rest has come, or there is none: then the connection can go on.
                *this.body = None;
                if !is_over_soon(wire, cx) {
                    (*this.is_unread, *this.keep) = (true, false);
                }
                return true;
            }
            Demand::Wanted => {}
        }
        if this.asked.expects_continue && matches!(*this.work, Work::Answering { .. }) {
            this.asked.expects_continue = false;
            this.output.gathered().extend_from_slice(CONTINUE);
        }
        let end = match wire.poll_event(cx) {
            Poll::Pending => return false,
            Poll::Ready(Ok(event)) => {
                let bytes = wire.take(event.len());
                match event {
                    Event::Data(_) => body.send(Frame::data(bytes)),
                    Event::Trailers(_) => body.send(Frame::trailers(fields(&bytes))),
                    Event::Head(_) | Event::Framing(_) | Event::End => {}
                }
                let is_over = event == Event::End || wire.left() == Some(0);
                if !is_over {
                    return true;
                }
                if event != Event::End {
                    wire.finish_empty();
                }
                Ok(())
            }
            Poll::Ready(Err(fault)) => {
                (*this.is_unread, *this.keep) = (!matches!(fault, Fault::Gone), false);
                Err(match fault {
                    Fault::Violation(violation) => ClientBodyError::Malformed(violation),
                    Fault::Gone => ClientBodyError::Gone,
                })
            }
        };
        body.end(end);
        *this.body = None;
        true
    }

    /// Has the service answer, and gathers what it answers; whether there was anything.
    fn work<T: AsyncRead + Outlet, S: ClientService<Future = F>>(
        mut self: Pin<&mut Self>,
        wire: &mut Wire<T>,
        service: &S,
        backoff: &RejectionBackoff,
        cx: &mut Context<'_>,
    ) -> Result<bool, ExchangeEnd> {
        let mut has_worked = false;
        loop {
            let mut this = self.as_mut().project();
            match this.work.as_mut().project() {
                WorkProjected::Done => return Ok(has_worked),
                WorkProjected::Asked { request } => {
                    let request = request.take().expect("the service is called once");
                    this.work.set(Work::Answering { response: service.call(request) });
                }
                WorkProjected::Answering { response } => match response.poll(cx) {
                    Poll::Pending => return Ok(has_worked),
                    Poll::Ready(Err(_)) => return Err(ExchangeEnd::Broken),
                    Poll::Ready(Ok(response)) => self.as_mut().respond(response, wire, backoff, cx),
                },
                WorkProjected::Sending { body } => {
                    if !this.output.has_room() {
                        return Ok(has_worked);
                    }
                    match body.poll_frame(cx) {
                        Poll::Pending => return Ok(has_worked),
                        Poll::Ready(Some(Ok(frame))) => {
                            this.encoder.frame(frame, this.output);
                            if this.encoder.is_done() {
                                this.work.set(Work::Done);
                            }
                        }
                        Poll::Ready(Some(Err(_))) => self.as_mut().finish(BodyEnd::Broken),
                        Poll::Ready(None) => self.as_mut().finish(BodyEnd::Whole),
                    }
                }
            }
            has_worked = true;
        }
    }

    fn respond<T: AsyncRead + Outlet>(
        mut self: Pin<&mut Self>,
        mut response: Response<B>,
        wire: &mut Wire<T>,
        backoff: &RejectionBackoff,
        cx: &mut Context<'_>,
    ) {
        let mut this = self.as_mut().project();
        *this.pending_body = None;
        let status = response.status();
        *this.is_switched = this.asked.upgrade
            && (status == StatusCode::SWITCHING_PROTOCOLS
                || (this.asked.is_connect && status.is_success()));
        if status.is_informational() && !*this.is_switched {
            // It is no answer, and the client would wait for one.
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            *this.keep = false;
        }
        let status = response.status();
        *this.keep &= !backoff.is_parting();
        backoff.responses().count(status);
        *this.pause = backoff.answered(response.extensions().get::<Rejection>().is_some());
        // What nobody wants of the request decides about the connection, which the head tells.
        if this.body.as_ref().is_some_and(|body| body.demand() == Demand::Never) {
            *this.body = None;
            if !is_over_soon(wire, cx) {
                (*this.is_unread, *this.keep) = (true, false);
            }
        }
        let keep = *this.keep || *this.is_switched;
        let (mut head, body) = response.into_parts();
        let length = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
        this.work.set(Work::Sending { body });
        // What is there of the body goes into one piece with the head.
        let polled = match this.work.as_mut().project() {
            WorkProjected::Sending { body }
                if length != Some(0) && response::has_body(status, this.asked) =>
            {
                body.poll_frame(cx)
            }
            _ => Poll::Pending,
        };
        let (frame, end) = match polled {
            Poll::Ready(Some(Ok(frame))) => (Some(frame), None),
            Poll::Ready(Some(Err(_))) => (None, Some(BodyEnd::Broken)),
            Poll::Ready(None) => (None, Some(BodyEnd::Whole)),
            Poll::Pending => (None, None),
        };
        let first = FirstPart { length, frame };
        let begun = response::begin(&mut head, first, this.asked, keep, this.output);
        *this.keep &= begun.keep;
        *this.encoder = begun.encoder;
        if matches!(this.encoder, Encoder::UntilClose) {
            wire.stream.set_unfinished(true);
        }
        *this.tunnel = head.extensions.get::<Tunnel>().and_then(Tunnel::take);
        match end {
            Some(end) => self.finish(end),
            None if this.encoder.is_done() => this.work.set(Work::Done),
            None => {}
        }
    }

    /// There is no more of the response's body.
    fn finish(self: Pin<&mut Self>, end: BodyEnd) {
        let mut this = self.project();
        *this.is_cut = match end {
            BodyEnd::Whole => this.encoder.end(this.output).is_err(),
            BodyEnd::Broken => true,
        };
        this.work.set(Work::Done);
    }
}

/// Reads over the rest of a body, as far as it has come; whether that was all.
fn is_over_soon<T: AsyncRead + Outlet>(wire: &mut Wire<T>, cx: &mut Context<'_>) -> bool {
    let mut bytes = 0;
    while bytes < UNWANTED_MAX {
        match wire.poll_event(cx) {
            Poll::Ready(Ok(Event::End)) => return true,
            Poll::Ready(Ok(event)) => {
                bytes += event.len();
                wire.skip(event.len());
            }
            Poll::Ready(Err(_)) | Poll::Pending => return false,
        }
    }
    false
}

fn fields(trailers: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in trailer_fields(trailers) {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            fields.append(name, value);
        }
    }
    fields
}
