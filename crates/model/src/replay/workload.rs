//! The arrivals of a trace as a simulated workload.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::time::Duration;

use tamarisk_control::{Backlog, Change, ClassId, Decision, Dequeue, Ending, Timestamp};
use tamarisk_trace::{Event, Head, ReadError, Reader, Record};

use crate::sim::{
    Client, Discipline, Distribution, KindAt, Load, Scenario, Stage, Step, TraceArrival,
};

/// The most arrivals that are taken from a trace: 400 MB of them.
pub const ARRIVALS_MAX: usize = 10_000_000;

/// Times kept of a class to draw those of the rejected from.
const TIMES_MAX: usize = 10_000;

/// Flows that are told apart; later ones share the numbers of these.
const FLOWS_MAX: usize = 1 << 16;

/// Kinds that are told apart, as many as laws do; later ones are of no known kind.
const KINDS_MAX: usize = 64;

/// What a recorded stage was offered: arrivals, and how long those took that were served.
///
/// What was rejected or dropped live has no time of its own; it gets one that is drawn from
/// its kind's, or its class's. Deadlines are not offered again, and what the stage itself rejected
/// (its queue was full, it was draining) never came to the law and so is missing. A
/// gate counts what events wait within its upstream as service: workers and times come
/// out too large together, and what they get done comes out right.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Which law was recorded.
    pub head: Head,
    /// In order of time, beginning at zero.
    pub arrivals: Vec<TraceArrival>,
    /// How many of them were served, so that their times are known.
    pub served: usize,
    /// How many flows there are.
    pub flows: u32,
    /// The kinds of work that are told apart, each by its class; arrivals count them from 1.
    pub kinds: Vec<ClassId>,
    /// How many events the stage worked on at once: its workers, or where the law had a
    /// say in it, how many were in progress on average while others waited.
    pub workers: u32,
    /// From the first arrival to the last record.
    pub span: Duration,
    /// Whether the trace was longer than [`ARRIVALS_MAX`], or has a gap: then all ends there.
    pub cut: bool,
}

/// Why there is no workload in a trace.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It does not tell how long anything takes.
    #[error(transparent)]
    NothingServed(#[from] NothingServed),
}

/// No event of a trace was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one event of the trace was served, so nothing is known of how long they take")]
pub struct NothingServed;

impl Workload {
    /// Reads all of `trace`, or what there is of one that is cut short.
    ///
    /// # Errors
    /// [`WorkloadError`].
    pub fn read<R: Read>(trace: &mut Reader<R>) -> Result<Self, WorkloadError> {
        let mut gathered = Gathered::default();
        while let Some(record) = trace.next_complete()? {
            if matches!(record.event, Event::Gap { .. }) || gathered.arrivals.len() == ARRIVALS_MAX
            {
                gathered.cut = true;
                break;
            }
            gathered.take(&record, &trace.backlog());
        }
        Ok(gathered.workload(trace.head())?)
    }

    /// The recorded stage with so many workers, and the recorded arrivals; no law yet. A law
    /// that names a limit of its own may send them more at once, and gets no more done. The queue
    /// is served as that of an upstream is.
    pub fn scenario(&self, workers: u32) -> Scenario {
        let mut stage = Stage::new(&self.head.stage, workers, self.times(None))
            .discipline(Discipline::EarliestDue);
        let mut scenario = Scenario::new(self.head.classes.clone(), self.span);
        for (id, class) in self.head.classes.iter() {
            if let Some(times) = self.measured(|arrival| arrival.class == id) {
                stage = stage.steps_of(&class.name, [Step::own(times)]);
            }
        }
        for (number, class) in (1..).zip(&self.kinds) {
            let class = &self.head.classes.at(*class).name;
            let name = format!("kind {number} of {class}");
            if let Some(times) = self.measured(|arrival| arrival.kind == number) {
                stage = stage.kind(KindAt::new(&name).steps([Step::own(times)]));
            }
            scenario = scenario.kind(name, class);
        }
        let client = Client::new("recorded", &self.head.stage, self.load()).flows(self.flows);
        scenario.stage(stage).client(client)
    }

    /// The arrivals as the load of a client.
    pub fn load(&self) -> Load {
        Load::Trace(self.arrivals.as_slice().into())
    }

