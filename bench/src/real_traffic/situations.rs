//! The situations, one function each: what the upstream is, who sends what, and the bars.
//!
//! The usual upstream has 8 workers of 40 ms, so a capacity of 200 requests a second.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::hostile::Hostile;
use super::load::Stream;
use super::seen::Seen;
use super::upstream::{Service, Upstream, Work};

const CAPACITY: f64 = 200.0;
const TARGET: f64 = 0.2;
const LARGE_BYTES: usize = 20 * 1024;

/// A situation and how it is judged.
pub struct Situation {
    /// What it is called on the command line.
    pub name: &'static str,
    /// The target of everything that `config` gives none of its own.
    pub p90: Duration,
    /// What the file of `protect` says besides address, target and upstream.
    pub config: &'static str,
    /// Behind the proxy.
    pub upstream: Upstream,
    /// Clients.
    pub streams: Vec<Stream>,
    /// Clients of the other kind.
    pub hostile: Vec<Hostile>,
    /// How long requests are sent.
    pub seconds: f64,
    /// Whether less of it says the same: not so where things happen at stated times.
    pub can_be_shorter: bool,
    /// How long the last of them are waited for.
    pub grace: f64,
    /// What is measured, and what it must be.
    pub bars: Vec<Bar>,
}

/// A measure and its bound.
pub struct Bar {
    /// What is measured.
    pub what: &'static str,
    /// What it must be.
    pub bound: Bound,
    /// How.
    pub measure: Box<dyn Fn(&Seen) -> f64>,
}

/// A bound of a measure.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Bound {
    /// Whether the measure keeps it, which only a finite number does.
    pub fn is_kept(self, measured: f64) -> bool {
        let is_within = match self {
            Self::AtMost(bound) => measured <= bound,
            Self::AtLeast(bound) => measured >= bound,
        };
        is_within && measured.is_finite()
    }
}

/// All of them. `scale` is how much of its time each takes, and `second` how long a second of those
/// is that are long because work or faults in them are: of them less would say something else. The
/// bars are meant for 1 and 1.
pub fn all(scale: f64, second: f64) -> Vec<Situation> {
    let mut all = vec![
        idle_app("idle-app", 15.0),
        idle_app("idle-app-30", 30.0),
        uploads("trickling", 40, 20_000, 1_000),
        uploads("trickling-6", 6, 20_000, 1_000),
        uploads("uploads", 10, 2_000_000, 100_000),
        stalled_bodies(),
        window_zero(),
        polls(),
        lost(),
        hang(second),
        pause(second),
        streams(scale, second),
        shared_streams(scale, second),
        notifications(),
        whole_answers(scale, second),
        below_target(second),
        two_routes(),
        one_target(),
        priorities(),
        priority_tenth(),
        cold(second),
        cold_four(),
        greedy_client(),
        fan_out(),
        tight(),
        leavers(),
    ];
    for situation in all.iter_mut().filter(|situation| situation.can_be_shorter) {
        situation.seconds *= scale;
    }
    all
}

