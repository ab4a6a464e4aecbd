//! How a stage is doing, in one or two sentences: what an operator wants to know before any number.

use std::time::Duration;

use serde::Serialize;
use tamarisk_control::Percentile;
use tamarisk_stage::{Phase, StageObservation};

use super::history::Recent;
use crate::promise::Promise;

/// From this share of rejected or failed requests on, it is said first.
const NOTICED_MIN: f64 = 0.01;
/// From this share on, it is bad.
const BAD_MIN: f64 = 0.1;
/// Clients end some requests on any day; from this share on, it is said.
const UNFINISHED_MIN: f64 = 0.1;
/// More than the requests that a promise of a p90 leaves out.
const OUT_OF_REACH_MIN: f64 = 0.1;
/// A response time of this multiple of its target is bad.
const LATE_BAD: f64 = 2.0;

/// For how long a panic is said first: an operator who looks every few minutes sees it.
const PANIC_SHOWN: Duration = Duration::from_secs(600);

/// Stages named in the verdict on all of them.
const NAMED_MAX: usize = 3;

/// A judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    pub(super) level: Level,
    pub(super) text: String,
}

/// From the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    Warn,
    Bad,
}

impl Verdict {
    /// The same where the latest panic of the process was so long ago.
    pub(super) fn after_panic(self, since: Option<Duration>) -> Self {
        match since {
            Some(since) if since < PANIC_SHOWN => Self {
                level: self.level.max(Level::Warn),
                text: format!(
                    "Panicked {:.0} s ago: a mistake of the program, see the log. {}",
                    since.as_secs_f64(),
                    self.text
                ),
            },
            _ => self,
        }
    }
}

/// What a stage is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition<'s> {
    phase: Phase,
    /// Queued or in service.
    inside: u64,
    recent: Option<Recent>,
    promise: Option<Promise>,
    /// The share of requests of a kind that takes longer than its target on average.
    out_of_reach: f64,
    last_failure: Option<&'s str>,
}

impl<'s> Condition<'s> {
    pub(super) fn of(stage: &'s StageObservation, recent: Option<Recent>) -> Self {
        let readings = &stage.readings;
        let share = readings.iter().find(|reading| reading.name == "target_out_of_reach_ratio");
        Self {
            phase: stage.phase,
            inside: stage.total().inside(),
            recent,
            promise: Promise::of(stage),
            out_of_reach: share.map_or(0.0, |reading| reading.value),
            last_failure: stage.last_failure.as_deref(),
        }
    }

    /// The worst of what can be said, and what has to be known besides.
    pub(super) fn verdict(&self) -> Verdict {
        match self.phase {
            Phase::Closed => return bad("Closed: every request is rejected.".to_owned()),
            Phase::Draining => {
                let inside = self.inside;
                return warn(format!(
                    "Draining: new requests are rejected; {inside} in progress or queued."
                ));
            }
            Phase::Open => {}
        }
        let Some(recent) = self.recent else { return ok("Started: no data yet.".to_owned()) };
        let ended = recent.completed
            + recent.rejected
            + recent.failed
            + recent.terminated
            + recent.abandoned;
        let requests = recent.offered.max(ended);
        if requests == 0 {
            return self.without_requests(&recent);
        }
        let share = |count: u64| count as f64 / requests as f64;
        let (rejected, failed) = (share(recent.rejected), share(recent.failed));
        let period = period(&recent);
        if failed >= NOTICED_MIN {
            let mut text =
                format!("Failing: {} of the requests in the {period} failed.", percent(failed));
            if rejected >= NOTICED_MIN {
                text += &format!(" {} were rejected.", percent(rejected));
            }
            if let Some(what) = self.last_failure {
                text += &format!(" Last failure: {what}");
            }
            return Verdict { level: level(failed.max(rejected)), text };
        }
        if rejected >= NOTICED_MIN {
            let text = format!(
                "Overloaded: {} of the requests in the {period} were rejected.{}",
                percent(rejected),
                self.those_admitted(&recent)
            );
            let late = if self.is_late() { Level::Bad } else { Level::Ok };
            return Verdict { level: level(rejected).max(late), text };
        }
        let unfinished = share(recent.terminated + recent.abandoned);
        if unfinished >= UNFINISHED_MIN {
            return warn(format!(
                "Unfinished: {} of the requests in the {period} ended before their answer, because \
                 their client left or their time was over.",
                percent(unfinished)
            ));
        }
        if self.out_of_reach > OUT_OF_REACH_MIN {
            return warn(format!(
                "Target out of reach: {} of the requests are of a kind that takes longer than its \
                 target on average, even without a queue. State a longer target for them.",
                percent(self.out_of_reach)
            ));
        }
        if recent.completed == 0 && self.inside > 0 {
            return warn(format!(
                "No answers: no request was completed in the {period}; {} in progress or queued.",
                self.inside
            ));
        }
        self.kept_or_late(&recent, rejected)
    }

