//! The limit that the law for hidden workers finds, step by step.

use std::time::Duration;

use tamarisk_control::*;
use tamarisk_laws::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

fn classes() -> Classes {
    Classes::single(Target::p90(Duration::from_secs(1)).expect("a second is a target"))
}

fn limit(law: &OpaqueUpstream) -> u32 {
    law.concurrency().expect("it always has a say").get()
}

/// What the law sees of an upstream that answers in `response_ms`, one answer
/// after another every `gap_ms`, with `in_flight` out all the time and `queued`
/// waiting here.
struct Upstream {
    now_ms: u64,
    gap_ms: u64,
    response_ms: u64,
    in_flight: u32,
    queued: u32,
    ending: Ending,
}

impl Upstream {
    fn answer(&mut self, law: &mut OpaqueUpstream, count: u32) {
        for _ in 0..count {
            self.now_ms += self.gap_ms;
            let response = Duration::from_millis(self.response_ms);
            let finished = Finished {
                kind: 0,
                class: ClassId::DEFAULT,
                service: response,
                response,
                ending: self.ending,
                together: Together::ALONE,
            };
            let (queued, running) = ([self.queued], [self.in_flight - 1]);
            let backlog = Backlog {
                queued: &queued,
                running: &running,
                queued_total: self.queued,
                running_total: self.in_flight - 1,
                workers: law.concurrency().expect("it always has a say"),
            };
            law.on_finish(at(self.now_ms), &finished, &backlog);
        }
    }
}

/// Two answers of 20 ms in flight, one every 10 ms: 100 a second, unpressed.
fn quiet() -> Upstream {
    Upstream {
        now_ms: 0,
        gap_ms: 10,
        response_ms: 20,
        in_flight: 2,
        queued: 0,
        ending: Ending::Completed,
    }
}

#[test]
fn it_starts_generous() {
    assert_eq!(limit(&OpaqueUpstream::new(&classes())), 32);
}

#[test]
fn while_nothing_is_pressed_there_is_room_for_four_times_the_load() {
    let mut law = OpaqueUpstream::new(&classes());
    let mut upstream = quiet();
    upstream.answer(&mut law, 500);
    // 4 · 100/s · 20 ms = 8, but even a single worker would get through 1 s ÷
    // 20 ms = 50 in time: the initial 32 are safe.
    assert_eq!(limit(&law), 32);
    upstream.gap_ms = 1;
    upstream.in_flight = 20;
    upstream.answer(&mut law, 2000);
    // 4 · 1000/s · 20 ms = 80, and the best rate of the last 5 s is the present one.
    assert_eq!(limit(&law), 80);
}

#[test]
fn when_places_run_out_and_answers_slow_down_the_limit_falls_to_the_knee() {
    let mut law = OpaqueUpstream::new(&classes());
    let mut upstream = quiet();
    upstream.answer(&mut law, 500);
    // From now on 100 a second are all it can do, and every place is taken.
    upstream.queued = 10;
    upstream.in_flight = limit(&law);
    for _ in 0..4000 {
        upstream.response_ms = 10 * u64::from(upstream.in_flight);
        upstream.answer(&mut law, 1);
        upstream.in_flight = limit(&law).max(upstream.in_flight - 1);
    }
    // b = 20 ms, X = 100/s: 2 are worked on, and the room is as much again; a
    // probe holds 1.3 times as many.
    assert!((4..=6).contains(&limit(&law)), "{}", limit(&law));
}

#[test]
fn an_upstream_that_only_fails_teaches_nothing() {
    let mut law = OpaqueUpstream::new(&classes());
    let mut upstream = Upstream { ending: Ending::Failed, response_ms: 1, gap_ms: 1, ..quiet() };
    upstream.answer(&mut law, 5000);
    assert_eq!(limit(&law), 32);
}