    /// The measured times of one class or of all.
    pub fn times(&self, class: Option<ClassId>) -> Distribution {
        let of_class = |arrival: &TraceArrival| class.is_none_or(|class| class == arrival.class);
        self.measured(of_class).unwrap_or_else(|| Distribution::Empirical(Vec::new().into()))
    }

    /// The times of the arrivals that are `wanted`; `None` if none of them was served.
    fn measured(&self, wanted: impl Fn(&TraceArrival) -> bool) -> Option<Distribution> {
        let wanted = self.arrivals.iter().filter(|arrival| wanted(arrival));
        let times: Vec<_> = wanted.filter_map(|arrival| arrival.service).collect();
        let step = times.len().div_ceil(TIMES_MAX).max(1);
        let is_any = !times.is_empty();
        is_any.then(|| Distribution::Empirical(times.into_iter().step_by(step).collect()))
    }
}

#[derive(Default)]
struct Gathered {
    began: Option<Timestamp>,
    latest: Timestamp,
    arrivals: Vec<TraceArrival>,
    served: usize,
    /// Admitted and not ended yet, of each class and kind and by when they came: which arrivals,
    /// the first ones last.
    inside: HashMap<(ClassId, u64), BTreeMap<u64, Vec<usize>>>,
    flows: HashMap<u64, u32>,
    /// From 1.
    kinds: HashMap<(ClassId, u64), u32>,
    crowding: Crowding,
    cut: bool,
}

impl Gathered {
    fn take(&mut self, record: &Record, backlog: &Backlog<'_>) {
        let now = record.at;
        let before = |time: Duration| now.as_nanos().saturating_sub(time.as_nanos() as u64);
        if let Event::Arrival { arrival, decision } = record.event {
            let began = *self.began.get_or_insert(now);
            let of = (arrival.class, arrival.kind);
            if decision == Decision::Admit {
                let times = self.inside.entry(of).or_default();
                times.entry(now.as_nanos()).or_default().insert(0, self.arrivals.len());
            }
            let (flow, kind) = (self.flow(arrival.flow), self.kind(of));
            // Two cores read the clock in turn: the law may be told of the later one first.
            let at = now.since(began).max(self.arrivals.last().map_or(Duration::ZERO, |a| a.at));
            let class = arrival.class;
            self.arrivals.push(TraceArrival { at, class, kind, flow, service: None });
        }
        match record.event {
            Event::Finish(finished) => {
                let arrival = self.end((finished.class, finished.kind), before(finished.response));
                // A failed or terminated event held its place for so long, no doubt, but
                // says nothing of how long the work takes.
                if matches!(finished.ending, Ending::Completed | Ending::Untimed) {
                    self.serve(arrival, finished.service);
                }
            }
            Event::Move(moved) => match moved.change {
                Change::ParkedEnded => {
                    let arrival = self.end((moved.class, moved.kind), before(moved.time));
                    self.serve(arrival, moved.time);
                }
                Change::Dropped | Change::Abandoned => {
                    self.leave((moved.class, moved.kind), before(moved.time));
                }
                _ => {}
            },
            Event::Dequeue { waiting, answer: Dequeue::Drop }
            | Event::Sweep { waiting, answer: Dequeue::Drop } => {
                self.leave((waiting.class, waiting.kind), waiting.entered.as_nanos());
            }
            _ => {}
        }
        if !matches!(record.event, Event::Order { .. } | Event::Cpu(_) | Event::Target { .. }) {
            self.latest = self.latest.max(now);
            self.crowding.advance(now, backlog, record.limit.is_some());
        }
    }

    /// The number of a flow.
    fn flow(&mut self, flow: u64) -> u32 {
        let known = self.flows.len() as u32;
        if self.flows.len() < FLOWS_MAX {
            return *self.flows.entry(flow).or_insert(known);
        }
        let shared = (flow % FLOWS_MAX as u64) as u32;
        self.flows.get(&flow).copied().unwrap_or(shared)
    }

    /// The number of a kind of a class; 0 if it is not told apart.
    fn kind(&mut self, of: (ClassId, u64)) -> u32 {
        let known = self.kinds.len();
        match self.kinds.get(&of) {
            Some(number) => *number,
            None if of.1 == 0 || known == KINDS_MAX => 0,
            None => *self.kinds.entry(of).or_insert(known as u32 + 1),
        }
    }

