//! What a sender states of an event: class, deadline, cost, flow and kind.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tamarisk_control::{ClassId, Timestamp};

use crate::call::{Caller, Reply};

/// Class, deadline, cost, flow and kind of an event; all optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub(crate) requested: Option<Timestamp>,
    pub(crate) class: ClassId,
    pub(crate) due: Deadline,
    pub(crate) cost: u32,
    pub(crate) flow: u64,
    pub(crate) kind: u64,
}

/// When an answer stops being of use, as its sender states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Deadline {
    #[default]
    Never,
    At(Timestamp),
    Within(Duration),
    /// At the instant or after the time, whichever is earlier.
    Earlier(Timestamp, Duration),
}

impl Deadline {
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Never => Timestamp::MAX,
            Self::At(instant) => instant,
            Self::Within(timeout) => now + timeout,
            Self::Earlier(instant, timeout) => instant.min(now + timeout),
        }
    }

    fn at_most(self, timeout: Duration) -> Self {
        match self {
            Self::Never => Self::Within(timeout),
            Self::At(instant) => Self::Earlier(instant, timeout),
            Self::Within(before) => Self::Within(before.min(timeout)),
            Self::Earlier(instant, before) => Self::Earlier(instant, before.min(timeout)),
        }
    }
}

impl Entry {
    /// The default class, no deadline, cost 1, flow 0, kind 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// The class: it has the target and the priority.
    #[must_use]
    pub fn class(mut self, class: ClassId) -> Self {
        self.class = class;
        self
    }

    /// When its request entered the service, on the stage's clock: the start of the response
    /// times of stages that are [measured from](crate::StageBuilder::measured_from) there. By
    /// default when the event enters the stage; what a handler sends on by its
    /// [`Context`](crate::Context) has it from its own event.
    #[must_use]
    pub fn requested(mut self, at: Timestamp) -> Self {
        self.requested = Some(at);
        self
    }

    /// The instant, on the stage's clock, after which the event is of no use.
    #[must_use]
    pub fn deadline(mut self, deadline: Timestamp) -> Self {
        self.due = Deadline::At(deadline);
        self
    }

    /// The same as a time from now.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.due = Deadline::Within(timeout);
        self
    }

    /// The same, but an earlier deadline or timeout that is set already stays: for a timeout that
    /// a client asks for, which must not extend the operator's.
    #[must_use]
    pub fn timeout_at_most(mut self, timeout: Duration) -> Self {
        self.due = self.due.at_most(timeout);
        self
    }

    /// How much work it is, in any unit: what shortest-first sorts by and what
    /// a flow is charged in a fair queue. Zero counts as one.
    #[must_use]
    pub fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// Whom it belongs to (a client, a session, an account): fair queues share
    /// by it, and partitioned stages keep the order of events of one key.
    #[must_use]
    pub fn flow(mut self, key: impl Hash) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        key.hash(&mut hasher);
        self.flow = hasher.finish();
        self
    }

    /// The same where none is stated yet: for what knows the address of a client, below what knows
    /// its account.
    #[must_use]
    pub fn flow_or(self, key: impl Hash) -> Self {
        if self.flow == 0 { self.flow(key) } else { self }
    }

    /// What kind of work it is: events of one kind take about as long, and laws learn how
    /// long that is. 0 is not known.
    #[must_use]
    pub fn kind(mut self, kind: u64) -> Self {
        self.kind = kind;
        self
    }
}

/// An event together with its [`Entry`].
#[derive(Clone, Debug)]
pub struct Envelope<E> {
    pub(crate) event: E,
    pub(crate) entry: Entry,
    /// The stage whose handler sends it.
    pub(crate) sender: Option<Arc<str>>,
    /// The caller that waits for it, if one does.
    pub(crate) caller: Option<Caller>,
}

impl<E> Envelope<E> {
    /// `event`, entering as `entry` says.
    pub fn new(event: E, entry: Entry) -> Self {
        Self { event, entry, sender: None, caller: None }
    }

    /// The event carries the reply of a call: when the caller leaves, it is of no use any more. It
    /// is not begun then, or ended where it can be, and counts as abandoned. A [`Request`] that is
    /// [called](crate::Stage::call) or [forwarded](crate::Context::forward) is known to carry its
    /// own.
    ///
    /// # Examples
    /// ```
    /// # use tamarisk_stage::{Context, Reply, Request, Stage};
    /// struct Job {
    ///     page: u32,
    ///     reply: Reply<String>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let render = Stage::builder("render").event_handler(async |job: Job, _: Context| {
    ///     let _ = job.reply.send(format!("page {}", job.page));
    ///     Ok(())
    /// })?;
    /// let parse = Stage::builder("parse").event_handler(
    ///     async move |Request { body, reply }: Request<&str, String>, cx: Context| {
    ///         let job = Job { page: body.parse()?, reply };
    ///         render.sink().try_send(cx.envelope(job).reply(|job| &job.reply)).map_err(|e| e.rejection.reason.as_str())?;
    ///         Ok(())
    ///     },
    /// )?;
    /// assert_eq!(parse.call("7").await?, "page 7");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn reply<R>(self, of: impl FnOnce(&E) -> &Reply<R>) -> Self {
        let caller = Some(of(&self.event).caller());
        Self { caller, ..self }
    }

    /// Counted as sent by the stage of this name.
    pub(crate) fn sent_by(self, stage: &Arc<str>) -> Self {
        Self { sender: Some(Arc::clone(stage)), ..self }
    }

    /// The event without its entry.
    pub fn into_event(self) -> E {
        self.event
    }

    /// Another event made of this one, entering in the same way.
    pub fn map<F>(self, make: impl FnOnce(E) -> F) -> Envelope<F> {
        let Self { event, entry, sender, caller } = self;
        Envelope { event: make(event), entry, sender, caller }
    }
}

impl<E> From<E> for Envelope<E> {
    fn from(event: E) -> Self {
        Self::new(event, Entry::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_at_most_shortens_and_never_extends() {
        let now = Timestamp::from_nanos(1_000);
        let nanos = Duration::from_nanos;
        let check = |entry: Entry, expected| {
            assert_eq!(entry.due.resolve(now), Timestamp::from_nanos(expected), "{entry:?}");
        };
        let (none, at) = (Entry::new(), Entry::new().deadline(Timestamp::from_nanos(1_050)));
        let within = none.timeout(nanos(50));
        check(none.timeout_at_most(nanos(70)), 1_070);
        check(within.timeout_at_most(nanos(70)), 1_050);
        check(within.timeout_at_most(nanos(20)), 1_020);
        check(at.timeout_at_most(nanos(70)), 1_050);
        check(at.timeout_at_most(nanos(20)), 1_020);
        check(at.timeout_at_most(nanos(20)).timeout_at_most(nanos(30)), 1_020);
        check(at.timeout_at_most(Duration::MAX), 1_050);
        check(at.timeout_at_most(Duration::ZERO), 1_000);
        // A timeout that is set replaces what was there.
        check(at.timeout_at_most(nanos(20)).timeout(nanos(70)), 1_070);
    }
}
