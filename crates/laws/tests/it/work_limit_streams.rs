//! The work limit and streams, told event by event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tamarisk_control::*;
use tamarisk_laws::*;

const STREAM: u64 = 1;
const OTHER: u64 = 2;
const TICK: u64 = 100;

/// What comes next, at an instant in milliseconds; of streams, when they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick,
    FirstData { sent: u64 },
    End { sent: u64 },
    Answer { sent: u64 },
}

/// The law before an upstream that has a place for each stream.
struct Rig {
    law: WorkLimit,
    now: u64,
    running: u32,
    random: StdRng,
    events: BinaryHeap<Reverse<(u64, Event)>>,
}

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

impl Rig {
    fn new() -> Self {
        let classes = Classes::single(Target::p90(Duration::from_secs(2)).expect("it is a target"));
        let events = [Reverse((TICK, Event::Tick))].into();
        Self {
            law: WorkLimit::new(&classes),
            now: 0,
            running: 0,

            random: StdRng::seed_from_u64(7),
            events,
        }
    }

    fn tell<T>(&mut self, told: impl FnOnce(&mut WorkLimit, Timestamp, &Backlog<'_>) -> T) -> T {
        let backlog = Backlog {
            queued: &[0],
            running: &[self.running],
            queued_total: 0,
            running_total: self.running,
            workers: Concurrency::new(1000),
        };
        told(&mut self.law, at(self.now), &backlog)
    }

    fn moves(&mut self, change: Change, millis: u64) {
        let kind = STREAM;
        let time = Duration::from_millis(millis);
        let moved = Moved { class: ClassId::DEFAULT, flow: 0, kind, change, time };
        self.tell(|law, now, backlog| law.on_move(now, &moved, backlog));
    }

    fn stalled(&self) -> f64 {
        let mut stalled = None;
        self.law.readings(&mut |reading| {
            if reading.name == "stalled_ratio" {
                stalled = Some(reading.value);
            }
        });
        stalled.expect("the law shows it")
    }

    fn may_start(&mut self) -> bool {
        self.tell(|law, _, backlog| law.may_start(ClassId::DEFAULT, STREAM, backlog))
    }

    fn arrives(&mut self, kind: u64) -> Decision {
        let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow: 0, kind };
        self.tell(|law, now, backlog| law.on_arrival(now, &arrival, backlog))
    }

    /// One comes, and is sent if it may be at once.
    fn sends(&mut self) -> bool {
        let may = self.may_start();
        if may {
            assert_eq!(self.arrives(STREAM), Decision::Admit);
            self.running += 1;
        }
        may
    }

    /// The same; its first data comes after `first_data` milliseconds, and its end after `length`.
    fn streams(&mut self, first_data: u64, length: u64) -> bool {
        let sends = self.sends();
        if sends {
            let (now, sent) = (self.now, self.now);
            self.events.push(Reverse((now + first_data, Event::FirstData { sent })));
            self.events.push(Reverse((now + length, Event::End { sent })));
        }
        sends
    }

    /// One that is no stream is sent, and answered after `service` milliseconds.
    fn calls(&mut self, service: u64) {
        assert_eq!(self.arrives(OTHER), Decision::Admit);
        self.running += 1;
        self.events.push(Reverse((self.now + service, Event::Answer { sent: self.now })));
    }

    fn ends(&mut self, kind: u64, sent: u64, ending: Ending) {
        let service = Duration::from_millis(self.now - sent);
        let class = ClassId::DEFAULT;
        let finished =
            Finished { class, kind, service, response: service, ending, together: Together::ALONE };
        self.running -= 1;
        self.tell(|law, now, backlog| law.on_finish(now, &finished, backlog));
    }

    /// Time passes until this instant.
    fn passes(&mut self, until: u64) {
        while let Some(&Reverse((due, event))) = self.events.peek()
            && due <= until
        {
            self.events.pop();
            self.now = due;
            match event {
                Event::Tick => {
                    self.tell(|law, now, backlog| law.on_tick(now, backlog));
                    self.events.push(Reverse((due + TICK, Event::Tick)));
                }
                Event::FirstData { sent } => self.moves(Change::FirstData, due - sent),
                Event::End { sent } => self.ends(STREAM, sent, Ending::Untimed),
                Event::Answer { sent } => self.ends(OTHER, sent, Ending::Completed),
            }
        }
        self.now = until;
    }