    /// One of this class and kind that came at this instant has left.
    fn leave(&mut self, of: (ClassId, u64), entered: u64) -> Option<usize> {
        let times = self.inside.get_mut(&of)?;
        let indices = times.get_mut(&entered)?;
        let index = indices.pop();
        if indices.is_empty() {
            times.remove(&entered);
        }
        if times.is_empty() {
            self.inside.remove(&of);
        }
        index
    }

    /// One has ended whose time says that it came at this instant. Times leave out how long an
    /// event was suspended, and those of parked ones how long they were queued: so if nobody came
    /// then, it is the nearest one before.
    fn end(&mut self, of: (ClassId, u64), entered: u64) -> Option<usize> {
        let times = self.inside.get(&of)?;
        let nearest = times.range(..=entered).next_back().or_else(|| times.first_key_value());
        let (&nearest, _) = nearest?;
        self.leave(of, nearest)
    }

    fn serve(&mut self, arrival: Option<usize>, service: Duration) {
        if let Some(index) = arrival {
            self.arrivals[index].service = Some(service);
            self.served += 1;
        }
    }

    fn workload(self, head: &Head) -> Result<Workload, NothingServed> {
        let began = self.began.filter(|_| self.served > 0).ok_or(NothingServed)?;
        let mut kinds: Vec<_> = self.kinds.into_iter().collect();
        kinds.sort_by_key(|(_, number)| *number);
        Ok(Workload {
            head: head.clone(),
            served: self.served,
            flows: self.flows.len().max(1) as u32,
            kinds: kinds.into_iter().map(|((class, _), _)| class).collect(),
            workers: self.crowding.workers(),
            // Nothing of what happens at the very end is lost.
            span: self.latest.since(began) + Duration::from_nanos(1),
            cut: self.cut,
            arrivals: self.arrivals,
        })
    }
}

/// How many were in progress while others waited.
#[derive(Default)]
struct Crowding {
    since: Option<Timestamp>,
    running: u32,
    queued: u32,
    /// Nanoseconds in which a queue stood, and the area under the running meanwhile.
    crowded: u64,
    area: u64,
    running_most: u32,
    workers: u32,
    limited: bool,
}

impl Crowding {
    fn advance(&mut self, now: Timestamp, backlog: &Backlog<'_>, limited: bool) {
        let passed = self.since.map_or(0, |since| now.since(since).as_nanos() as u64);
        if self.queued > 0 {
            self.crowded = self.crowded.saturating_add(passed);
            self.area = self.area.saturating_add(passed.saturating_mul(self.running.into()));
        }
        self.since = self.since.max(Some(now));
        self.running = backlog.running_total;
        self.queued = backlog.queued_total;
        self.running_most = self.running_most.max(self.running);
        self.workers = backlog.workers.get();
        self.limited |= limited;
    }

    fn workers(&self) -> u32 {
        let mean = (self.area as f64 / self.crowded.max(1) as f64).round() as u32;
        match (self.limited, self.crowded) {
            (false, _) => self.workers,
            (true, 0) => self.running_most.max(1),
            (true, _) => mean.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn flows_that_are_too_many_share_the_numbers_of_all_others() {
        let mut gathered = Gathered::default();
        for flow in 0..FLOWS_MAX as u64 {
            assert_eq!(u64::from(gathered.flow(1_000_000 + flow)), flow);
        }
        let more: HashSet<_> = (5_000_000..5_001_000).map(|flow| gathered.flow(flow)).collect();
        assert_eq!(more.len(), 1000);
        assert!(more.iter().all(|number| (*number as usize) < FLOWS_MAX), "{more:?}");
        assert_eq!(gathered.flow(1_000_007), 7);
    }

    #[test]
    fn kinds_that_are_too_many_are_of_no_known_kind() {
        let mut gathered = Gathered::default();
        let class = ClassId::DEFAULT;
        assert_eq!(gathered.kind((class, 0)), 0);
        for kind in 1..=KINDS_MAX as u64 {
            assert_eq!(u64::from(gathered.kind((class, 1000 * kind))), kind);
        }
        assert_eq!((gathered.kind((class, 1)), gathered.kind((class, 7000))), (0, 7));
    }
}
