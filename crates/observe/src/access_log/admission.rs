//! Admission fields of the access log: route, class, outcome, reason, times.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use tamarisk_http_gate::HeldOutcome;

use super::options::LogFormat;
use super::value::{Json, Seconds};
use crate::RequestId;

/// The names under which a request was admitted.
#[derive(Clone, Debug)]
pub struct Names {
    /// The route that took it.
    pub route: Arc<str>,
    /// The class that it belongs to.
    pub class: Arc<str>,
    /// The stage that it is for.
    pub stage: Arc<str>,
}

/// A request that was to be admitted by a stage, as far as it has come.
#[derive(Debug)]
pub struct Admission {
    names: Names,
    id: RequestId,
    /// What becomes of it if its client leaves now, as the stage's accounts call it. There is
    /// none as long as it was not offered to the stage.
    outcome: Option<&'static str>,
    /// Why it was rejected or failed.
    reason: Option<&'static str>,
    /// Its place while the answer goes to its client, which decides on the outcome.
    held: Option<HeldOutcome>,
    queued: Option<Duration>,
    /// From the stage to the head of the answer.
    upstream: Option<Duration>,
}

impl Admission {
    /// A request of these names, of which nothing is known yet.
    pub fn new(names: Names, id: RequestId) -> Self {
        Self { names, id, outcome: None, reason: None, held: None, queued: None, upstream: None }
    }

    /// It asks the stage for a place.
    pub fn offered(&mut self) {
        self.outcome = Some("dropped");
    }

    /// It was rejected.
    pub fn rejected(&mut self, outcome: &'static str, reason: &'static str) {
        (self.outcome, self.reason) = (Some(outcome), Some(reason));
    }

    /// Its rejection stands, but the overflow of the stage has answered it, after so long.
    pub fn overflowed(&mut self, upstream: Duration) {
        (self.outcome, self.upstream) = (Some("overflowed"), Some(upstream));
    }

    /// It has been so long in the queue.
    pub fn queued(&mut self, queued: Duration) {
        self.queued = Some(queued);
    }

    /// It goes to the upstream, after so long in the queue.
    pub fn admitted(&mut self, queued: Duration) {
        (self.outcome, self.queued) = (Some("terminated"), Some(queued));
    }

    /// The head of an answer has come, after so long upstream.
    pub fn answered(&mut self, has_failed: bool, upstream: Duration) {
        self.outcome = Some(if has_failed { "failed" } else { "completed" });
        self.upstream = Some(upstream);
    }

    /// Its place is held until the answer is ready, and `outcome` says what became of it.
    pub fn held(&mut self, outcome: HeldOutcome) {
        self.held = Some(outcome);
    }

    /// No answer has come.
    pub fn unanswered(&mut self, outcome: &'static str, reason: &'static str, upstream: Duration) {
        (self.outcome, self.reason) = (Some(outcome), Some(reason));
        self.upstream = Some(upstream);
    }

    /// It was answered without the stage.
    pub fn turned_away(&mut self, reason: &'static str) {
        self.reason = Some(reason);
    }

    /// The answer broke off.
    pub fn broke_off(&mut self) {
        self.reason = Some("broken");
    }

    /// Appends it to a line. Names are the operator's, ids are plain, the rest is ours: nothing
    /// of it can end the line.
    pub(super) fn write(&self, line: &mut String, format: LogFormat) {
        let Self { names, id, outcome, reason, held, queued, upstream } = self;
        let outcome = held.as_ref().map(HeldOutcome::settle).or(*outcome);
        let Names { route, class, stage } = names;
        // Writing to a string does not fail.
        let _ = match format {
            LogFormat::Combined => write!(
                line,
                " route={} class={} stage={} outcome={} reason={} id={} queued={} upstream={}",
                Word(route),
                Word(class),
                Word(stage),
                outcome.unwrap_or("-"),
                reason.unwrap_or("-"),
                id.as_str(),
                OrNone(*queued, "-"),
                OrNone(*upstream, "-"),
            ),
            LogFormat::Json => write!(
                line,
                ",\"route\":{},\"class\":{},\"stage\":{},\"outcome\":{},\"reason\":{},\
                 \"request_id\":\"{}\",\"queued_seconds\":{},\"upstream_seconds\":{}",
                Json(Some(route.as_bytes())),
                Json(Some(class.as_bytes())),
                Json(Some(stage.as_bytes())),
                Json(outcome.map(str::as_bytes)),
                Json(reason.map(str::as_bytes)),
                id.as_str(),
                OrNone(*queued, "null"),
                OrNone(*upstream, "null"),
            ),
        };
    }
}

/// A name without spaces and quotes.
struct Word<'a>(&'a str);

impl std::fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Nearly all names are as they should be.
        if self.0.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"') {
            return f.write_str(self.0);
        }
        for character in self.0.chars() {
            let is_plain =
                !character.is_whitespace() && !character.is_control() && character != '"';
            f.write_char(if is_plain { character } else { '_' })?;
        }
        Ok(())
    }
}

/// Seconds, or what stands for none.
struct OrNone(Option<Duration>, &'static str);

impl std::fmt::Display for OrNone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(time) => Seconds(time).fmt(f),
            None => f.write_str(self.1),
        }
    }
}
