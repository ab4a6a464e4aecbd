//! Messages when a stage's overload or failure begins and ends.

use std::time::Duration;

use tamarisk_control::{Percentile, Reason};
use tamarisk_plot::format;
use tamarisk_stage::{Accounts, StageObservation};
use tokio::time::Instant;

use super::episode::{Change, Counts, Episode};

/// From this share of rejections on there is a line: the share from which the status page speaks of
/// them first.
const REJECTED_RATIO_MIN: f64 = 0.01;

/// Fewer failures of a hundred requests are not worth a line: some clients ask for what fails.
const FAILED_RATIO_MIN: f64 = 0.05;

/// How lines speak of a stage, and of what becomes of requests that it rejects.
pub(super) struct Named {
    /// As in `127.0.0.1:3000`, or `"shop"`.
    pub(super) name: String,
    /// As in `got 503`.
    pub(super) rejected: &'static str,
}

/// A line for the operator.
#[derive(Debug, PartialEq)]
pub(super) struct Message {
    kind: MessageKind,
    text: String,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    Begins,
    Ends,
}

impl Message {
    pub(super) fn log(&self, stage: &str) {
        let Self { kind, text, counts: Counts { count, of } } = self;
        match kind {
            MessageKind::Begins => tracing::warn!(stage, count, requests = of, "{text}"),
            MessageKind::Ends => tracing::info!(stage, count, requests = of, "{text}"),
        }
    }
}

/// Whether a stage rejects requests.
#[derive(Default)]
pub(super) struct Overload(Episode);

impl Overload {
    pub(super) fn look(
        &mut self,
        now: Instant,
        stage: &StageObservation,
        named: &Named,
    ) -> Option<Message> {
        let Named { name, rejected } = named;
        // Both are of requests that have ended: who waits has come and is not rejected yet, and who
        // is dropped now may have come seconds ago.
        let counts = counts(stage, |accounts| Counts {
            count: accounts.rejected + accounts.dropped,
            of: accounts.offered.saturating_sub(accounts.inside()),
        });
        Some(match self.0.look(now, counts, reasons(stage), REJECTED_RATIO_MIN)? {
            Change::Begins { within, counts, reasons } => {
                let Counts { count, of } = counts;
                let others =
                    if of > count { others(stage) } else { "; no other was answered".to_owned() };
                let within = last(within);
                let text = format!(
                    "Overload of {name}: {count} of {of} requests {rejected} in the {within}{reasons}{others}."
                );
                Message { kind: MessageKind::Begins, text, counts }
            }
            Change::Holds { after, counts } => {
                let (Counts { count, of }, after) = (counts, after.as_secs_f64());
                let text = format!(
                    "Overload of {name} goes on after {after:.0} s: {count} of {of} requests {rejected}."
                );
                Message { kind: MessageKind::Begins, text, counts }
            }
            Change::Ends { after, counts, classes } => {
                let (Counts { count, of }, after) = (counts, after.as_secs_f64());
                let classes = by_class(stage, &classes);
                let text = format!(
                    "Overload of {name} ended after {after:.0} s: {count} of {of} requests {rejected}{classes}."
                );
                Message { kind: MessageKind::Ends, text, counts }
            }
        })
    }
}

/// Whether requests fail.
#[derive(Default)]
pub(super) struct Failures(Episode);

impl Failures {
    pub(super) fn look(
        &mut self,
        now: Instant,
        stage: &StageObservation,
        named: &Named,
    ) -> Option<Message> {
        let name = &named.name;
        // Of those that were sent on: rejections say nothing of the service.
        let counts = counts(stage, |accounts| Counts {
            count: accounts.failed,
            of: accounts.completed + accounts.failed + accounts.terminated,
        });
        Some(match self.0.look(now, counts, Vec::new(), FAILED_RATIO_MIN)? {
            Change::Begins { within, counts, .. } => {
                let Counts { count, of } = counts;
                let (within, latest) = (last(within), stage.last_failure.as_deref());
                let latest = latest.unwrap_or("unknown");
                let text = format!(
                    "Requests to {name} fail: {count} of {of} in the {within}; the last one: {latest}."
                );
                Message { kind: MessageKind::Begins, text, counts }
            }
            Change::Holds { after, counts } => {
                let (Counts { count, of }, after) = (counts, after.as_secs_f64());
                let text =
                    format!("Requests to {name} still fail after {after:.0} s: {count} of {of}.");
                Message { kind: MessageKind::Begins, text, counts }
            }
            Change::Ends { after, counts, classes } => {
                let (Counts { count, of }, after) = (counts, after.as_secs_f64());
                let classes = by_class(stage, &classes);
                let text = format!(
                    "Requests to {name} succeed again after {after:.0} s: {count} of {of} failed{classes}."
                );
                Message { kind: MessageKind::Ends, text, counts }
            }
        })
    }
}

