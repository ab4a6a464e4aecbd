//! How a stage is described before it runs.

use std::ops::RangeInclusive;
use std::time::Duration;

use tamarisk_control::catalogue::{InvalidKnob, Laws};
use tamarisk_control::{
    AdmissionLaw, BatchLaw, BatchSize, Classes, Concurrency, Knobs, PredictGateTrim, QualityLaw,
    Ratio, SlowLaws, Target, TerminationLaw, WorkersLaw,
};

use crate::clock::Clock;
use crate::core::{CoreConfig, bounds};
use crate::gate::Gate;
use crate::queue::{Discipline, Queue};

/// The promise of a stage that was given none: a second at the 90th percentile,
/// the target of the papers' first experiments [Welsh03 §4.2].
const DEFAULT_TARGET: Duration = Duration::from_secs(1);

/// The most a queue holds if its owner does not say: the law refuses long before
/// unless the target is generous, and ten thousand waiting events are a few megabytes.
const DEFAULT_QUEUE_CAPACITY: usize = 10_000;

/// How many shares the keys of a partitioned stage fall into: many more than
/// workers, so that work spreads evenly, and few enough to cost nothing.
const PARTITIONS: usize = 1024;

/// Events that a worker takes at once, unless set: enough to share the cost of
/// a lock and a wake-up, few enough that one worker does not hoard a queue.
const DEFAULT_BATCH: usize = 32;

/// Describes a stage; [`gate`](Self::gate), [`tasks`](Self::tasks),
/// [`threads`](Self::threads) and [`inline`](Self::inline) make it.
pub struct StageBuilder {
    name: String,
    classes: Option<Classes>,
    law: Option<Box<dyn AdmissionLaw>>,
    slow: SlowLaws,
    chosen: Laws,
    workers: RangeInclusive<u32>,
    capacity: usize,
    line: QueueOrder,
    batch: usize,
    clock: Clock,
}

/// In which order, and by how many at once, the queue is served.
#[derive(Clone, Copy)]
enum QueueOrder {
    Ordered(Discipline),
    Partitioned(usize),
}

