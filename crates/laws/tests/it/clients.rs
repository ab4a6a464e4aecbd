//! One client with many connections takes nothing from another one of its class: the default law
//! on a stage with workers, in closed loop.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Concurrency, Decision, Dequeue, Ending,
    Finished, Target, Timestamp, Together, Waiting,
};
use tamarisk_laws::PredictGateTrim;

const MS: Duration = Duration::from_millis(1);
const SERVICE: Duration = Duration::from_millis(100);
/// Long enough for the law to find out who asks for how much …
const WARM_UP: Duration = Duration::from_secs(5);
/// … and for a hundred requests.
const MEASURED: Duration = Duration::from_secs(30);
/// How long a greedy client waits that was rejected.
const RETRY: Duration = Duration::from_millis(20);

/// A client that asks on each of its connections again as soon as it is answered, and `pause` later.
#[derive(Clone, Copy)]
struct Client {
    connections: usize,
    pause: Duration,
    retry: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ends(usize),
    Tick,
    Asks(usize),
}

/// What became of a client's requests while it was measured.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    asked: u32,
    in_time: u32,
    work: Duration,
}

struct Waiter {
    connection: usize,
    entered: Timestamp,
}

struct Run<'a> {
    law: PredictGateTrim,
    workers: u32,
    target: Duration,
    clients: &'a [Client],
    /// The client of each connection.
    of: Vec<usize>,
    queue: VecDeque<Waiter>,
    /// When each running connection's request entered.
    running: Vec<Option<Timestamp>>,
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    seen: Vec<Seen>,
    order: u64,
    dice: u64,
}

impl<'a> Run<'a> {
    fn new(workers: u32, target: Duration, clients: &'a [Client]) -> Self {
        let classes = Classes::single(Target::p90(target).unwrap());
        let of: Vec<_> = (0..clients.len())
            .flat_map(|client| std::iter::repeat_n(client, clients[client].connections))
            .collect();
        let running = vec![None; of.len()];
        Self {
            law: PredictGateTrim::new(&classes),
            workers,
            target,
            clients,
            running,
            of,
            queue: VecDeque::new(),
            events: BinaryHeap::new(),
            seen: vec![Seen::default(); clients.len()],
            order: 0,
            dice: 7,
        }
    }

