//! What is simulated, as plain data: stages, resources, clients, classes, time.

use std::sync::Arc;
use std::time::Duration;

use tamarisk_control::{ClassId, Classes, GlobalLaw, Ratio};
use tamarisk_laws::catalogue::Named;

use super::distribution::Distribution;
use super::profile::Profile;
use super::speed::Speed;

/// Everything that a simulation is made of, except the stages' laws and the seed. Plain
/// data: [`Simulation::new`](crate::sim::Simulation::new) says what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What requests are told apart by; their targets are for the whole way through.
    pub classes: Classes,
    /// What laws tell apart besides.
    pub kinds: Vec<Kind>,
    /// Where they go.
    pub stages: Vec<Stage>,
    /// What stages share.
    pub resources: Vec<Resource>,
    /// Whom they come from.
    pub clients: Vec<Client>,
    /// The law over all stages together, if there is one.
    pub global: Option<Named<dyn GlobalLaw>>,
    /// What happens in this time counts for nothing but the state it leaves.
    pub warm_up: Duration,
    /// How long is measured after that.
    pub duration: Duration,
    /// Into so many parts the measured time is cut for confidence intervals by
    /// batch means, at most [`BATCHES_MAX`].
    pub batches: u32,
    /// How often the governors of the stages tick.
    pub tick: Duration,
}

/// More parts than this would be too short to be independent.
pub const BATCHES_MAX: u32 = 1000;

impl Scenario {
    /// An empty scenario: no warm-up, twenty batches, a tick each 100 ms as the live
    /// runtime's governor has it.
    pub fn new(classes: Classes, duration: Duration) -> Self {
        Self {
            classes,
            kinds: Vec::new(),
            stages: Vec::new(),
            resources: Vec::new(),
            clients: Vec::new(),
            global: None,
            warm_up: Duration::ZERO,
            duration,
            batches: 20,
            tick: Duration::from_millis(100),
        }
    }

    /// With one more kind of requests, of the class named `class`.
    #[must_use]
    pub fn kind(mut self, name: impl Into<String>, class: impl Into<String>) -> Self {
        self.kinds.push(Kind { name: name.into(), class: class.into() });
        self
    }

    /// With one more stage.
    #[must_use]
    pub fn stage(mut self, stage: Stage) -> Self {
        self.stages.push(stage);
        self
    }

    /// With one more shared resource.
    #[must_use]
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// With one more group of clients.
    #[must_use]
    pub fn client(mut self, client: Client) -> Self {
        self.clients.push(client);
        self
    }

    /// With this law over all stages together.
    #[must_use]
    pub fn global(mut self, law: Named<dyn GlobalLaw>) -> Self {
        self.global = Some(law);
        self
    }

    /// With this time before the measured one.
    #[must_use]
    pub fn warm_up(mut self, warm_up: Duration) -> Self {
        self.warm_up = warm_up;
        self
    }
}

/// A kind of requests: those of one kind take about as long. Laws see the place of the kind in
/// the scenario, counted from 1, and 0 for requests of no kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What mixes and stages call it; no class has the same name.
    pub name: String,
    /// The name of its class.
    pub class: String,
}

/// A stage: a queue, workers, a service, and where events go from here.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// What others call it.
    pub name: String,
    /// How many events it works on at once, unless a workers law says so. Where its admission law names a limit of its own, as for
    /// an upstream that cannot be seen into, so many are let through; those beyond the
    /// workers wait for one behind the stage, out of its sight, first in, first out.
    pub workers: u32,
    /// Places in its queue; who finds none is refused whatever the law says.
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

/// Something that stages share.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// What steps call it.
    pub name: String,
    /// How it is shared.
    pub kind: ResourceKind,
}

/// How a resource is shared.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceKind {
    /// All work at once, each with the same speed: cores of a processor.
    Shared(Speed),
    /// So many at once at full speed, the others wait first in, first out: the
    /// connections of a database, or the workers of an upstream that nobody sees into.
    Pool(u32),
}

impl Resource {
    /// So many cores, in equal parts for all who compute.
    pub fn cores(name: impl Into<String>, cores: f64) -> Self {
        Self { name: name.into(), kind: ResourceKind::Shared(Speed::Cores(cores)) }
    }

    /// So many connections, each for one at a time.
    pub fn pool(name: impl Into<String>, connections: u32) -> Self {
        Self { name: name.into(), kind: ResourceKind::Pool(connections) }
    }
}

