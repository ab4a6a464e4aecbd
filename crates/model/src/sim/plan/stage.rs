//! Stages: queues, workers, services, and routes to other stages.

use std::time::Duration;

use tamarisk_control::{MeasuredFrom, Ratio};

use super::distribution::Distribution;
use super::profile::Profile;
use super::speed::Speed;

/// A stage: a queue, workers, a service, and where events go from here.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// What others call it.
    pub name: String,
    /// How many events it works on at once, unless a workers law says so. Where its admission law names a limit of its own, as for
    /// an upstream that cannot be seen into, so many are let through; those beyond the
    /// workers wait for one behind the stage, out of its sight, first in, first out.
    pub workers: u32,
    /// Places in its queue; who finds none is rejected whatever the law says.
    pub capacity: u32,
    /// Which queued event is next.
    pub discipline: Discipline,
    /// How fast its own workers work together.
    pub speed: Speed,
    /// How many times as long work takes that is begun at a time; 1 is as drawn.
    pub stretch: Profile,
    /// What every class is served by, in this order, while it holds a worker.
    pub service: Vec<Step>,
    /// The same for classes that differ, by name.
    pub service_of: Vec<(String, Vec<Step>)>,
    /// Where events go when they are done here; what is left of one leaves.
    pub routes: Vec<Route>,
    /// The same for classes that differ, by name.
    pub routes_of: Vec<(String, Vec<Route>)>,
    /// What each batch costs its worker besides its events, before the first of them. Without a
    /// batching law every event is a batch.
    pub batch_cost: Duration,
    /// How many events of a batch its cost is paid for once: a larger batch pays it again, before
    /// each further event that begins as many.
    pub batch_cost_covers: u32,
    /// Where the response times begin that its laws are told.
    pub measured_from: MeasuredFrom,
    /// Which share of the work falls with the quality that a law sets: of a work of 10 ms, 0.8
    /// at a quality of 0.5 leave 6 ms.
    pub degradable: Ratio,
    /// How long a worker is kept by an event that was ended early.
    pub clean_up: Duration,
    /// What is different for kinds of requests.
    pub kinds: Vec<KindAt>,
    /// Of which share of what is sent to its workers no reply ever comes: it uses no worker, and
    /// has failed after [`answer_time`](Self::answer_time).
    pub lost: Ratio,
    /// From when until when everything that is sent to its workers is lost in that way.
    pub outages: Vec<(Duration, Duration)>,
    /// For how long a reply is waited for that never comes.
    pub answer_time: Duration,
    /// From when until when its work stands still; it goes on after. Work on resources that
    /// stages share goes on meanwhile.
    pub pauses: Vec<(Duration, Duration)>,
}

impl Stage {
    /// The places in the queue of a stage that states none: far more than fits into any
    /// target, and not much memory (150 MB).
    pub const CAPACITY: u32 = 1_000_000;

    /// For how long a stage that states nothing waits for a reply that never comes, as the
    /// proxy does.
    pub const ANSWER_TIME: Duration = Duration::from_secs(60);

    /// So many workers that nobody waits for one: as many as requests can be inside.
    pub const UNLIMITED: u32 = 1 << 24;

    /// A first-in-first-out stage that works on each event for a time drawn from
    /// `service`, and from which events leave.
    pub fn new(name: impl Into<String>, workers: u32, service: Distribution) -> Self {
        Self {
            name: name.into(),
            workers,
            capacity: Self::CAPACITY,
            discipline: Discipline::Fifo,
            speed: Speed::Full,
            stretch: Profile::constant(1.0),
            service: vec![Step::own(service)],
            service_of: Vec::new(),
            routes: Vec::new(),
            routes_of: Vec::new(),
            batch_cost: Duration::ZERO,
            batch_cost_covers: u32::MAX,
            measured_from: MeasuredFrom::default(),
            degradable: Ratio::ONE,
            clean_up: Duration::ZERO,
            kinds: Vec::new(),
            lost: Ratio::ZERO,
            outages: Vec::new(),
            answer_time: Self::ANSWER_TIME,
            pauses: Vec::new(),
        }
    }

    /// With this order of service.
    #[must_use]
    pub fn discipline(mut self, discipline: Discipline) -> Self {
        self.discipline = discipline;
        self
    }