    /// Between 0 and 1.
    fn roll(&mut self) -> f64 {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) as f64 / f64::from(1_u32 << 31)
    }

    fn after(&mut self, now: Timestamp, time: Duration, event: Event) {
        self.order += 1;
        self.events.push(Reverse((now + time, self.order, event)));
    }

    fn with_backlog<R>(&mut self, act: impl FnOnce(&mut PredictGateTrim, &Backlog<'_>) -> R) -> R {
        let queued = self.queue.len() as u32;
        let running = self.running.iter().flatten().count() as u32;
        let backlog = Backlog {
            queued: &[queued],
            running: &[running],
            queued_total: queued,
            running_total: running,
            workers: Concurrency::new(self.workers),
        };
        act(&mut self.law, &backlog)
    }

    fn run(mut self) -> Vec<Seen> {
        for connection in 0..self.of.len() {
            let begins = SERVICE.mul_f64(self.roll());
            self.after(Timestamp::ZERO, begins, Event::Asks(connection));
        }
        self.after(Timestamp::ZERO, 100 * MS, Event::Tick);
        let end = Timestamp::ZERO + WARM_UP + MEASURED;
        while let Some(Reverse((now, _, event))) = self.events.pop()
            && now < end
        {
            match event {
                Event::Tick => {
                    self.with_backlog(|law, backlog| law.on_tick(now, backlog));
                    self.after(now, 100 * MS, Event::Tick);
                }
                Event::Asks(connection) => self.asks(now, connection),
                Event::Ends(connection) => self.ends(now, connection),
            }
            self.start(now);
        }
        self.seen
    }

    fn asks(&mut self, now: Timestamp, connection: usize) {
        let flow = self.of[connection] as u64 + 1;
        let arrival = Arrival { class: ClassId::DEFAULT, deadline: None, flow, kind: 0 };
        let decision = self.with_backlog(|law, backlog| law.on_arrival(now, &arrival, backlog));
        if decision == Decision::Admit {
            self.queue.push_back(Waiter { connection, entered: now });
        } else {
            self.answered(now, connection, None);
        }
    }

    fn start(&mut self, now: Timestamp) {
        while self.running.iter().flatten().count() < self.workers as usize
            && let Some(Waiter { connection, entered }) = self.queue.pop_front()
        {
            let waiting =
                Waiting { class: ClassId::DEFAULT, entered, deadline: None, flow: 0, kind: 0 };
            let dequeue = self.with_backlog(|law, backlog| law.on_dequeue(now, &waiting, backlog));
            if dequeue == Dequeue::Drop {
                self.answered(now, connection, None);
                continue;
            }
            self.running[connection] = Some(entered);
            // A tenth more or less.
            let service = SERVICE.mul_f64(0.9 + 0.2 * self.roll());
            self.seen_mut(now, connection, |seen| seen.work += service);
            self.after(now, service, Event::Ends(connection));
        }
    }

    fn ends(&mut self, now: Timestamp, connection: usize) {
        let entered = self.running[connection].take().unwrap();
        let response = now.since(entered);
        let finished = Finished {
            class: ClassId::DEFAULT,
            service: SERVICE,
            response,
            ending: Ending::Completed,
            kind: 0,
            together: Together::ALONE,
        };
        self.with_backlog(|law, backlog| law.on_finish(now, &finished, backlog));
        self.answered(now, connection, Some(response));
    }

    fn answered(&mut self, now: Timestamp, connection: usize, response: Option<Duration>) {
        let target = self.target;
        self.seen_mut(now, connection, |seen| {
            seen.asked += 1;
            seen.in_time += u32::from(response.is_some_and(|response| response <= target));
        });
        let Client { pause, retry, .. } = self.clients[self.of[connection]];
        let pause = if response.is_some() { pause } else { retry };
        // Clients are not in step.
        let pause = pause.mul_f64(0.5 + self.roll()) + Duration::from_micros(10);
        self.after(now, pause, Event::Asks(connection));
    }

    fn seen_mut(&mut self, now: Timestamp, connection: usize, note: impl FnOnce(&mut Seen)) {
        if now >= Timestamp::ZERO + WARM_UP {
            note(&mut self.seen[self.of[connection]]);
        }
    }
}

/// The share of a client's requests that are answered in time.
fn share(seen: Seen) -> f64 {
    f64::from(seen.in_time) / f64::from(seen.asked)
}

/// The share of the workers' time that was used.
fn used(workers: u32, seen: &[Seen]) -> f64 {
    let work: Duration = seen.iter().map(|seen| seen.work).sum();
    work.as_secs_f64() / MEASURED.as_secs_f64() / f64::from(workers)
}

fn greedy(connections: usize) -> Client {
    Client { connections, pause: Duration::ZERO, retry: RETRY }
}

#[test]
fn a_client_that_asks_for_less_than_its_share_is_served_as_if_it_were_alone() {
    let stages =
        [2, 3, 4, 8, 16].into_iter().flat_map(|workers| [1.25, 2.0, 5.0].map(|of| (workers, of)));
    for (workers, factor) in stages {
        for pause in [100 * MS, 300 * MS] {
            let target = SERVICE.mul_f64(factor);
            let modest = Client { connections: 1, pause, retry: pause + SERVICE };
            let alone = Run::new(workers, target, &[modest]).run()[0];
            let both = Run::new(workers, target, &[modest, greedy(20)]).run();
            let seen =
                format!("{workers} workers, {factor} x the service, pause {pause:?}: {both:?}");
            assert!(share(both[0]) >= 0.95 * share(alone), "{seen}");
            // One worker may have to wait for the modest client.
            assert!(used(workers, &both) >= 1.0 - 1.0 / f64::from(workers), "{seen}");
        }
    }
}

#[test]
fn clients_who_ask_equally_lose_nothing() {
    for (workers, factor) in [(1, 2.0), (2, 1.25), (2, 2.0), (4, 1.25), (4, 5.0), (16, 1.25)] {
        for (clients, connections) in [(1, 40), (2, 20), (4, 10), (40, 1)] {
            let clients = vec![greedy(connections); clients];
            let seen = Run::new(workers, SERVICE.mul_f64(factor), &clients).run();
            let used = used(workers, &seen);
            assert!(used >= 0.97, "{workers} workers, {factor} x the service: {used:.3}, {seen:?}");
        }
    }
}