    /// Streams of some three seconds come `interval` milliseconds after one another on average, with
    /// their first data after some `first_data`, until this instant. What share of the last minute's
    /// are not sent at once.
    fn held_back(&mut self, interval: u64, first_data: u64, until: u64) -> f64 {
        let (mut held_back, mut came) = (0, 0);
        while self.now < until {
            let some = |random: &mut StdRng, millis| {
                random.random_range(millis * 9 / 10..=millis * 11 / 10)
            };
            let [first_data, length] =
                [first_data, 3000].map(|millis| some(&mut self.random, millis));
            let sent = self.streams(first_data, length);
            if self.now + 60_000 >= until {
                came += 1;
                held_back += u32::from(!sent);
            }
            let gap = -(1.0 - self.random.random::<f64>()).ln() * interval as f64;
            self.passes(self.now + gap as u64);
        }
        f64::from(held_back) / f64::from(came)
    }
}

#[test]
fn first_data_that_takes_longer_than_before_is_no_want_of_places() {
    // As after a deployment. Nothing but this tells it from streams that wait for a place.
    for (interval, first_data) in [(50, 1200), (200, 1200), (200, 1900), (1000, 1200), (1000, 700)]
    {
        let mut rig = Rig::new();
        let before = rig.held_back(interval, 100, 120_000);
        let after = rig.held_back(interval, first_data, 480_000);
        let seen = format!("{before} and {after} of {first_data} ms each {interval} ms");
        assert!(before <= 0.02 && after <= 0.02, "{seen}");
    }
}

/// Once a minute so many come at once, whose first data takes as long as is said here. Returns how
/// many of them are not sent at once; none is rejected.
fn bursts(first_data: [u64; 20]) -> [u32; 20] {
    let mut rig = Rig::new();
    first_data.map(|first_data| {
        rig.passes(rig.now + 60_000);
        let mut held_back = 0;
        for _ in 0..8 {
            if !rig.streams(first_data, 10_000) {
                assert_eq!(
                    rig.arrives(STREAM),
                    Decision::Admit,
                    "it may wait until others have data"
                );
                rig.moves(Change::Dropped, 0);
                held_back += 1;
            }
        }
        held_back
    })
}

#[test]
fn streams_that_come_seldom_are_sent_however_many_come_at_once() {
    assert_eq!(bursts([300; 20])[10..], [0; 10]);
    let mut slower = [1200; 20];
    slower[..2].fill(100);
    assert_eq!(bursts(slower)[10..], [0; 10]);
}

#[test]
fn a_stream_whose_request_came_in_pieces_waits_for_its_place_like_others() {
    let sent_in_pieces = |resumed: bool| {
        let mut rig = Rig::new();
        for _ in 0..4 {
            assert!(rig.streams(50, 100_000));
            rig.passes(rig.now + 200);
        }
        rig.passes(10_000);
        for _ in 0..8 {
            if !rig.sends() {
                break;
            }
            rig.moves(Change::Suspended, 0);
            if resumed {
                rig.passes(rig.now + 1);
                rig.moves(Change::Resumed, 0);
            }
        }
        rig.passes(11_000);
        rig.may_start()
    };
    assert!(sent_in_pieces(false), "the clients are waited for");
    assert!(!sent_in_pieces(true), "four places are taken");
}

#[test]
fn while_a_stream_flows_a_lull_is_no_pause() {
    let mut rig = Rig::new();
    assert!(rig.streams(50, 10_000_000));
    for page in 1..=20 {
        rig.passes(30_000 * page);
        for _ in 0..40 {
            rig.calls(150);
            rig.passes(rig.now + 5);
            assert_eq!(rig.stalled(), 0.0, "page {page}");
        }
    }
}

#[test]
fn what_ends_without_data_leaves_those_that_flow_where_they_are() {
    let mut rig = Rig::new();
    for _ in 0..4 {
        assert!(rig.streams(50, 100_000));
        rig.passes(rig.now + 200);
    }
    for _ in 0..4 {
        let sent = rig.now;
        assert!(rig.sends());
        rig.passes(rig.now + 100);
        // Its answer is no stream, and pauses.
        rig.ends(STREAM, sent, Ending::Untimed);
    }
    assert!(rig.sends());
    rig.passes(rig.now + 1500);
    assert!(!rig.may_start(), "four flow, and one waits");
}