fn counts(stage: &StageObservation, of_class: fn(&Accounts) -> Counts) -> Vec<Counts> {
    stage.classes.iter().map(|class| of_class(&class.accounts)).collect()
}

/// How often the stage has rejected or dropped for which reason.
fn reasons(stage: &StageObservation) -> Vec<(&'static str, u64)> {
    let rejected = stage.rejections.iter().map(|(why, count)| (in_words(*why), *count));
    let dropped = stage.classes.iter().map(|class| class.accounts.dropped).sum();
    rejected.chain([("waited too long", dropped)]).collect()
}

/// A reason in two or three words; docs/OPERATING.md has them beside the names.
fn in_words(reason: Reason) -> &'static str {
    match reason {
        Reason::RateExceeded => "rate used up",
        Reason::QueueFull => "queue full",
        Reason::PredictedLate => "would be late",
        Reason::StandingQueue => "queue standing",
        Reason::ConcurrencyLimit => "too many in progress",
        Reason::PriorityCutoff => "priority too low",
        Reason::ShareExceeded => "over its share",
        Reason::Random => "at random",
        Reason::Draining | Reason::Closed => "stopping",
        Reason::ResourceScarce => "resource scarce",
        other => other.as_str(),
    }
}

/// How those fared that were answered, of the class that is the farthest beyond its target:
/// `; the others took p90 190 ms of 300 ms`.
fn others(stage: &StageObservation) -> String {
    let times = stage.classes.iter().filter_map(|class| {
        let seconds = class.response_at_percentile?.as_secs_f64();
        Some((class.percentile, seconds, class.target.as_secs_f64()))
    });
    let worst = times
        .max_by(|(_, one, of), (_, other, of_other)| (one / of).total_cmp(&(other / of_other)));
    worst.map_or_else(String::new, |(percentile, seconds, target)| {
        let [seconds, target] = [seconds, target].map(format::seconds);
        format!("; the others took {} {seconds} of {target}", Percentile(percentile))
    })
}

/// `last second`, `last 4 s`
fn last(within: Duration) -> String {
    match within.as_secs_f64().round() {
        ..1.5 => "last second".to_owned(),
        seconds => format!("last {seconds:.0} s"),
    }
}

