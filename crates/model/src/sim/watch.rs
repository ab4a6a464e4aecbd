//! Watching a simulation, event by event.

use std::io::{self, Write};

use tamarisk_control::{ClassId, Reason, Timestamp};

/// How an event ended, at a stage or altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done.
    Completed,
    /// Refused at the door.
    Rejected(Reason),
    /// Taken out of the queue: too late to be of use.
    Dropped,
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// It came from its client, to enter here.
    Offered,
    /// It was admitted and waits.
    Queued,
    /// It has a worker.
    Started,
    /// It ended at this stage.
    Ended(Outcome),
    /// It ended altogether, at this stage.
    Left(Outcome),
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When.
    pub at: Timestamp,
    /// To which request: each attempt has a number, in the order of their coming.
    pub number: u64,
    /// At which stage, by its place in the scenario.
    pub stage: u32,
    /// The request's class.
    pub class: ClassId,
    /// Its flow.
    pub flow: u32,
    /// What.
    pub what: What,
}

/// Somebody who is told all that happens; `()` looks away and costs nothing.
pub trait Watch {
    /// This happened.
    fn see(&mut self, seen: &Seen);
}

impl Watch for () {
    #[inline]
    fn see(&mut self, _: &Seen) {}
}

impl<W: Watch + ?Sized> Watch for &mut W {
    #[inline]
    fn see(&mut self, seen: &Seen) {
        (**self).see(seen);
    }
}

/// Writes a line of comma-separated values for all that happens: nanoseconds, number,
/// stage, class, flow, what. The same scenario, laws and seed give the same bytes.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    failed: Option<io::Error>,
}

impl<W: Write> TraceWriter<W> {
    /// Writes to `out`, which should be buffered.
    pub const fn new(out: W) -> Self {
        Self { out, failed: None }
    }

    /// Ends the trace and gives back what it was written to.
    ///
    /// # Errors
    /// The first that came up in writing, after which nothing more was written.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> Watch for TraceWriter<W> {
    fn see(&mut self, seen: &Seen) {
        if self.failed.is_some() {
            return;
        }
        let Seen { at, number, stage, class, flow, what } = *seen;
        let (verb, outcome) = match what {
            What::Offered => ("offered", None),
            What::Queued => ("queued", None),
            What::Started => ("started", None),
            What::Ended(outcome) => ("ended", Some(outcome)),
            What::Left(outcome) => ("left", Some(outcome)),
        };
        let (outcome, reason) = match outcome {
            None => ("", ""),
            Some(Outcome::Completed) => (" completed", ""),
            Some(Outcome::Dropped) => (" dropped", ""),
            Some(Outcome::Rejected(reason)) => (" rejected ", reason.as_str()),
        };
        let written = writeln!(
            self.out,
            "{},{number},{stage},{},{flow},{verb}{outcome}{reason}",
            at.as_nanos(),
            class.index(),
        );
        self.failed = written.err();
    }
}
