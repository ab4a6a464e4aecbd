//! The work limit before an upstream of one worker of a second, which it has just found to be full.

use std::time::Duration;

use tamarisk_control::*;
use tamarisk_laws::*;

const KNOWN: u64 = 1;
const UNKNOWN: u64 = 2;
const WORKERS_MAX: u32 = 100;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

/// Tells the law what it asks, of so many events.
fn with_backlog<T>(queued: u32, running: u32, told: impl FnOnce(&Backlog<'_>) -> T) -> T {
    told(&Backlog {
        queued: &[queued],
        running: &[running],
        queued_total: queued,
        running_total: running,
        workers: Concurrency::new(WORKERS_MAX),
    })
}

fn arrive(law: &mut WorkLimit, millis: u64, kind: u64, queued: u32, running: u32) -> Decision {
    let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind };
    with_backlog(queued, running, |backlog| law.on_arrival(at(millis), &arrival, backlog))
}

fn reading(law: &WorkLimit, name: &str) -> f64 {
    let mut found = None;
    law.readings(&mut |reading| {
        if reading.name == name {
            found = Some(reading.value);
        }
    });
    found.expect("the law shows it")
}

/// Ten were sent, one a millisecond, of which four have come back, one a second. Six are in flight.
fn full() -> WorkLimit {
    let classes = Classes::single(Target::p90(Duration::from_secs(6)).expect("it is a target"));
    let mut law = WorkLimit::new(&classes);
    for running in 0..10 {
        assert_eq!(arrive(&mut law, running.into(), KNOWN, 0, running), Decision::Admit);
    }
    for seconds in 1..=4 {
        let took = at(1000 * seconds).since(at(seconds - 1));
        let finished = Finished {
            kind: KNOWN,
            class: ClassId::DEFAULT,
            service: took,
            response: took,
            ending: Ending::Completed,
            together: Together::ALONE,
        };
        with_backlog(0, 10 - seconds as u32, |backlog| {
            law.on_finish(at(1000 * seconds), &finished, backlog);
        });
    }
    assert_eq!(reading(&law, "saturated_ratio"), 1.0);
    law
}

#[test]
fn the_queue_of_a_kind_that_is_not_known_has_a_bound() {
    let mut law = full();
    let bound = (16.0 * reading(&law, "limit_count")) as u32;
    for queued in 0..bound {
        assert_eq!(arrive(&mut law, 4000, UNKNOWN, queued, 6), Decision::Admit, "{queued}");
    }
    let Decision::Reject(rejection) = arrive(&mut law, 4000, UNKNOWN, bound, 6) else {
        panic!("{bound} wait already");
    };
    assert_eq!(rejection.reason, Reason::QueueFull);
}

#[test]
fn until_a_new_limit_shows_a_new_kind_is_learned_from_if_it_is_a_stream() {
    let mut law = full();
    let kinds = reading(&law, "kinds_count");
    let finished = Finished {
        kind: UNKNOWN,
        class: ClassId::DEFAULT,
        service: Duration::from_secs(4),
        response: Duration::from_secs(4),
        ending: Ending::Completed,
        together: Together::ALONE,
    };
    with_backlog(0, 5, |backlog| law.on_finish(at(4000), &finished, backlog));
    assert_eq!(reading(&law, "kinds_count"), kinds, "it may have waited in the upstream");
    let first_data = Moved {
        class: ClassId::DEFAULT,
        flow: 0,
        kind: UNKNOWN,
        change: Change::FirstData,
        time: Duration::from_secs(4),
    };
    with_backlog(0, 5, |backlog| law.on_move(at(4000), &first_data, backlog));
    assert_eq!(reading(&law, "kinds_count"), kinds + 1.0);
}
