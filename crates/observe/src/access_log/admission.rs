//! Admission fields of the access log: route, class, outcome, reason, times.

use std::sync::Arc;
use std::time::Duration;

use tamarisk_http_gate::HeldOutcome;

use super::options::LogFormat;
use super::value::Text;
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
    /// None if no route took it.
    names: Option<Names>,
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
    /// A request of these names, before anything is known of it.
    pub fn new(names: Names, id: RequestId) -> Self {
        Self { names: Some(names), ..Self::without_route(id) }
    }

    /// A request that no route takes.
    pub fn without_route(id: RequestId) -> Self {
        Self {
            names: None,
            id,
            outcome: None,
            reason: None,
            held: None,
            queued: None,
            upstream: None,
        }
    }

    /// It asks the stage for a place.
    pub fn offered(&mut self) {
        self.outcome = Some("abandoned");
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
        (self.outcome, self.queued) = (Some("abandoned"), Some(queued));
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
    pub fn broke_off(&mut self, reason: &'static str) {
        self.reason = Some(reason);
    }

    /// Appends it to a line. Names are the operator's, ids are plain, the rest is ours: nothing
    /// of it can end the line.
    pub(super) fn write(&self, text: &mut Text, format: LogFormat) {
        let Self { names, id, outcome, reason, held, queued, upstream } = self;
        let outcome = held.as_ref().map(HeldOutcome::settle).or(*outcome);
        let [route, class, stage] = match names {
            Some(Names { route, class, stage }) => [route, class, stage].map(|name| Some(&**name)),
            None => [None; 3],
        };
        match format {
            LogFormat::Combined => {
                text.raw(" route=").word(route.unwrap_or("-"));
                text.raw(" class=").word(class.unwrap_or("-"));
                text.raw(" stage=").word(stage.unwrap_or("-"));
                text.raw(" outcome=").raw(outcome.unwrap_or("-"));
                text.raw(" reason=").raw(reason.unwrap_or("-"));
                text.raw(" id=").raw(id.as_str());
                or_none(text.raw(" queued="), *queued, "-");
                or_none(text.raw(" upstream="), *upstream, "-");
            }
            LogFormat::Json => {
                text.raw(",\"route\":").json(route.map(str::as_bytes));
                text.raw(",\"class\":").json(class.map(str::as_bytes));
                text.raw(",\"stage\":").json(stage.map(str::as_bytes));
                text.raw(",\"outcome\":").json(outcome.map(str::as_bytes));
                text.raw(",\"reason\":").json(reason.map(str::as_bytes));
                text.raw(",\"request_id\":\"").raw(id.as_str());
                or_none(text.raw("\",\"queued_seconds\":"), *queued, "null");
                or_none(text.raw(",\"upstream_seconds\":"), *upstream, "null");
            }
        }
    }
}

/// Seconds, or what stands for none.
fn or_none(text: &mut Text, time: Option<Duration>, none: &str) {
    match time {
        Some(time) => text.seconds(time),
        None => text.raw(none),
    };
}