impl StageBuilder {
    /// A stage with one class and a target of one second, one worker, the
    /// default law and discipline, and a queue of ten thousand.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            classes: None,
            law: None,
            slow: SlowLaws::default(),
            chosen: Laws::new(),
            workers: 1..=1,
            capacity: DEFAULT_QUEUE_CAPACITY,
            line: QueueOrder::Ordered(Discipline::default()),
            batch: DEFAULT_BATCH,
            clock: Clock::default(),
        }
    }

    /// One class of events with this target.
    #[must_use]
    pub fn target(self, target: Target) -> Self {
        self.classes(Classes::single(target))
    }

    /// The classes of events that it tells apart.
    #[must_use]
    pub fn classes(mut self, classes: Classes) -> Self {
        self.classes = Some(classes);
        self
    }

    /// Who decides on admission; by default, [`PredictGateTrim`].
    #[must_use]
    pub fn law(mut self, law: impl AdmissionLaw + 'static) -> Self {
        self.law = Some(Box::new(law));
        self
    }

    /// Who decides how many workers there are, within the
    /// [bounds](Self::workers_between); by default, they stay as they are set. This
    /// and the other slow laws take turns, each when those before it can do no more
    /// ([`Composition`](tamarisk_control::Composition)).
    #[must_use]
    pub fn workers_law(mut self, law: impl WorkersLaw + 'static) -> Self {
        self.slow.workers = Some(Box::new(law));
        self
    }

    /// Who decides on the batching factor; by default, it stays as it is set.
    #[must_use]
    pub fn batch_law(mut self, law: impl BatchLaw + 'static) -> Self {
        self.slow.batch = Some(Box::new(law));
        self
    }

    /// Who decides how well events are served; by default, in full.
    #[must_use]
    pub fn quality_law(mut self, law: impl QualityLaw + 'static) -> Self {
        self.slow.quality = Some(Box::new(law));
        self
    }

    /// Who decides how long events may run; by default, until their deadlines.
    #[must_use]
    pub fn termination_law(mut self, law: impl TerminationLaw + 'static) -> Self {
        self.slow.termination = Some(Box::new(law));
        self
    }

    /// The laws by name. They come before those that are set one by one, and with them
    /// the bounds on workers and the batching factor that they state.
    ///
    /// # Examples
    /// ```
    /// # use tamarisk_control::catalogue::{InvalidLaw, Laws};
    /// # use tamarisk_stage::StageBuilder;
    /// let laws = Laws::new()
    ///     .workers("pool-sizing", &[("workers_max_count", 32.0)])?
    ///     .quality("degradation", &[("quality_least_ratio", 0.5)])?;
    /// let builder = StageBuilder::new("thumbnails").laws(laws);
    /// # Ok::<(), InvalidLaw>(())
    /// ```
    #[must_use]
    pub fn laws(mut self, laws: Laws) -> Self {
        self.chosen = laws;
        self
    }

    /// Exactly this many events are worked on at once.
    #[must_use]
    pub fn workers(self, workers: u32) -> Self {
        self.workers_between(workers..=workers)
    }

    /// Starts with the least; [`Stage::set_workers`](crate::Stage::set_workers)
    /// moves within the range.
    #[must_use]
    pub fn workers_between(mut self, workers: RangeInclusive<u32>) -> Self {
        self.workers = workers;
        self
    }

    /// The most events that the queue holds.
    #[must_use]
    pub fn queue_capacity(mut self, events: usize) -> Self {
        self.capacity = events;
        self
    }

    /// In which order the queue is served.
    #[must_use]
    pub fn discipline(mut self, discipline: Discipline) -> Self {
        self.line = QueueOrder::Ordered(discipline);
        self
    }

    /// Events of one [`flow`](crate::Entry::flow) are served in order and one at
    /// a time, those of different flows by any number of workers.
    #[must_use]
    pub fn partitioned(mut self) -> Self {
        self.line = QueueOrder::Partitioned(PARTITIONS);
        self
    }

    /// One event at a time, in order of arrival, however many workers there are.
    #[must_use]
    pub fn single_threaded(mut self) -> Self {
        self.line = QueueOrder::Partitioned(1);
        self
    }

    /// The batching factor: the most events that a worker takes at once.
    #[must_use]
    pub fn batch(mut self, events: usize) -> Self {
        self.batch = events;
        self
    }

    /// Where it reads the time.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// A stage run by its own callers.
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    pub fn gate(self) -> Result<Gate, BuildError> {
        Gate::new(self)
    }

    pub(crate) fn has_law(&self) -> bool {
        self.law.is_some()
    }

    pub(crate) fn range(&self) -> RangeInclusive<u32> {
        self.workers.clone()
    }

    pub(crate) fn batching(&self) -> usize {
        self.batch
    }

    pub(crate) fn queue<T>(&self) -> Queue<T> {
        match self.line {
            QueueOrder::Ordered(discipline) => Queue::new(discipline, &self.promised()),
            QueueOrder::Partitioned(partitions) => Queue::partitioned(partitions),
        }
    }

    pub(crate) fn is_partitioned(&self) -> bool {
        matches!(self.line, QueueOrder::Partitioned(_))
    }

    pub(crate) fn runtime(&self) -> Result<tokio::runtime::Handle, BuildError> {
        tokio::runtime::Handle::try_current()
            .map_err(|_| BuildError::NoRuntime { stage: self.name.clone() })
    }

    /// The same with the laws made that are chosen by name.
    pub(crate) fn with_named_laws(mut self) -> Result<Self, BuildError> {
        let classes = self.promised();
        let impossible = |reason: InvalidKnob| BuildError::Laws {
            stage: self.name.clone(),
            reason: reason.to_string(),
        };
        let slow = SlowLaws::named(&self.chosen, &classes).map_err(impossible)?;
        if self.chosen.admission.is_some() || self.chosen.dropping.is_some() {
            let own = self.law.take();
            let own = || own.unwrap_or_else(|| Box::new(PredictGateTrim::new(&classes)));
            self.law = Some(self.chosen.make_admission(&classes, own).map_err(impossible)?);
        }
        if let Some(workers) = &slow.workers {
            self.workers = bounds(&**workers);
        }
        if let Some(batch) = &slow.batch {
            self.batch = batch.most().get() as usize;
        }
        self.slow = slow.or(self.slow);
        Ok(self)
    }

    /// Checks the description and turns it into what a stage is made of.
    pub(crate) fn into_config(self) -> Result<CoreConfig, BuildError> {
        let classes = self.promised();
        let stage = self.name.clone();
        if self.workers.is_empty() || *self.workers.start() == 0 {
            return Err(BuildError::NoWorkers { stage });
        }
        if self.capacity == 0 {
            return Err(BuildError::NoQueue { stage });
        }
        if self.batch == 0 {
            return Err(BuildError::NoBatch { stage });
        }
        let workers = Concurrency::new(*self.workers.start());
        let batch = BatchSize::new(u32::try_from(self.batch).unwrap_or(u32::MAX));
        let settings = Knobs { workers, batch, quality: Ratio::ONE };
        let law = self.law.unwrap_or_else(|| Box::new(PredictGateTrim::new(&classes)));
        Ok(CoreConfig {
            name: self.name,
            clock: self.clock,
            ruling: self.slow.with(law, &classes, settings),
            chosen: self.chosen,
            classes,
            workers: self.workers,
            capacity: self.capacity,
        })
    }

    fn promised(&self) -> Classes {
        let default =
            || Classes::single(Target::p90(DEFAULT_TARGET).expect("a second is a target"));
        self.classes.clone().unwrap_or_else(default)
    }
}

/// Why a stage cannot be built as described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nobody would ever serve its queue.
    #[error(
        "stage {stage:?} has no workers: give it at least one, and not more at least than at most"
    )]
    NoWorkers {
        /// The stage.
        stage: String,
    },
    /// Its queue could hold nothing.
    #[error("stage {stage:?} has a queue of no capacity: give it at least one place")]
    NoQueue {
        /// The stage.
        stage: String,
    },
    /// Its workers would take nothing.
    #[error("stage {stage:?} has a batching factor of zero: give it at least one")]
    NoBatch {
        /// The stage.
        stage: String,
    },
    /// Constants of laws that were chosen by name do not go together.
    #[error("the laws of stage {stage:?} cannot be: {reason}")]
    Laws {
        /// The stage.
        stage: String,
        /// What the law says.
        reason: String,
    },
    /// Order by key needs workers that take turns, and a gate has none.
    #[error(
        "stage {stage:?} is a gate and cannot keep order by key: build it as tasks or threads, \
         or leave out what makes it partitioned or single-threaded"
    )]
    PartitionedGate {
        /// The stage.
        stage: String,
    },
    /// Stages with a queue tick and wait on an async runtime.
    #[error("stage {stage:?} is built outside of a tokio runtime: build it within one")]
    NoRuntime {
        /// The stage.
        stage: String,
    },
    /// The operating system gave no thread.
    #[error("stage {stage:?} could not start a worker thread: {reason}")]
    Thread {
        /// The stage.
        stage: String,
        /// What the system said.
        reason: String,
    },
}
