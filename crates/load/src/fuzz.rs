//! What must hold of whatever a person writes on the command line, or a server as
//! `Retry-After`: a function `check` that panics when it does not.
//!
//! libFuzzer looks for such texts (`fuzz` at the root, target `arguments`); the test
//! below replays those it has found, with random changes, on any compiler.

use std::time::Duration;

use http::HeaderValue;
use tamarisk_control::parse_duration;

use crate::arrivals::Arrivals;
use crate::outcome::Outcome;
use crate::schedule::CHANGES_MAX;
use crate::{Change, Schedule, Spacing, WeightedUrl};

/// Each line of `input` that is read as something is read as the same again when it
/// is shown, and all changes among them that make a schedule make one that can be
/// run.
///
/// # Panics
/// If it is not.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut changes = Vec::new();
    let (mut base, mut duration) = (1.0, None);
    for line in text.lines() {
        if let Ok(url) = line.parse() {
            a_url_leads_to_one_place(&url, line);
        }
        a_retry_after_is_seconds(line);
        if let Ok(time) = parse_duration(line) {
            assert!(alike(parse_duration(&format!("{time:?}")).ok(), time), "{line:?}");
            duration = Some(time);
        }
        if let Ok(level) = line.parse() {
            base = level;
        }
        let kinds = [Change::step(line), Change::spike(line), Change::ramp(line), line.parse()];
        for change in kinds.into_iter().flatten() {
            a_change_reads_as_it_is_shown(change);
        }
        changes.extend(line.parse::<Change>());
    }
    let count = changes.len();
    if let Ok(schedule) = Schedule::new(base, changes, duration) {
        assert!(count <= CHANGES_MAX);
        a_schedule_can_be_run(&schedule);
    }
}

fn a_url_leads_to_one_place(url: &WeightedUrl, line: &str) {
    assert!(url.weight() >= 1);
    let shown = url.to_string();
    let again: WeightedUrl = shown.parse().expect("what is shown can be read");
    assert_eq!(again.to_string(), shown);
    assert_eq!((again.host(), again.port()), (url.host(), url.port()), "{line:?}");
    assert!(HeaderValue::from_str(url.authority().as_str()).is_ok());
    assert!(!url.host().is_empty());
    let authority = url.authority().as_str();
    let port = format!(":{}", url.port());
    let (host, stated) = match authority.strip_suffix(&port) {
        Some(host) => (host, true),
        None => (authority, false),
    };
    assert!(host == url.host() || host == format!("[{}]", url.host()), "{line:?}");
    assert!(stated || url.port() == 80, "{line:?}");
}

fn a_retry_after_is_seconds(line: &str) {
    let read = |value: &str| Outcome::of_answer(503, Some(value.as_bytes()));
    let outcome = read(line);
    if let Outcome::Rejected { retry_after: Some(time) } = outcome {
        assert_eq!(read(&time.as_secs().to_string()), outcome);
    }
}

fn a_change_reads_as_it_is_shown(change: Change) {
    let again: Change = change.to_string().parse().expect("what is shown can be read");
    assert_eq!(again.level().to_bits() << 1, change.level().to_bits() << 1);
    assert!(alike(Some(again.start()), change.start()), "{change} is read as {again}");
    assert!(alike(Some(again.end()), change.end()), "{change} is read as {again}");
}

/// To the nanosecond, as far as the 53 bits of a number go.
fn alike(read: Option<Duration>, shown: Duration) -> bool {
    read.is_some_and(|read| read.abs_diff(shown) <= shown / (1 << 30))
}

fn a_schedule_can_be_run(schedule: &Schedule) {
    let mut now = Duration::ZERO;
    for phase in schedule.phases() {
        assert!(phase.start == now && phase.end > now, "{schedule:?}");
        let middle = phase.start + phase.duration() / 2;
        for at in [phase.start, middle, phase.end - Duration::from_nanos(1)] {
            let level = schedule.level_at(at);
            assert!((0.0..=schedule.level_max()).contains(&level), "{level} in {schedule:?}");
            for threshold in [0.0, 1.0, level, schedule.level_max()] {
                let next = schedule.next_above(threshold, at);
                assert!(next.is_none_or(|next| next >= at && next < schedule.duration()));
            }
        }
        now = phase.end;
    }
    assert_eq!(now, schedule.duration());
    for spacing in [Spacing::Constant, Spacing::Poisson] {
        let arrivals: Vec<_> = Arrivals::new(schedule, spacing, 0).take(20).collect();
        assert!(arrivals.is_sorted(), "{arrivals:?} in {schedule:?}");
        assert!(arrivals.iter().all(|at| *at <= schedule.duration()));
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn arguments_read_as_they_are_shown_and_schedules_can_be_run() {
        super::replay::replay("arguments", super::check);
    }
}
