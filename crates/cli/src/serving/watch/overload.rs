//! Messages when a stage's overload or failure begins and ends.

use std::time::Duration;

use tamarisk_stage::{Accounts, StageObservation};
use tokio::time::Instant;

/// The stages are looked at this often.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// An overload or a series of failures has ended when there was nothing of it for so long.
pub(super) const CALM: Duration = Duration::from_secs(10);

/// Fewer failures of a hundred requests are not worth a line: some clients ask for what fails.
const FAILED_RATIO_MIN: f64 = 0.05;

/// A line for the operator.
#[derive(Debug, PartialEq)]
pub(super) struct Message {
    kind: MessageKind,
    text: String,
    /// Requests of this kind since it began, and all of them.
    count: u64,
    offered: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    Begins,
    Ends,
}

impl Message {
    pub(super) fn log(&self, stage: &str) {
        let Self { kind, text, count, offered } = self;
        match kind {
            MessageKind::Begins => tracing::warn!(stage, count, offered, "{text}"),
            MessageKind::Ends => tracing::info!(stage, count, offered, "{text}"),
        }
    }
}

/// Whether a stage rejects requests.
#[derive(Default)]
pub(super) struct Overload(Episode);

impl Overload {
    pub(super) fn look(&mut self, now: Instant, stage: &StageObservation) -> Option<Message> {
        let rejected = |accounts: &Accounts| accounts.rejected + accounts.dropped;
        let (name, reasons) = (&stage.name, self.0.reasons(stage));
        self.0.reasons =
            stage.rejections.iter().map(|(why, count)| (why.as_str(), *count)).collect();
        match self.0.look(now, stage, rejected, 0.0)? {
            Change::Begins { count, offered } => Some(Message {
                kind: MessageKind::Begins,
                text: format!(
                    "Overload of {name:?} begins: {count} of {offered} requests were rejected in the \
                     last second{reasons}."
                ),
                count,
                offered,
            }),
            Change::Ends { after, count, offered, classes } => Some(Message {
                kind: MessageKind::Ends,
                text: format!(
                    "Overload of {name:?} ended after {:.0} s: {count} of {offered} requests were \
                     rejected{classes}.",
                    after.as_secs_f64()
                ),
                count,
                offered,
            }),
        }
    }
}

/// Whether requests fail.
#[derive(Default)]
pub(super) struct Failures(Episode);

impl Failures {
    pub(super) fn look(&mut self, now: Instant, stage: &StageObservation) -> Option<Message> {
        let failed = |accounts: &Accounts| accounts.failed;
        let name = &stage.name;
        match self.0.look(now, stage, failed, FAILED_RATIO_MIN)? {
            Change::Begins { count, offered } => {
                let last = stage.last_failure.as_deref().unwrap_or("unknown");
                Some(Message {
                    kind: MessageKind::Begins,
                    text: format!(
                        "Requests to {name:?} fail: {count} of {offered} in the last second. The \
                         last one: {last}."
                    ),
                    count,
                    offered,
                })
            }
            Change::Ends { after, count, offered, classes } => Some(Message {
                kind: MessageKind::Ends,
                text: format!(
                    "Requests to {name:?} succeed again after {:.0} s: {count} of {offered} \
                     have failed{classes}.",
                    after.as_secs_f64()
                ),
                count,
                offered,
            }),
        }
    }
}