    fn without_requests(&self, recent: &Recent) -> Verdict {
        let period = period(recent);
        if self.inside == 0 {
            return ok(format!("Idle: no requests in the {period}."));
        }
        ok(format!("Quiet: no new requests in the {period}; {} in progress.", self.inside))
    }

    /// Almost all are served.
    fn kept_or_late(&self, recent: &Recent, rejected: f64) -> Verdict {
        let rate = rate(recent.completed as f64 / recent.seconds.max(1.0));
        let rejected = if rejected > 0.0 {
            format!(
                " {} of the requests in the {} were rejected.",
                percent(rejected),
                period(recent)
            )
        } else {
            String::new()
        };
        match self.promise {
            Some(promise) if self.is_late() => Verdict {
                level: if promise.strain() > LATE_BAD { Level::Bad } else { Level::Warn },
                text: format!("Late: {}; {rate}.{rejected}", times(&promise)),
            },
            Some(promise) if promise.seen.is_some() => {
                ok(format!("Healthy: {rate}, {}.{rejected}", times(&promise)))
            }
            _ => ok(format!("Healthy: {rate}.{rejected}")),
        }
    }

    /// How those fare that were not rejected.
    fn those_admitted(&self, recent: &Recent) -> String {
        match self.promise {
            _ if recent.completed == 0 => " None was completed.".to_owned(),
            Some(promise) if self.is_late() => {
                format!(" Those admitted are answered late ({}).", times(&promise))
            }
            Some(promise) if promise.seen.is_some() => {
                format!(" Those admitted are answered in time ({}).", times(&promise))
            }
            _ => String::new(),
        }
    }

    fn is_late(&self) -> bool {
        self.promise.is_some_and(|promise| promise.strain() > 1.0)
    }
}

/// The verdict on all stages together, each given by its name.
pub(super) fn of_all(stages: &[(&str, &Verdict)], is_open: bool) -> Verdict {
    if !is_open {
        return warn(
            "Draining: new connections are not accepted; those open may finish.".to_owned(),
        );
    }
    let worst = stages.iter().map(|(_, verdict)| verdict.level).max().unwrap_or(Level::Ok);
    match stages {
        [] => ok("Healthy: there are no stages.".to_owned()),
        [(_, verdict)] => (*verdict).clone(),
        _ if worst == Level::Ok => {
            let says =
                |word| stages.iter().filter(|(_, verdict)| verdict.text.starts_with(word)).count();
            match (says("Idle"), stages.len()) {
                (idle, all) if idle == all => (*stages[0].1).clone(),
                (_, all) => ok(format!("Healthy: all {all} stages.")),
            }
        }
        _ => {
            let mut worse: Vec<_> =
                stages.iter().filter(|(_, verdict)| verdict.level > Level::Ok).collect();
            worse.sort_by_key(|(_, verdict)| std::cmp::Reverse(verdict.level));
            let mut text = worse
                .iter()
                .take(NAMED_MAX)
                .map(|(name, verdict)| named(name, &verdict.text))
                .collect::<Vec<_>>()
                .join(" ");
            match worse.len().saturating_sub(NAMED_MAX) {
                0 => {}
                1 => text += " And 1 other stage.",
                others => text += &format!(" And {others} other stages."),
            }
            Verdict { level: worst, text }
        }
    }
}

