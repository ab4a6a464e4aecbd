//! Observers of a simulation: a callback for each event.

use std::io::{self, Write};

use tamarisk_control::{ClassId, Reason, Timestamp};
use tamarisk_laws::Knobs;

/// How an event ended, at a stage or altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done.
    Completed,
    /// Rejected on arrival.
    Rejected(Reason),
    /// Taken out of the queue: too late to be of use, or its client has left.
    Dropped,
    /// Ended while it ran, for longer than a law allows, or of no use because its client had left.
    Terminated,
    /// Ended without an answer: the reply never came.
    Failed,
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// It came from its client, to enter here.
    Offered,
    /// It was admitted and waits.
    Queued,
    /// It has a place.
    Started,
    /// It has given up its place, and runs on.
    Parked,
    /// Its first data is out.
    FirstData,
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
    /// Its kind, as laws see it.
    pub kind: u64,
    /// Its flow.
    pub flow: u32,
    /// What.
    pub what: What,
}

/// Somebody who is told all that happens; `()` looks away and costs nothing.
pub trait Watch {
    /// This happened.
    fn see(&mut self, seen: &Seen);

    /// From now on the slow laws of the stage at this place in the scenario have set these
    /// knobs: told at the beginning, and whenever one changes.
    fn set(&mut self, _at: Timestamp, _stage: u32, _knobs: &Knobs) {}
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

    fn set(&mut self, at: Timestamp, stage: u32, knobs: &Knobs) {
        (**self).set(at, stage, knobs);
    }
}

/// Writes a line of comma-separated values for all that happens: nanoseconds, number,
/// stage, class, flow, what. What slow laws have set is a line without number, class and
/// flow. The same scenario, laws and seed give the same bytes.
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
        let Seen { at, number, stage, class, flow, what, .. } = *seen;
        let (verb, outcome) = match what {
            What::Offered => ("offered", None),
            What::Queued => ("queued", None),
            What::Started => ("started", None),
            What::Parked => ("parked", None),
            What::FirstData => ("first data", None),
            What::Ended(outcome) => ("ended", Some(outcome)),
            What::Left(outcome) => ("left", Some(outcome)),
        };
        let (outcome, reason) = match outcome {
            None => ("", ""),
            Some(Outcome::Completed) => (" completed", ""),
            Some(Outcome::Dropped) => (" dropped", ""),
            Some(Outcome::Terminated) => (" terminated", ""),
            Some(Outcome::Failed) => (" failed", ""),
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

    fn set(&mut self, at: Timestamp, stage: u32, knobs: &Knobs) {
        if self.failed.is_some() {
            return;
        }
        let Knobs { workers, batch, quality } = knobs;
        let (at, workers, batch) = (at.as_nanos(), workers.get(), batch.get());
        let written = writeln!(
            self.out,
            "{at},,{stage},,,workers {workers} batch {batch} quality {}",
            quality.get()
        );
        self.failed = written.err();
    }
}