    /// With so many places in the queue.
    #[must_use]
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.capacity = capacity;
        self
    }

    /// With workers that slow each other.
    #[must_use]
    pub fn speed(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }

    /// With work that takes longer at some times.
    #[must_use]
    pub fn stretch(mut self, stretch: Profile) -> Self {
        self.stretch = stretch;
        self
    }

    /// With these steps for every class that has none of its own.
    #[must_use]
    pub fn steps(mut self, steps: impl Into<Vec<Step>>) -> Self {
        self.service = steps.into();
        self
    }

    /// With these steps for events of the class named `class`.
    #[must_use]
    pub fn steps_of(mut self, class: impl Into<String>, steps: impl Into<Vec<Step>>) -> Self {
        self.service_of.push((class.into(), steps.into()));
        self
    }

    /// With the share `probability` of all classes without routes of their own going
    /// on to the stage named `to`.
    #[must_use]
    pub fn route(mut self, to: impl Into<String>, probability: f64) -> Self {
        self.routes.push(Route { to: to.into(), probability });
        self
    }

    /// With this cost of each batch, besides its events.
    #[must_use]
    pub fn batch_cost(mut self, batch_cost: Duration) -> Self {
        self.batch_cost = batch_cost;
        self
    }

    /// With so many events of a batch for which its cost is paid once. None is taken for one.
    #[must_use]
    pub fn batch_cost_covers(mut self, events: u32) -> Self {
        self.batch_cost_covers = events;
        self
    }

    /// With its laws told response times that begin here.
    #[must_use]
    pub fn measured_from(mut self, from: MeasuredFrom) -> Self {
        self.measured_from = from;
        self
    }

    /// With this share of the work falling with the quality.
    #[must_use]
    pub fn degradable(mut self, degradable: Ratio) -> Self {
        self.degradable = degradable;
        self
    }

    /// With workers that are kept so long by an event that was ended early.
    #[must_use]
    pub fn clean_up(mut self, clean_up: Duration) -> Self {
        self.clean_up = clean_up;
        self
    }

    /// With this difference for a kind of requests.
    #[must_use]
    pub fn kind(mut self, own: KindAt) -> Self {
        self.kinds.push(own);
        self
    }

    /// With this share of replies that never come.
    #[must_use]
    pub fn lost(mut self, lost: Ratio) -> Self {
        self.lost = lost;
        self
    }

    /// With one more time in which everything is lost.
    #[must_use]
    pub fn outage(mut self, from: Duration, until: Duration) -> Self {
        self.outages.push((from, until));
        self
    }

    /// Waiting so long for replies that never come.
    #[must_use]
    pub fn answer_time(mut self, answer_time: Duration) -> Self {
        self.answer_time = answer_time;
        self
    }

    /// With one more time in which its work stands still.
    #[must_use]
    pub fn pause(mut self, from: Duration, until: Duration) -> Self {
        self.pauses.push((from, until));
        self
    }

    /// With these routes for events of the class named `class`.
    #[must_use]
    pub fn routes_of(mut self, class: impl Into<String>, routes: impl Into<Vec<Route>>) -> Self {
        self.routes_of.push((class.into(), routes.into()));
        self
    }
}

/// In which order a stage serves its queue: the live runtime's disciplines of the
/// same names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// First in, first out.
    #[default]
    Fifo,
    /// Classes of higher priority first; first in, first out within a priority.
    Priority,
    /// Classes of higher priority first; within a priority, from the end that the
    /// admission law names.
    AdaptiveLifo,
    /// Classes of higher priority first; within a priority, of the kinds that the admission
    /// law lets start, the one whose first event it says is due first. If none of a
    /// priority may start, the next priority is looked at.
    EarliestDue,
}

/// What is different for a kind of requests at a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct KindAt {
    /// The name of the kind.
    pub kind: String,
    /// What it is served by; as its class if that is not said.
    pub service: Option<Vec<Step>>,
    /// Whether it needs a worker. What needs none, as a long poll, begins at once and takes its
    /// time.
    pub needs_worker: bool,
    /// A stream: so long after it has a worker its first data is out, which ends its
    /// response time; it keeps the worker for its whole service.
    pub first_data: Option<Distribution>,
    /// Of which share no reply ever comes; as the stage says if that is not said.
    pub lost: Option<Ratio>,
}

impl KindAt {
    /// A kind that is as its class is.
    pub fn new(kind: impl Into<String>) -> Self {
        let kind = kind.into();
        Self { kind, service: None, needs_worker: true, first_data: None, lost: None }
    }

    /// Served by these steps.
    #[must_use]
    pub fn steps(mut self, steps: impl Into<Vec<Step>>) -> Self {
        self.service = Some(steps.into());
        self
    }

    /// Without a worker.
    #[must_use]
    pub fn without_worker(mut self) -> Self {
        self.needs_worker = false;
        self
    }

    /// A stream whose first data is out so long after it has a worker.
    #[must_use]
    pub fn first_data(mut self, after: Distribution) -> Self {
        self.first_data = Some(after);
        self
    }
}

/// One part of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The name of the resource that it needs; none for the worker alone.
    pub on: Option<String>,
    /// How long it takes at full speed.
    pub work: Distribution,
}

impl Step {
    /// Work that only the worker does.
    pub const fn own(work: Distribution) -> Self {
        Self { on: None, work }
    }

    /// Work that the worker waits for while `resource` does it.
    pub fn on(resource: impl Into<String>, work: Distribution) -> Self {
        Self { on: Some(resource.into()), work }
    }
}

/// Where a share of a stage's events goes next.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The next stage's name.
    pub to: String,
    /// Which share of the events goes there.
    pub probability: f64,
}