/// `Overloaded at shop: …`
fn named(stage: &str, text: &str) -> String {
    match text.split_once(": ") {
        Some((word, rest)) => format!("{word} at {stage}: {rest}"),
        None => format!("{stage}: {text}"),
    }
}

fn ok(text: String) -> Verdict {
    Verdict { level: Level::Ok, text }
}

fn warn(text: String) -> Verdict {
    Verdict { level: Level::Warn, text }
}

fn bad(text: String) -> Verdict {
    Verdict { level: Level::Bad, text }
}

fn level(share: f64) -> Level {
    if share >= BAD_MIN { Level::Bad } else { Level::Warn }
}

/// `last 10 s`
fn period(recent: &Recent) -> String {
    // The last sample may be a second old.
    let seconds = if (9.5..12.0).contains(&recent.seconds) { 10.0 } else { recent.seconds };
    format!("last {:.0} s", seconds.max(1.0))
}

/// `p90 180 ms, target 200 ms`
fn times(promise: &Promise) -> String {
    let seen = promise.seen.map_or_else(|| "unknown".to_owned(), time);
    format!("{} {seen}, target {}", Percentile(promise.percentile), time(promise.target))
}

fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..0.001 => format!("{:.0} µs", seconds * 1e6),
        ..0.01 => format!("{} ms", (seconds * 1e4).round() / 10.0),
        ..0.9995 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{} s", (seconds * 100.0).round() / 100.0),
    }
}