/// Each class that had requests, if the stage has several: ` ("free" 15 of 30, "paid" 0 of 15)`.
fn by_class(stage: &StageObservation, counts: &[Counts]) -> String {
    let classes = stage.classes.iter().zip(counts).filter(|(_, counts)| counts.of > 0);
    let classes =
        classes.map(|(class, Counts { count, of })| format!("{:?} {count} of {of}", class.name));
    let classes: Vec<_> = classes.collect();
    match classes.len() {
        0 | 1 => String::new(),
        _ => format!(" ({})", classes.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> Named {
        Named { name: "127.0.0.1:3000".to_owned(), rejected: "got 503" }
    }

    /// A stage with these numbers of requests that ended, were rejected and failed.
    fn stage(ended: u64, rejected: u64, failed: u64) -> StageObservation {
        let gate = tamarisk_stage::StageBuilder::new("app").gate().unwrap();
        let mut seen = gate.observe();
        let completed = ended - rejected - failed;
        seen.classes[0].accounts =
            Accounts { offered: ended, rejected, failed, completed, ..Accounts::default() };
        seen.rejections = [(Reason::QueueFull, rejected)].into();
        seen.last_failure = Some("answered 500".to_owned());
        seen
    }

    /// What is said when a stage is seen in this state at this second.
    fn look(
        overload: &mut Overload,
        start: Instant,
        second: u64,
        stage: &StageObservation,
    ) -> Option<String> {
        let now = start + Duration::from_secs(second);
        overload.look(now, stage, &app()).map(|message| message.text)
    }

    #[tokio::test]
    async fn an_overload_is_told_when_it_begins_and_when_it_has_ended() {
        let (mut overload, start) = (Overload::default(), Instant::now());
        let mut look = |second, ended, rejected| {
            look(&mut overload, start, second, &stage(ended, rejected, 0))
        };
        assert_eq!(look(0, 100, 0), None);
        assert_eq!(
            look(1, 200, 40).unwrap(),
            "Overload of 127.0.0.1:3000: 40 of 100 requests got 503 in the last second (queue full \
             40)."
        );
        assert_eq!(look(2, 300, 90), None);
        // A short calm is no end.
        assert_eq!(look(7, 800, 90), None);
        assert_eq!(look(8, 900, 91), None);
        assert_eq!(look(17, 1500, 91), None);
        assert_eq!(
            look(18, 1600, 91).unwrap(),
            "Overload of 127.0.0.1:3000 ended after 8 s: 91 of 1500 requests got 503."
        );
        assert_eq!(look(19, 1700, 91), None);
        assert!(look(20, 1800, 96).is_some());
        // It goes on: a minute later a line says so.
        for second in 21..80 {
            assert_eq!(look(second, 1800 + second, 96 + second), None, "{second}");
        }
        assert_eq!(
            look(80, 1900, 196).unwrap(),
            "Overload of 127.0.0.1:3000 goes on after 61 s: 105 of 200 requests got 503."
        );
    }

    #[tokio::test]
    async fn the_numbers_are_of_requests_that_ended_in_the_same_second() {
        let (mut overload, start) = (Overload::default(), Instant::now());
        let mut seen = stage(100, 0, 0);
        seen.classes[0].accounts.offered += 400;
        seen.classes[0].accounts.queued = 400;
        assert_eq!(look(&mut overload, start, 0, &seen), None);
        // Those that came before are dropped, and 75 are answered.
        seen.classes[0].accounts.offered += 78;
        seen.classes[0].accounts.queued = 0;
        seen.classes[0].accounts.completed += 75;
        seen.classes[0].accounts.dropped = 400;
        seen.classes[0].accounts.rejected = 3;
        seen.rejections = [(Reason::QueueFull, 3)].into();
        seen.classes[0].target = Duration::from_millis(300);
        seen.classes[0].response_at_percentile = Some(Duration::from_nanos(190_123_456));
        assert_eq!(
            look(&mut overload, start, 1, &seen).unwrap(),
            "Overload of 127.0.0.1:3000: 403 of 478 requests got 503 in the last second (waited too \
             long 400, queue full 3); the others took p90 190 ms of 300 ms."
        );
    }

    #[tokio::test]
    async fn a_few_rejections_are_no_overload() {
        let (mut overload, start) = (Overload::default(), Instant::now());
        let mut look = |second, ended, rejected| {
            look(&mut overload, start, second, &stage(ended, rejected, 0))
        };
        assert_eq!(look(0, 0, 0), None);
        assert_eq!(look(1, 1, 1), None);
        // Less than one of a hundred.
        assert_eq!(look(2, 1001, 9), None);
        // Five, but not within ten seconds.
        assert_eq!(look(20, 1002, 10), None);
        assert_eq!(look(24, 1004, 12), None);
        assert_eq!(look(31, 1006, 14), None);
        assert_eq!(look(32, 1007, 15), None);
        let text = look(33, 1009, 17).unwrap();
        let expected =
            "5 of 5 requests got 503 in the last 9 s (queue full 5); no other was answered.";
        assert!(text.ends_with(expected), "{text}");
    }

    #[tokio::test]
    async fn the_end_of_an_overload_says_how_each_class_fared() {
        let builder = tamarisk_stage::StageBuilder::new("app").classes(["gold", "bronze"]);
        let gate = builder.gate().unwrap();
        let seen = |of: [(&str, u64, u64); 2]| {
            let mut seen = gate.observe();
            for (name, offered, rejected) in of {
                let class = seen.classes.iter_mut().find(|class| class.name == name).unwrap();
                let completed = offered - rejected;
                class.accounts = Accounts { offered, rejected, completed, ..Accounts::default() };
            }
            seen
        };
        let (mut overload, start) = (Overload::default(), Instant::now());
        let mut look = |second, of| look(&mut overload, start, second, &seen(of));
        assert_eq!(look(0, [("gold", 10, 0), ("bronze", 10, 0)]), None);
        assert!(look(1, [("gold", 20, 0), ("bronze", 30, 15)]).is_some());
        assert_eq!(
            look(11, [("gold", 25, 0), ("bronze", 40, 15)]).unwrap(),
            "Overload of 127.0.0.1:3000 ended after 1 s: 15 of 45 requests got 503 (\"bronze\" 15 of \
             30, \"gold\" 0 of 15)."
        );
    }

    #[tokio::test]
    async fn failures_are_told_with_the_last_reason_if_they_are_many() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        let mut look = |second, ended, rejected, failed| {
            let now = start + Duration::from_secs(second);
            let seen = stage(ended, rejected, failed);
            failures.look(now, &seen, &app()).map(|message| message.text)
        };
        assert_eq!(look(0, 100, 0, 0), None);
        // One is not many, be it all that came.
        assert_eq!(look(1, 101, 0, 1), None);
        assert_eq!(look(2, 300, 0, 4), None);
        // What was rejected was not sent.
        assert_eq!(
            look(3, 400, 80, 10).unwrap(),
            "Requests to 127.0.0.1:3000 fail: 6 of 20 in the last second; the last one: answered 500."
        );
        let text = look(13, 1400, 80, 10).unwrap();
        assert!(text.ends_with("after 1 s: 6 of 1020 failed."), "{text}");
    }
}