/// An upstream of 8 workers of 40 ms, a load of `times` its capacity, 40 s, and nothing else.
fn usual(name: &'static str, times: f64) -> Situation {
    Situation {
        name,
        p90: seconds(0.2),
        config: "",
        upstream: Upstream::new(Some(8), &[("/app", answers(0.04))]),
        streams: vec![Stream::new("/app", times * CAPACITY)],
        hostile: vec![],
        seconds: 40.0,
        can_be_shorter: true,
        grace: 1.0,
        bars: vec![],
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn answers(mean: f64) -> Work {
    Work::Answer(Service::Exponential(mean), 2)
}

fn at_least(bound: f64, what: &'static str, measure: impl Fn(&Seen) -> f64 + 'static) -> Bar {
    Bar { what, bound: Bound::AtLeast(bound), measure: Box::new(measure) }
}

fn at_most(bound: f64, what: &'static str, measure: impl Fn(&Seen) -> f64 + 'static) -> Bar {
    Bar { what, bound: Bound::AtMost(bound), measure: Box::new(measure) }
}

/// The first stream is rejected no more than this.
fn rejected_at_most(bound: f64) -> Bar {
    at_most(bound, "rejected", |seen| seen.of(&[0]).rejected())
}

/// The first stream gets its answers, at whatever time.
fn nothing_lost() -> Bar {
    at_most(0.001, "good clients not served", |seen| seen.of(&[0]).not_served())
}

fn idle_app(name: &'static str, reports: f64) -> Situation {
    let constant = |seconds| Work::Answer(Service::Constant(seconds), 2);
    Situation {
        upstream: Upstream::new(None, &[("/app", constant(0.02)), ("/report", constant(0.8))]),
        streams: vec![Stream::new("/app", 100.0), Stream::new("/report", reports)],
        bars: vec![at_most(0.001, "rejected of all", |seen| seen.of(&[0, 1]).rejected())],
        ..usual(name, 0.0)
    }
}

fn uploads(name: &'static str, count: usize, bytes: usize, rate: usize) -> Situation {
    Situation {
        hostile: vec![Hostile::Uploads { count, bytes, rate }],
        // An upload takes 20 s, and what is learned from it comes after.
        seconds: 60.0,
        can_be_shorter: false,
        bars: vec![rejected_at_most(0.005)],
        ..usual(name, 0.5)
    }
}

fn stalled_bodies() -> Situation {
    Situation {
        hostile: vec![Hostile::StalledBodies(33)],
        bars: vec![nothing_lost()],
        ..usual("stalled-bodies", 0.5)
    }
}

fn window_zero() -> Situation {
    let large = Work::Answer(Service::Exponential(0.04), LARGE_BYTES);
    Situation {
        upstream: Upstream::new(Some(8), &[("/app", answers(0.04)), ("/large", large)]),
        hostile: vec![Hostile::WindowOfZero(33)],
        bars: vec![nothing_lost()],
        ..usual("window-zero", 0.5)
    }
}

fn polls() -> Situation {
    let mut situation = usual("polls", 0.7);
    situation.upstream.paths.push(("/poll", Work::Poll(25.0)));
    situation.streams.push(Stream::new("/poll", 0.01 * 0.7 * CAPACITY));
    situation.seconds = 60.0;
    situation.bars = vec![rejected_at_most(0.005)];
    situation
}

fn lost() -> Situation {
    let mut situation = usual("lost", 0.7);
    situation.upstream.lost = 0.005;
    situation.seconds = 60.0;
    situation.bars = vec![rejected_at_most(0.005)];
    situation
}

fn hang(second: f64) -> Situation {
    let mut situation = usual("hang", 0.7);
    let end = 20.0 * second;
    situation.upstream.swallows = 10.0 * second..end;
    situation.seconds = 40.0 * second;
    situation.can_be_shorter = false;
    situation.bars = vec![at_least(0.95, "goodput ÷ offered from 2 s after", move |seen| {
        seen.of(&[0]).due_in(end + 2.0..seen.seconds()).in_time(TARGET)
    })];
    situation
}

fn pause(second: f64) -> Situation {
    let mut situation = usual("pause", 3.0);
    let (start, end) = (15.0 * second, 15.0 * second + 2.0);
    situation.upstream.pauses = start..end;
    situation.seconds = end + 23.0 * second;
    situation.can_be_shorter = false;
    situation.bars = vec![at_least(0.95, "goodput 2 s after ÷ before", move |seen| {
        let goodput = |from: f64| {
            let times = from..from + 10.0 * second;
            seen.of(&[0]).due_in(times).goodput(TARGET)
        };
        let before = goodput(start - 10.0 * second);
        if before == 0.0 { 0.0 } else { goodput(end + 2.0) / before }
    })];
    situation
}

/// 16 slots of 17.5 s.
const STREAMS_A_SECOND: f64 = 16.0 / 17.5;

/// Three times as many streams of 5 to 30 s, or answers as long, as 16 slots can have.
fn long_answers(name: &'static str, work: fn(Service) -> Work, second: f64) -> Situation {
    let service = Service::Uniform(5.0 * second, 30.0 * second);
    Situation {
        upstream: Upstream::new(Some(16), &[("/chat", work(service))]),
        streams: vec![Stream::new("/chat", 3.0 * STREAMS_A_SECOND / second)],
        can_be_shorter: false,
        ..usual(name, 0.0)
    }
}

fn streams(scale: f64, second: f64) -> Situation {
    let target = 2.0 * second;
    Situation {
        p90: seconds(target),
        seconds: (60.0 + 90.0 * scale) * second,
        bars: vec![at_least(0.85, "slots with streams begun in time", move |seen| {
            let steady = 40.0 * second..seen.seconds();
            seen.of(&[0]).streams_in_time(target, steady) / 16.0
        })],
        ..long_answers("streams", Work::Events, second)
    }
}

/// The upstream shares what 16 slots could do among all streams.
fn shared_streams(scale: f64, second: f64) -> Situation {
    let target = 2.0 * second;
    Situation {
        p90: seconds(target),
        seconds: (60.0 + 120.0 * scale) * second,
        bars: vec![at_least(0.8, "streams begun in time ended ÷ capacity", move |seen| {
            let steady = 60.0 * second..seen.seconds();
            seen.of(&[0]).streams_ended(target, steady) * second / STREAMS_A_SECOND
        })],
        ..long_answers("shared-streams", |service| Work::SharedEvents(service, 16), second)
    }
}

/// Streams that have data when something happens, beside work.
fn notifications() -> Situation {
    let happens = Work::Notifications(Service::Exponential(20.0));
    let mut situation = usual("notifications", 0.5);
    situation.seconds = 120.0;
    situation.upstream.paths.push(("/notifications", happens));
    situation.streams.push(Stream::new("/notifications", 3.0));
    situation.bars = vec![
        at_most(0.005, "notifications rejected", |seen| seen.of(&[1]).rejected()),
        at_most(0.005, "others rejected", |seen| seen.of(&[0]).rejected()),
    ];
    situation
}

fn whole_answers(scale: f64, second: f64) -> Situation {
    let target = 45.0 * second;
    Situation {
        p90: seconds(target),
        seconds: (100.0 + 150.0 * scale) * second,
        grace: 61.0 * second,
        bars: vec![
            at_least(0.8, "goodput ÷ capacity", move |seen| {
                let steady = 40.0 * second..seen.seconds();
                seen.of(&[0]).due_in(steady).goodput(target) * second / STREAMS_A_SECOND
            }),
            at_most(0.01, "504s", |seen| seen.of(&[0]).with_status(504)),
        ],
        ..long_answers("whole-answers", |service| Work::Answer(service, 2), second)
    }
}

fn below_target(second: f64) -> Situation {
    let mut situation = usual("below-target", 0.0);
    let (calm, end) = (25.0 * second, 50.0 * second);
    situation.streams[0].rates = vec![(calm, 3.0 * CAPACITY), (end, 0.5 * CAPACITY)];
    Situation {
        p90: seconds(0.02),
        seconds: end,
        can_be_shorter: false,
        bars: vec![
            at_least(0.9, "answered at 3 × ÷ capacity", move |seen| {
                seen.of(&[0]).served_in(5.0 * second..calm) / CAPACITY
            }),
            at_most(0.001, "then rejected at 0.5 ×", move |seen| {
                seen.of(&[0]).due_in(calm + 2.0..seen.seconds()).rejected()
            }),
        ],
        ..situation
    }
}

/// GETs of 5 ms that need half a worker, and reports of 400 ms at 3 × the capacity.
fn two_kinds(name: &'static str, p90: f64, config: &'static str) -> Situation {
    Situation {
        p90: seconds(p90),
        config,
        upstream: Upstream::new(Some(8), &[("/get", answers(0.005)), ("/report", answers(0.4))]),
        streams: vec![Stream::new("/get", 100.0), Stream::new("/report", 3.0 * 8.0 / 0.4)],
        seconds: 60.0,
        grace: 3.0,
        ..usual(name, 0.0)
    }
}

fn after_start(seen: &Seen, streams: &[usize]) -> super::seen::Part {
    seen.of(streams).due_in(5.0..seen.seconds())
}

fn two_routes() -> Situation {
    let config = "[[routes]]\nname = \"reports\"\npath = \"/report\"\np90 = \"2s\"\n\
                  [[routes]]\nname = \"gets\"\npath = \"/\"\np90 = \"100ms\"\n";
    Situation {
        bars: vec![
            at_least(0.95, "GETs in time", |seen| after_start(seen, &[0]).in_time(0.1)),
            at_least(0.8, "reports in time ÷ what is left", |seen| {
                after_start(seen, &[1]).goodput(2.0) / (7.5 / 0.4)
            }),
        ],
        ..two_kinds("two-routes", 0.1, config)
    }
}

fn one_target() -> Situation {
    Situation {
        bars: vec![at_least(0.9, "GETs in time", |seen| after_start(seen, &[0]).in_time(1.0))],
        ..two_kinds("one-target", 1.0, "")
    }
}

fn priorities() -> Situation {
    let config = "[classes.reports]\nany = [{ path = \"/report\" }]\npriority = 2\n";
    Situation {
        bars: vec![at_least(0.95, "GETs in time", |seen| after_start(seen, &[0]).in_time(1.0))],
        ..two_kinds("priorities", 1.0, config)
    }
}

fn priority_tenth() -> Situation {
    let config =
        "[classes.gold]\nany = [{ header = \"x-plan\", value = \"gold\" }]\npriority = 0\n";
    let mut situation = two_kinds("priority-tenth", 1.0, config);
    situation.streams[0].rates[0].1 = 90.0;
    situation.streams.push(Stream { headers: "x-plan: gold\r\n", ..Stream::new("/get", 10.0) });
    situation.bars = vec![at_least(0.98, "GETs of priority 0 in time", |seen| {
        after_start(seen, &[2]).in_time(1.0)
    })];
    situation
}

fn cold(second: f64) -> Situation {
    let target = 3.0 * second;
    Situation {
        p90: seconds(target),
        upstream: Upstream::new(Some(1), &[("/app", Work::Answer(Service::Erlang(second), 2))]),
        streams: vec![Stream::new("/app", 2.0 / second)],
        seconds: 60.0 * second,
        can_be_shorter: false,
        grace: 4.0,
        bars: vec![at_least(0.8, "goodput of the first minute ÷ capacity", move |seen| {
            seen.of(&[0]).goodput(target) * second
        })],
        ..usual("cold", 0.0)
    }
}

fn cold_four() -> Situation {
    Situation {
        p90: seconds(2.0),
        upstream: Upstream::new(Some(4), &[("/app", answers(0.4))]),
        streams: vec![Stream::new("/app", 30.0)],
        seconds: 10.0,
        can_be_shorter: false,
        grace: 3.0,
        bars: vec![at_least(0.7, "goodput of the first 10 s ÷ capacity", |seen| {
            seen.of(&[0]).goodput(2.0) / 10.0
        })],
        ..usual("cold-four", 0.0)
    }
}

fn greedy_client() -> Situation {
    let others = (1..=99).map(|last| Ipv4Addr::new(127, 0, 1, last)).collect();
    Situation {
        streams: vec![
            Stream { addresses: others, ..Stream::new("/app", 0.1 * 5.0 * CAPACITY) },
            Stream {
                addresses: vec![Ipv4Addr::new(127, 0, 2, 1)],
                ..Stream::new("/app", 0.9 * 5.0 * CAPACITY)
            },
        ],
        bars: vec![at_least(0.95, "the 99 in time", |seen| {
            after_start(seen, &[0]).in_time(TARGET)
        })],
        ..usual("greedy-client", 0.0)
    }
}

/// Pages of twenty calls from clients with addresses of their own, twice what can be answered.
fn fan_out() -> Situation {
    let addresses = (0..1000).map(|client: u16| {
        let [third, last] = [client / 250, client % 250 + 1].map(|part| part as u8);
        Ipv4Addr::new(127, 0, third + 1, last)
    });
    let page = Stream { at_once: 20, addresses: addresses.collect(), ..Stream::new("/app", 40.0) };
    Situation {
        p90: seconds(0.4),
        upstream: Upstream::new(Some(8), &[("/app", answers(0.02))]),
        streams: vec![page],
        bars: vec![at_least(0.9, "whole pages in time ÷ capacity", |seen| {
            after_start(seen, &[0]).whole_pages(0.4) / 20.0
        })],
        ..usual("fan-out", 0.0)
    }
}

fn tight() -> Situation {
    Situation { p90: seconds(0.1), bars: vec![rejected_at_most(0.003)], ..usual("tight", 0.45) }
}

fn leavers() -> Situation {
    let mut situation = usual("leavers", 5.0);
    situation.p90 = seconds(1.0);
    situation.streams[0].patience = Duration::from_millis(300);
    situation.bars = vec![at_least(0.8, "goodput ÷ capacity", |seen| {
        after_start(seen, &[0]).goodput(0.3) / CAPACITY
    })];
    situation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_is_served_no_least_measure_is_reached() {
        for situation in all(1.0, 1.0) {
            let nothing = Seen::new(situation.seconds);
            for Bar { what, bound, measure } in &situation.bars {
                let measured = measure(&nothing);
                assert!(measured.is_finite(), "{}: {what}: {measured}", situation.name);
                let is_reached = matches!(bound, Bound::AtLeast(_)) && bound.is_kept(measured);
                assert!(!is_reached, "{}: {what}: {measured}", situation.name);
            }
        }
    }

    #[test]
    fn only_a_finite_number_keeps_a_bound() {
        for bound in [Bound::AtMost(1.0), Bound::AtLeast(1.0)] {
            assert!(bound.is_kept(1.0));
            for measured in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert!(!bound.is_kept(measured), "{bound:?}: {measured}");
            }
        }
    }
}