/// A group of clients that behave alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// What errors call it.
    pub name: String,
    /// The stage that its requests enter by.
    pub entry: String,
    /// Of which class or kind they are, by name, with their shares. Empty: all of the first
    /// class, and of no kind.
    pub mix: Vec<(String, f64)>,
    /// When they come.
    pub load: Load,
    /// From how many flows, all alike (a closed load has one a user). Laws are told of
    /// flows if any client of the scenario has several; who has one counts as one then.
    pub flows: u32,
    /// What a refused one does.
    pub retry: Retry,
    /// After so long an answer is of no use to the client: each attempt's deadline.
    /// What has passed it is not started any more; what runs is ended where there is a
    /// termination law.
    pub patience: Option<Duration>,
    /// After how long the client leaves, without a word before. If its request is still queued
    /// it is taken out, and counted as dropped; if it runs, the stage goes on to its end, and it
    /// counts as terminated. Not for clients that wait for an answer before they go on.
    pub leaves: Option<Distribution>,
    /// Which share of the requests the first flow sends, if it is not as the others. Open
    /// clients only.
    pub greedy: Option<Ratio>,
}

impl Client {
    /// Clients of one flow and the first class, that do not try again.
    pub fn new(name: impl Into<String>, entry: impl Into<String>, load: Load) -> Self {
        Self {
            name: name.into(),
            entry: entry.into(),
            mix: Vec::new(),
            load,
            flows: 1,
            retry: Retry::never(),
            patience: None,
            leaves: None,
            greedy: None,
        }
    }

    /// A Poisson stream of so many requests a second.
    pub fn poisson(name: impl Into<String>, entry: impl Into<String>, per_second: f64) -> Self {
        Self::new(name, entry, Load::poisson(Profile::constant(per_second)))
    }

    /// With `share` of the requests of the class or kind named `class`.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>, share: f64) -> Self {
        self.mix.push((class.into(), share));
        self
    }

    /// With requests from so many flows.
    #[must_use]
    pub fn flows(mut self, flows: u32) -> Self {
        self.flows = flows;
        self
    }

    /// With these manners after a refusal.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Leaving after so long.
    #[must_use]
    pub fn leaves(mut self, after: Distribution) -> Self {
        self.leaves = Some(after);
        self
    }

    /// With the first of the flows sending this share of the requests.
    #[must_use]
    pub fn greedy(mut self, share: Ratio) -> Self {
        self.greedy = Some(share);
        self
    }

    /// With this patience.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }
}

/// When requests come.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Open: they come whether others are answered or not.
    Open {
        /// How many a second, over time.
        rate: Profile,
        /// The times between arrivals have this shape; its mean does not matter.
        gaps: Distribution,
    },
    /// Partly open: sessions come as requests of an open load do; each makes a
    /// request, waits for its end, and then thinks and makes another, or leaves.
    Sessions {
        /// How many sessions begin a second, over time.
        rate: Profile,
        /// The shape of the times between them.
        gaps: Distribution,
        /// The probability of one more request after each.
        stay: Ratio,
        /// How long a session thinks before it.
        think: Distribution,
    },
    /// Closed: each of a number of users makes a request, waits for its end, thinks,
    /// and makes the next.
    Closed {
        /// How many there are from which time on. New ones make their first request
        /// within a millisecond; ones too many leave when they have thought.
        users: Vec<(Duration, u32)>,
        /// How long each thinks.
        think: Distribution,
    },
    /// As it was once recorded. Classes and flows are the recorded ones, not the
    /// client's.
    Trace(Arc<[TraceArrival]>),
}

impl Load {
    /// A Poisson process of this rate.
    pub fn poisson(rate: Profile) -> Self {
        Self::Open { rate, gaps: Distribution::Exponential(Duration::from_secs(1)) }
    }

    /// `count` users from the beginning to the end.
    pub fn users(count: u32, think: Distribution) -> Self {
        Self::Closed { users: vec![(Duration::ZERO, count)], think }
    }
}

/// One arrival of a recorded trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceArrival {
    /// When it came, since the beginning.
    pub at: Duration,
    /// Of which class.
    pub class: ClassId,
    /// Whose it was: below the client's number of flows.
    pub flow: u32,
    /// How long the first step at the entry took, if that was recorded; if not it is drawn.
    pub service: Option<Duration>,
}

/// What a client does whose request was rejected, dropped or terminated.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// How often it asks again; then it gives up.
    pub attempts_max: u32,
    /// How long it waits before the first time.
    pub pause: Distribution,
    /// How many times as long before each further one, at least 1.
    pub growth: f64,
    /// It never waits longer than this.
    pub pause_max: Duration,
    /// Whether it heeds the time that the rejection names.
    pub heed: Heed,
}

/// Whether a client heeds the `Retry-After` of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heed {
    /// It waits at least so long, whatever its own pause.
    RetryAfter,
    /// It waits for its own pause only.
    Nothing,
}

impl Retry {
    /// It takes no for an answer.
    pub fn never() -> Self {
        Self::backoff(0, Distribution::Constant(Duration::ZERO), 1.0)
    }

    /// Up to `attempts_max` times after a pause that grows by the factor `growth`, up
    /// to a minute, with no regard to what the rejection says.
    pub fn backoff(attempts_max: u32, pause: Distribution, growth: f64) -> Self {
        let pause_max = Duration::from_secs(60);
        Self { attempts_max, pause, growth, pause_max, heed: Heed::Nothing }
    }
}