#[test]
fn streams_leave_the_estimates_alone() {
    let mut law = OpaqueUpstream::new(&classes());
    let mut upstream = quiet();
    upstream.answer(&mut law, 500);
    let before = limit(&law);
    let hour = 3_600_000;
    let mut streams = Upstream { ending: Ending::Untimed, response_ms: hour, ..quiet() };
    streams.now_ms = upstream.now_ms;
    streams.answer(&mut law, 100);
    assert_eq!(limit(&law), before);
}

#[test]
fn the_limit_stays_within_its_bounds() {
    let bounded = OpaqueUpstream::builder(&classes())
        .limit_initial(Concurrency::new(8))
        .limit_max(Concurrency::new(10))
        .build();
    let mut law = bounded.unwrap();
    assert_eq!(limit(&law), 8);
    let mut upstream = Upstream { gap_ms: 1, in_flight: 7, ..quiet() };
    upstream.answer(&mut law, 5000);
    assert_eq!(limit(&law), 10);
}

#[test]
fn an_initial_limit_beyond_the_greatest_is_rejected() {
    let classes = classes();
    let builder = OpaqueUpstream::builder(&classes);
    let error = builder.limit_max(Concurrency::new(31)).build().unwrap_err();
    assert_eq!(error.to_string(), "initial limit (32) is not between minimum (1) and maximum (31)");
}

/// What `law` says to an arrival behind so many, where 32 are sent on at most.
fn decide(law: &mut OpaqueUpstream, now: Timestamp, queued: u32, running: u32) -> Decision {
    let backlog = Backlog {
        queued: &[queued],
        running: &[running],
        queued_total: queued,
        running_total: running,
        workers: Concurrency::new(32),
    };
    let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind: 0 };
    law.on_arrival(now, &arrival, &backlog)
}

#[test]
fn what_waits_for_a_place_is_judged_like_a_queue() {
    let mut law = OpaqueUpstream::new(&classes());
    let mut upstream = quiet();
    upstream.answer(&mut law, 500);
    let mut decide = |queued, running| decide(&mut law, at(5000), queued, running);
    assert_eq!(decide(0, 31), Decision::Admit);
    // The limit may still double: 3000 · 20 ms ÷ 64 = 0.94 s, and 4000 are 1.25 s.
    assert_eq!(decide(3000, 32), Decision::Admit);
    assert!(matches!(decide(4000, 32), Decision::Reject(_)));
}

#[test]
fn the_newest_go_first_once_the_oldest_have_used_up_half_of_their_room() {
    let mut law = OpaqueUpstream::new(&classes());
    quiet().answer(&mut law, 500);
    // 1 s less 20 ms of service leave a room of 980 ms, and the gate is open.
    assert_eq!(law.order(Duration::from_millis(480)), Order::OldestFirst);
    assert_eq!(law.order(Duration::from_millis(500)), Order::NewestFirst);
}

#[test]
fn targets_that_are_set_anew_leave_it_as_it_was() {
    let target = Target::p90(Duration::from_millis(200)).unwrap();
    let classes = Classes::single(target);
    // Three seconds of answers that take most of the target, then as many short ones.
    let taught = |is_set: bool| {
        let mut law = OpaqueUpstream::new(&classes);
        let mut upstream = Upstream { response_ms: 150, ..quiet() };
        upstream.answer(&mut law, 300);
        if is_set {
            law.set_targets(&classes);
        }
        upstream.response_ms = 10;
        upstream.answer(&mut law, 300);
        law
    };
    let [set, left] = [true, false].map(taught);
    let decide = |law: &OpaqueUpstream, queued| {
        decide(&mut law.clone(), at(6000), queued, 32) == Decision::Admit
    };
    // 200 · 10 ms ÷ 64 = 31 ms; 20,000 are 3 s.
    for queued in [0, 100, 200, 400, 800, 20_000] {
        assert_eq!(decide(&set, queued), decide(&left, queued), "{queued}");
    }
    assert!(decide(&set, 200) && !decide(&set, 20_000));
}