/// The time in which something goes on.
#[derive(Default)]
struct Episode {
    /// The accounts by class when it was last looked.
    before: Option<Vec<Accounts>>,
    reasons: Vec<(&'static str, u64)>,
    current: Option<Current>,
}

struct Current {
    began: Instant,
    last: Instant,
    /// The accounts by class before it began.
    before: Vec<Accounts>,
}

enum Change {
    Begins { count: u64, offered: u64 },
    Ends { after: Duration, count: u64, offered: u64, classes: String },
}

impl Episode {
    /// What has changed, if `count` counts what goes on, and more than this ratio of what was
    /// offered is worth a line.
    fn look(
        &mut self,
        now: Instant,
        stage: &StageObservation,
        count: impl Fn(&Accounts) -> u64,
        ratio_min: f64,
    ) -> Option<Change> {
        let accounts: Vec<_> = stage.classes.iter().map(|class| class.accounts).collect();
        let before = self.before.replace(accounts.clone()).unwrap_or_default();
        let total = |of: &[Accounts], count: &dyn Fn(&Accounts) -> u64| -> u64 {
            of.iter().map(count).sum()
        };
        let since = |before: &[Accounts], count: &dyn Fn(&Accounts) -> u64| {
            total(&accounts, count).saturating_sub(total(before, count))
        };
        let new = since(&before, &count);
        let offered = since(&before, &|accounts| accounts.offered).max(new);
        let goes_on = new > 0 && new as f64 >= ratio_min * offered as f64;
        let Some(current) = &mut self.current else {
            if goes_on {
                self.current = Some(Current { began: now, last: now, before });
                return Some(Change::Begins { count: new, offered });
            }
            return None;
        };
        if goes_on {
            current.last = now;
        } else if now.duration_since(current.last) >= CALM {
            let Current { began, last, before } = self.current.take()?;
            let classes = stage.classes.iter().enumerate().filter_map(|(index, class)| {
                let before = before.get(index).copied().unwrap_or_default();
                let offered = class.accounts.offered.saturating_sub(before.offered);
                let of_class = count(&class.accounts).saturating_sub(count(&before));
                (offered > 0).then(|| format!("{:?} {of_class} of {offered}", class.name))
            });
            let classes: Vec<_> = classes.collect();
            return Some(Change::Ends {
                after: last.duration_since(began) + EVERY,
                count: since(&before, &count),
                offered: since(&before, &|accounts| accounts.offered),
                classes: match classes.len() {
                    0 | 1 => String::new(),
                    _ => format!(" ({})", classes.join(", ")),
                },
            });
        }
        None
    }
}

impl Episode {
    /// What was rejected since the last look and why, the most frequent first: ` (a 3, b 1)`.
    fn reasons(&self, stage: &StageObservation) -> String {
        let rejected = stage.rejections.iter().map(|(why, count)| {
            let known = self.reasons.iter().find(|(name, _)| *name == why.as_str());
            (count.saturating_sub(known.map_or(0, |(_, count)| *count)), why.as_str())
        });
        let before = self.before.iter().flatten().map(|accounts| accounts.dropped);
        let now = stage.classes.iter().map(|class| class.accounts.dropped);
        let dropped = now.sum::<u64>().saturating_sub(before.sum());
        let all = rejected.chain([(dropped, "dropped in the queue")]);
        written(all.filter(|(count, _)| *count > 0).collect())
    }
}

fn written(mut new: Vec<(u64, &str)>) -> String {
    new.sort_unstable_by(|a, b| b.cmp(a));
    let new: Vec<_> = new.into_iter().map(|(count, why)| format!("{why} {count}")).collect();
    if new.is_empty() { String::new() } else { format!(" ({})", new.join(", ")) }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Reason;

    use super::*;

    /// A stage that has rejected and failed so many of so many requests.
    fn stage(offered: u64, rejected: u64, failed: u64) -> StageObservation {
        let gate = tamarisk_stage::StageBuilder::new("app").gate().unwrap();
        let mut seen = gate.observe();
        let completed = offered - rejected - failed;
        seen.classes[0].accounts =
            Accounts { offered, rejected, failed, completed, ..Accounts::default() };
        seen.rejections = [(Reason::QueueFull, rejected)].into();
        seen.last_failure = Some("answered 500".to_owned());
        seen
    }

    #[tokio::test]
    async fn an_overload_is_told_when_it_begins_and_when_it_has_ended() {
        let (mut overload, start) = (Overload::default(), Instant::now());
        let mut look = |second, offered, rejected| {
            let now = start + Duration::from_secs(second);
            overload.look(now, &stage(offered, rejected, 0)).map(|message| message.text)
        };
        assert_eq!(look(0, 100, 0), None);
        let text = look(1, 200, 40).unwrap();
        assert_eq!(
            text,
            "Overload of \"app\" begins: 40 of 100 requests were rejected in the last second \
             (queue_full 40)."
        );
        assert_eq!(look(2, 300, 90), None);
        // A short calm is no end.
        assert_eq!(look(7, 800, 90), None);
        assert_eq!(look(8, 900, 91), None);
        assert_eq!(look(17, 1500, 91), None);
        let text = look(18, 1600, 91).unwrap();
        assert_eq!(text, "Overload of \"app\" ended after 8 s: 91 of 1500 requests were rejected.");
        assert_eq!(look(19, 1700, 91), None);
        assert!(look(20, 1800, 92).is_some());
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
        let mut look = |second, of| {
            let now = start + Duration::from_secs(second);
            overload.look(now, &seen(of)).map(|message| message.text)
        };
        assert_eq!(look(0, [("gold", 10, 0), ("bronze", 10, 0)]), None);
        assert!(look(1, [("gold", 20, 0), ("bronze", 30, 15)]).is_some());
        let text = look(11, [("gold", 25, 0), ("bronze", 40, 15)]).unwrap();
        assert_eq!(
            text,
            "Overload of \"app\" ended after 1 s: 15 of 45 requests were rejected (\"bronze\" 15 of \
             30, \"gold\" 0 of 15)."
        );
    }

    #[tokio::test]
    async fn what_was_dropped_in_the_queue_is_among_the_reasons() {
        let (mut overload, start) = (Overload::default(), Instant::now());
        assert_eq!(overload.look(start, &stage(100, 0, 0)), None);
        let mut seen = stage(200, 10, 0);
        seen.classes[0].accounts.completed -= 30;
        seen.classes[0].accounts.dropped = 30;
        let text = overload.look(start + Duration::from_secs(1), &seen).unwrap().text;
        assert!(text.contains("40 of 100 requests were rejected"), "{text}");
        assert!(text.ends_with(" (dropped in the queue 30, queue_full 10)."), "{text}");
    }

    #[tokio::test]
    async fn failures_are_told_with_the_last_reason_if_they_are_many() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        let mut look = |second, offered, failed| {
            let now = start + Duration::from_secs(second);
            failures.look(now, &stage(offered, 0, failed)).map(|message| message.text)
        };
        assert_eq!(look(0, 100, 0), None);
        assert_eq!(look(1, 200, 4), None);
        let text = look(2, 300, 10).unwrap();
        assert_eq!(
            text,
            "Requests to \"app\" fail: 6 of 100 in the last second. The last one: answered 500."
        );
        let text = look(12, 1300, 10).unwrap();
        assert!(text.ends_with("after 1 s: 6 of 1100 have failed."), "{text}");
    }
}
