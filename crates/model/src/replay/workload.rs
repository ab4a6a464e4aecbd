//! The arrivals of a trace as a simulated workload.

use std::collections::HashMap;
use std::io::Read;
use std::time::Duration;

use tamarisk_control::{Backlog, ClassId, Dequeue, Ending, Timestamp};
use tamarisk_trace::{Event, Head, ReadError, Reader, Record};

use crate::sim::{Client, Discipline, Distribution, Load, Scenario, Stage, Step, TraceArrival};

/// The most arrivals that are taken from a trace: 400 MB of them.
pub const ARRIVALS_MAX: usize = 10_000_000;

/// Times kept of a class to draw those of the rejected from.
const TIMES_MAX: usize = 10_000;

/// Flows that are told apart; later ones share the numbers of these.
const FLOWS_MAX: usize = 1 << 16;

/// What a recorded stage was offered: arrivals, and how long those took that were served.
///
/// What was rejected or dropped live has no time of its own; it gets one that is drawn from
/// its class's. Deadlines are not offered again, and what the stage itself rejected
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
    /// Reads all of `trace`.
    ///
    /// # Errors
    /// [`WorkloadError`].
    pub fn read<R: Read>(trace: &mut Reader<R>) -> Result<Self, WorkloadError> {
        let mut gathered = Gathered::default();
        while let Some(record) = trace.next()? {
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
    /// that names a limit of its own may send them more at once, and gets no more done.
    pub fn scenario(&self, workers: u32) -> Scenario {
        let mut stage = Stage::new(&self.head.stage, workers, self.times(None))
            .discipline(Discipline::AdaptiveLifo);
        for (id, class) in self.head.classes.iter() {
            if self.arrivals.iter().any(|arrival| arrival.class == id && arrival.service.is_some())
            {
                stage = stage.steps_of(&class.name, [Step::own(self.times(Some(id)))]);
            }
        }
        let client = Client::new("recorded", &self.head.stage, self.load()).flows(self.flows);
        Scenario::new(self.head.classes.clone(), self.span).stage(stage).client(client)
    }

    /// The arrivals as the load of a client.
    pub fn load(&self) -> Load {
        Load::Trace(self.arrivals.as_slice().into())
    }

    /// The measured times of one class or of all.
    pub fn times(&self, class: Option<ClassId>) -> Distribution {
        let of_class = |arrival: &&TraceArrival| class.is_none_or(|class| class == arrival.class);
        let times: Vec<_> =
            self.arrivals.iter().filter(of_class).filter_map(|arrival| arrival.service).collect();
        let step = times.len().div_ceil(TIMES_MAX).max(1);
        Distribution::Empirical(times.into_iter().step_by(step).collect())
    }
}

#[derive(Default)]
struct Gathered {
    began: Option<Timestamp>,
    latest: Timestamp,
    arrivals: Vec<TraceArrival>,
    served: usize,
    /// Admitted and not ended yet: which arrivals, the first ones last.
    inside: HashMap<(ClassId, u64), Vec<usize>>,
    flows: HashMap<u64, u32>,
    crowding: Crowding,
    cut: bool,
}

impl Gathered {
    fn take(&mut self, record: &Record, backlog: &Backlog<'_>) {
        let now = record.at;
        if let Event::Arrival { arrival, decision } = record.event {
            let began = *self.began.get_or_insert(now);
            if decision == tamarisk_control::Decision::Admit {
                let key = (arrival.class, now.as_nanos());
                self.inside.entry(key).or_default().insert(0, self.arrivals.len());
            }
            let known = self.flows.len() as u32;
            let flow = match self.flows.len() < FLOWS_MAX {
                true => *self.flows.entry(arrival.flow).or_insert(known),
                false => self.flows.get(&arrival.flow).copied().unwrap_or(0),
            };
            // Two cores read the clock in turn: the law may be told of the later one first.
            let at = now.since(began).max(self.arrivals.last().map_or(Duration::ZERO, |a| a.at));
            self.arrivals.push(TraceArrival { at, class: arrival.class, flow, service: None });
        }
        match record.event {
            Event::Finish(finished) => {
                let entered = now.as_nanos().saturating_sub(finished.response.as_nanos() as u64);
                let arrival = self.leave(finished.class, entered);
                // A failed or terminated event held its place for so long, no doubt, but
                // says nothing of how long the work takes.
                if let (Some(index), Ending::Completed | Ending::Untimed) =
                    (arrival, finished.ending)
                {
                    self.arrivals[index].service = Some(finished.service);
                    self.served += 1;
                }
            }
            Event::Dequeue { waiting, answer: Dequeue::Drop }
            | Event::Sweep { waiting, answer: Dequeue::Drop } => {
                self.leave(waiting.class, waiting.entered.as_nanos());
            }
            _ => {}
        }
        if !matches!(record.event, Event::Order { .. } | Event::Cpu(_) | Event::Target { .. }) {
            self.latest = self.latest.max(now);
            self.crowding.advance(now, backlog, record.limit.is_some());
        }
    }

    fn leave(&mut self, class: ClassId, entered: u64) -> Option<usize> {
        let indices = self.inside.get_mut(&(class, entered))?;
        let index = indices.pop();
        if indices.is_empty() {
            self.inside.remove(&(class, entered));
        }
        index
    }

    fn workload(self, head: &Head) -> Result<Workload, NothingServed> {
        let began = self.began.filter(|_| self.served > 0).ok_or(NothingServed)?;
        Ok(Workload {
            head: head.clone(),
            served: self.served,
            flows: self.flows.len().max(1) as u32,
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