fn percent(share: f64) -> String {
    match 100.0 * share {
        ..0.05 => "less than 0.1 %".to_owned(),
        percent @ ..9.95 => format!("{:.1} %", percent),
        percent @ 99.5..100.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// `120 requests a second`
fn rate(per_second: f64) -> String {
    match per_second {
        ..0.05 => "less than 0.1 requests a second".to_owned(),
        rate @ ..9.95 => format!("{rate:.1} requests a second"),
        rate => format!("{rate:.0} requests a second"),
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Ratio;
    use tamarisk_stage::StageBuilder;

    use super::*;

    /// A stage that has answered 1200 requests in the last ten seconds, in time.
    fn healthy() -> Condition<'static> {
        Condition {
            phase: Phase::Open,
            inside: 3,
            recent: Some(Recent {
                seconds: 10.0,
                offered: 1200,
                completed: 1200,
                ..Recent::default()
            }),
            promise: promise(Some(40)),
            out_of_reach: 0.0,
            last_failure: None,
        }
    }

    fn promise(millis: Option<u64>) -> Option<Promise> {
        Some(Promise {
            percentile: Ratio::saturating(0.9),
            target: Duration::from_millis(200),
            seen: millis.map(Duration::from_millis),
        })
    }

    fn recently(offered: u64, completed: u64, rejected: u64, failed: u64) -> Option<Recent> {
        Some(Recent {
            seconds: 10.0,
            offered,
            completed,
            rejected,
            failed,
            terminated: 0,
            abandoned: 0,
        })
    }

    fn check(condition: Condition<'_>, level: Level, text: &str) {
        assert_eq!(condition.verdict(), Verdict { level, text: text.to_owned() });
    }

    #[test]
    fn all_is_well() {
        let text = "Healthy: 120 requests a second, p90 40 ms, target 200 ms.";
        check(healthy(), Level::Ok, text);
        let text = "Healthy: 120 requests a second.";
        check(Condition { promise: promise(None), ..healthy() }, Level::Ok, text);
        check(Condition { promise: None, ..healthy() }, Level::Ok, text);
    }

    #[test]
    fn a_few_rejections_are_mentioned() {
        let recent = recently(1000, 995, 5, 0);
        let text = "Healthy: 100 requests a second, p90 40 ms, target 200 ms. 0.5 % of the \
                    requests in the last 10 s were rejected.";
        check(Condition { recent, ..healthy() }, Level::Ok, text);
    }

    #[test]
    fn nobody_asks() {
        let idle = Condition { recent: recently(0, 0, 0, 0), inside: 0, ..healthy() };
        check(idle, Level::Ok, "Idle: no requests in the last 10 s.");
        let text = "Quiet: no new requests in the last 10 s; 3 in progress.";
        check(Condition { inside: 3, ..idle }, Level::Ok, text);
        check(Condition { recent: None, ..idle }, Level::Ok, "Started: no data yet.");
    }

    #[test]
    fn many_are_rejected_and_the_others_answered_in_time() {
        let overloaded = Condition {
            recent: recently(1000, 230, 770, 0),
            promise: promise(Some(180)),
            ..healthy()
        };
        let text = "Overloaded: 77 % of the requests in the last 10 s were rejected. Those admitted \
                    are answered in time (p90 180 ms, target 200 ms).";
        check(overloaded, Level::Bad, text);
        let text = "Overloaded: 2.0 % of the requests in the last 10 s were rejected. Those \
                    admitted are answered in time (p90 180 ms, target 200 ms).";
        check(Condition { recent: recently(1000, 980, 20, 0), ..overloaded }, Level::Warn, text);
    }

    #[test]
    fn some_are_rejected_and_the_others_late_or_not_answered() {
        let overloaded = Condition {
            recent: recently(1000, 980, 20, 0),
            promise: promise(Some(350)),
            ..healthy()
        };
        let text = "Overloaded: 2.0 % of the requests in the last 10 s were rejected. Those \
                    admitted are answered late (p90 350 ms, target 200 ms).";
        check(overloaded, Level::Bad, text);
        let text = "Overloaded: 98 % of the requests in the last 10 s were rejected. None was \
                    completed.";
        check(Condition { recent: recently(1000, 0, 980, 0), ..overloaded }, Level::Bad, text);
        let text = "Overloaded: 2.0 % of the requests in the last 10 s were rejected.";
        check(Condition { promise: None, ..overloaded }, Level::Warn, text);
    }

    #[test]
    fn requests_fail() {
        let failing = Condition {
            recent: recently(100, 88, 0, 12),
            last_failure: Some("connection refused"),
            ..healthy()
        };
        let text = "Failing: 12 % of the requests in the last 10 s failed. Last failure: \
                    connection refused";
        check(failing, Level::Bad, text);
        let text = "Failing: 2.0 % of the requests in the last 10 s failed.";
        let few = Condition { recent: recently(100, 98, 0, 2), last_failure: None, ..failing };
        check(few, Level::Warn, text);
        let text = "Failing: 2.0 % of the requests in the last 10 s failed. 50 % were rejected.";
        check(Condition { recent: recently(100, 48, 50, 2), ..few }, Level::Bad, text);
        let old = Condition { last_failure: Some("long ago"), ..healthy() };
        check(old, Level::Ok, &healthy().verdict().text);
    }

    #[test]
    fn clients_leave() {
        let recent =
            recently(100, 80, 0, 0).map(|recent| Recent { terminated: 5, abandoned: 15, ..recent });
        let text = "Unfinished: 20 % of the requests in the last 10 s ended before their answer, \
                    because their client left or their time was over.";
        check(Condition { recent, ..healthy() }, Level::Warn, text);
    }

    #[test]
    fn a_target_cannot_be_kept() {
        let text = "Target out of reach: 13 % of the requests are of a kind that takes longer than \
                    its target on average, even without a queue. State a longer target for them.";
        check(Condition { out_of_reach: 0.13, ..healthy() }, Level::Warn, text);
        check(Condition { out_of_reach: 0.1, ..healthy() }, Level::Ok, &healthy().verdict().text);
    }

    #[test]
    fn answers_come_late_or_not_at_all() {
        let text = "Late: p90 350 ms, target 200 ms; 120 requests a second.";
        check(Condition { promise: promise(Some(350)), ..healthy() }, Level::Warn, text);
        let text = "Late: p90 1.25 s, target 200 ms; 120 requests a second.";
        check(Condition { promise: promise(Some(1250)), ..healthy() }, Level::Bad, text);
        let text = "No answers: no request was completed in the last 10 s; 3 in progress or \
                    queued.";
        check(Condition { recent: recently(5, 0, 0, 0), ..healthy() }, Level::Warn, text);
    }

    #[test]
    fn a_stage_that_takes_nothing_says_so() {
        let text = "Draining: new requests are rejected; 3 in progress or queued.";
        check(Condition { phase: Phase::Draining, ..healthy() }, Level::Warn, text);
        let closed = Condition { phase: Phase::Closed, ..healthy() };
        check(closed, Level::Bad, "Closed: every request is rejected.");
    }

    #[test]
    fn the_period_is_what_is_known() {
        let idle = |seconds| {
            let recent = Some(Recent { seconds, ..Recent::default() });
            Condition { recent, inside: 0, ..healthy() }.verdict().text
        };
        assert_eq!(idle(0.2), "Idle: no requests in the last 1 s.");
        assert_eq!(idle(3.2), "Idle: no requests in the last 3 s.");
        assert_eq!(idle(10.9), "Idle: no requests in the last 10 s.");
        assert_eq!(idle(99.0), "Idle: no requests in the last 99 s.");
    }

    #[test]
    fn numbers_are_short_and_do_not_round_to_the_opposite() {
        let times = [800, 3_400, 40_000, 999_000, 999_900, 12_345_000];
        let times = times.map(|micros| time(Duration::from_micros(micros)));
        assert_eq!(times, ["800 µs", "3.4 ms", "40 ms", "999 ms", "1 s", "12.35 s"]);
        let shares = [0.0001, 0.004, 0.12, 0.996, 1.0].map(percent);
        assert_eq!(shares, ["less than 0.1 %", "0.4 %", "12 %", "99.6 %", "100 %"]);
        let rates = [0.01, 0.3, 12.4].map(rate);
        let expected =
            ["less than 0.1", "0.3", "12"].map(|rate| format!("{rate} requests a second"));
        assert_eq!(rates, expected);
        let p999 = Promise { percentile: Ratio::saturating(0.999), ..promise(None).unwrap() };
        assert_eq!(super::times(&p999), "p99.9 unknown, target 200 ms");
    }

    #[test]
    fn all_stages_together_are_as_bad_as_the_worst() {
        let fine = ok("Healthy: 1 requests a second.".to_owned());
        let idle = ok("Idle: no requests in the last 10 s.".to_owned());
        let (slow, broken) = (warn("Late: x.".to_owned()), bad("Failing: y.".to_owned()));
        assert_eq!(of_all(&[("a", &slow)], true), slow);
        assert_eq!(of_all(&[("a", &idle), ("b", &idle)], true), idle);
        assert_eq!(
            of_all(&[("a", &fine), ("b", &idle)], true),
            ok("Healthy: all 2 stages.".to_owned())
        );
        let all = of_all(&[("a", &fine), ("b", &slow), ("c", &broken)], true);
        assert_eq!(all, bad("Failing at c: y. Late at b: x.".to_owned()));
        let many = ["a", "b", "c", "d", "e"].map(|name| (name, &slow));
        let text = "Late at a: x. Late at b: x. Late at c: x. And 2 other stages.";
        assert_eq!(of_all(&many, true), warn(text.to_owned()));
        assert!(of_all(&[("a", &broken)], false).text.starts_with("Draining: "));
        assert_eq!(of_all(&[], true).level, Level::Ok);
    }

    #[tokio::test]
    async fn a_stage_is_judged_by_what_it_shows() {
        let mut stage = StageBuilder::new("app").gate().unwrap().observe();
        let name = "target_out_of_reach_ratio".to_owned();
        stage.readings = vec![tamarisk_stage::LawReading { name, class: None, value: 0.5 }];
        let verdict = Condition::of(&stage, recently(10, 10, 0, 0)).verdict();
        assert!(verdict.text.starts_with("Target out of reach: 50 %"), "{verdict:?}");
    }
}
