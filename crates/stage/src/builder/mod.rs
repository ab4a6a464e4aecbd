//! The builder of stages.

mod classes;

use std::error::Error;
use std::ops::RangeInclusive;
use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, BatchLaw, Class, Classes, MeasuredFrom, Priority, QualityLaw, Ratio, Target,
    TerminationLaw, WorkersLaw,
};
use tamarisk_laws::{
    Coordination, Degradation, InvalidKnob, Laws, ResourceBounds, SlowLaws, StageLaws,
};

use crate::build_error::BuildError;
use crate::call::ExpectedErrors;
use crate::clock::Clock;
use crate::core::{CoreConfig, bounds};
use crate::panics::contained;
use crate::pool::{Limiter, PoolDescription, WorkerKind};
use crate::queue::{Discipline, Queue};

pub use classes::StageClasses;

/// The target of a stage that has none set: a second at the 90th percentile,
/// the target of the papers' first experiments [Welsh03 §4.2].
const DEFAULT_TARGET: Duration = Duration::from_secs(1);

/// The default capacity of a queue: the law rejects long before it is full,
/// unless the target is generous, and ten thousand waiting events are a few megabytes.
const DEFAULT_QUEUE_CAPACITY: usize = 10_000;

/// How many shares the keys of a partitioned stage fall into: many more than
/// workers, so that work spreads evenly, and few enough to cost nothing.
const PARTITIONS: usize = 1024;

/// Describes a stage; [`handler`](Self::handler), [`blocking_handler`](Self::blocking_handler),
/// [`event_handler`](Self::event_handler), [`gate`](Self::gate), [`tasks`](Self::tasks),
/// [`threads`](Self::threads) and [`inline`](Self::inline) make it.
pub struct StageBuilder {
    name: String,
    target: Target,
    /// Why the target that was stated last cannot be.
    invalid_target: Option<String>,
    classes: Option<StageClasses>,
    least_quality: Vec<(String, Ratio)>,
    law: Option<Box<dyn AdmissionLaw>>,
    /// Those that were named.
    slow: SlowLaws,
    /// How they act, if that is stated here.
    coordination: Option<Coordination>,
    chosen: Laws,
    measured_from: MeasuredFrom,
    /// None if not set; then a law finds how many are useful.
    workers: Option<RangeInclusive<u32>>,
    /// Those of the workers law that was chosen by name.
    bounds: Option<RangeInclusive<u32>>,
    is_gate: bool,
    capacity: usize,
    order: QueueOrder,
    /// None if not set.
    batch: Option<usize>,
    clock: Clock,
    resources: ResourceBounds,
    expected: ExpectedErrors,
}

/// In which order, and by how many at once, the queue is served.
#[derive(Clone, Copy)]
enum QueueOrder {
    Ordered(Discipline),
    Partitioned(usize),
}

impl StageBuilder {
    /// A stage with one class and a target of one second at the 90th percentile, as many
    /// workers as control finds useful, the default law and discipline, and a queue of ten
    /// thousand.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            target: Target::p90(DEFAULT_TARGET).expect("a second is a target"),
            invalid_target: None,
            classes: None,
            least_quality: Vec::new(),
            law: None,
            slow: SlowLaws::default(),
            coordination: None,
            chosen: Laws::new(),
            measured_from: MeasuredFrom::default(),
            workers: None,
            bounds: None,
            is_gate: false,
            capacity: DEFAULT_QUEUE_CAPACITY,
            order: QueueOrder::Ordered(Discipline::default()),
            batch: None,
            clock: Clock::default(),
            resources: ResourceBounds::new(),
            expected: ExpectedErrors::default(),
        }
    }

    /// The target of all classes that have none of their own. Default one second at the
    /// 90th percentile.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        self.target = target;
        self.invalid_target = None;
        self
    }

    /// The same target at the 90th percentile, as a time.
    #[must_use]
    pub fn p90(mut self, response_time: Duration) -> Self {
        match Target::p90(response_time) {
            Ok(target) => return self.target(target),
            Err(reason) => self.invalid_target = Some(reason.to_string()),
        }
        self
    }

    /// The classes of events that it tells apart: names, the most important first, or
    /// [`Classes`] with a target and a priority each. Of names, an event that states no
    /// class belongs to the last, so that importance is never a default.
    ///
    /// # Examples
    /// ```
    /// # use tamarisk_stage::{Context, Entry, Stage};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let stage = Stage::builder("greet")
    ///     .classes(["gold", "bronze"])
    ///     .handler(async |name: &str, _: Context| Ok(format!("hello, {name}")))?;
    /// let gold = stage.class("gold").ok_or("no such class")?;
    /// assert_eq!(stage.call_as("Ada", Entry::new().class(gold)).await?, "hello, Ada");
    /// assert_eq!(stage.call("Bob").await?, "hello, Bob");
    /// # tokio::task::yield_now().await;
    ///
    /// let observed = stage.observe();
    /// let [bronze, gold] = &observed.classes[..] else { panic!("two classes") };
    /// assert_eq!((gold.accounts.completed, bronze.accounts.completed), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn classes(mut self, classes: impl Into<StageClasses>) -> Self {
        self.classes = Some(classes.into());
        self
    }

    /// Under overload that more workers do not end, has the quality of its events lowered
    /// to no less than `least`, before fewer of them are served. Handlers read it as
    /// [`Context::quality`](crate::Context::quality).
    #[must_use]
    pub fn degrade_to(self, least: Ratio) -> Self {
        self.least_quality("", least)
    }

    /// The same for the class of this name, where it has a least quality of its own.
    #[must_use]
    pub fn least_quality(mut self, class: impl Into<String>, least: Ratio) -> Self {
        self.least_quality.push((class.into(), least));
        self
    }

    /// The admission law; by default [`PredictGateTrim`], and for a gate without a number of
    /// workers [`WorkLimit`], which finds how many may run at once and is for gates only. A gate
    /// with a law that sets no limit lets one event run at a time, unless
    /// [`workers`](Self::workers) says more.
    ///
    /// [`PredictGateTrim`]: tamarisk_laws::PredictGateTrim
    /// [`WorkLimit`]: tamarisk_laws::WorkLimit
    #[must_use]
    pub fn law(mut self, law: impl AdmissionLaw + 'static) -> Self {
        self.law = Some(Box::new(law));
        self
    }

    /// The law that sets how many workers there are, within the
    /// [bounds](Self::workers_between); by default [`ElasticPool`](tamarisk_laws::ElasticPool),
    /// unless a number is [stated](Self::workers).
    ///
    /// This and the other slow laws that are named here or by [`laws`](Self::laws) act as
    /// printed, each as if it were alone, unless [`coordination`](Self::coordination) says
    /// otherwise. Laws that a stage has without naming them take turns, each when those
    /// before it can do no more ([`Composition`](tamarisk_laws::Composition)).
    #[must_use]
    pub fn workers_law(mut self, law: impl WorkersLaw + 'static) -> Self {
        self.slow.workers = Some(Box::new(law));
        self
    }

    /// The law that sets the batching factor; by default none: it stays as it is set.
    #[must_use]
    pub fn batch_law(mut self, law: impl BatchLaw + 'static) -> Self {
        self.slow.batch = Some(Box::new(law));
        self
    }

    /// The law that sets the quality; by default none: events are served in full.
    #[must_use]
    pub fn quality_law(mut self, law: impl QualityLaw + 'static) -> Self {
        self.slow.quality = Some(Box::new(law));
        self
    }

    /// The law that limits how long events may run; by default none: until their deadlines.
    #[must_use]
    pub fn termination_law(mut self, law: impl TerminationLaw + 'static) -> Self {
        self.slow.termination = Some(Box::new(law));
        self
    }

    /// How the slow laws that are named act together; by default as [`Laws::coordination`] says
    /// for those that are chosen by name.
    ///
    /// # Examples
    /// ```
    /// # use tamarisk_laws::{Coordination, ElasticPool};
    /// # use std::time::Duration;
    /// # use tamarisk_control::Concurrency;
    /// # use tamarisk_stage::StageBuilder;
    /// let sizes = Concurrency::new(4)..=Concurrency::new(32);
    /// let builder = StageBuilder::new("thumbnails")
    ///     .workers_between(4..=32)
    ///     .workers_law(ElasticPool::new(sizes, 2.0, Duration::from_millis(200)))
    ///     .coordination(Coordination::Composition);
    /// ```
    #[must_use]
    pub fn coordination(mut self, coordination: Coordination) -> Self {
        self.coordination = Some(coordination);
        self
    }

    /// The laws by name. They come before those that are set one by one, and with them
    /// the bounds on workers and the batching factor that they state.
    ///
    /// # Examples
    /// ```
    /// # use tamarisk_catalogue::{ByName, InvalidLaw};
    /// # use tamarisk_laws::Laws;
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

    /// Where the response times begin that its laws are told; by default where an event enters
    /// the stage. From [`MeasuredFrom::Service`] they have the times of the stages before in
    /// them. That is for laws that steer by what they measure, such as `response-time`
    /// [Welsh03 §3.2], and not for those that predict what their own stage will take, such as
    /// the default.
    #[must_use]
    pub fn measured_from(mut self, from: MeasuredFrom) -> Self {
        self.measured_from = from;
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
        self.workers = Some(workers);
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
        self.order = QueueOrder::Ordered(discipline);
        self
    }

    /// Events of one [`flow`](crate::Entry::flow) are served in order and one at
    /// a time, those of different flows by any number of workers.
    #[must_use]
    pub fn partitioned(mut self) -> Self {
        self.order = QueueOrder::Partitioned(PARTITIONS);
        self
    }

    /// One event at a time, in order of arrival, however many workers there are.
    #[must_use]
    pub fn single_threaded(mut self) -> Self {
        self.order = QueueOrder::Partitioned(1);
        self
    }

    /// The batching factor: the most events that a worker takes at once. Unless it is stated, it
    /// is 32 where a [`Handler`](crate::Handler) takes batches, and 1 where a function
    /// handles one event after the other: those behind it in a batch would wait for it, while other
    /// workers may have nothing to do.
    #[must_use]
    pub fn batch(mut self, events: usize) -> Self {
        self.batch = Some(events);
        self
    }

    /// Errors of type `E` for which `is_answer` holds are answers: the event has completed, and laws
    /// learn from its time. So it is with what the caller did wrong, such as to ask for an item that
    /// does not exist. Without this an event whose handler returns an error has failed, and laws take
    /// it for one that was late. The caller gets the error either way.
    ///
    /// # Examples
    /// ```
    /// # use tamarisk_stage::{Context, Stage};
    /// #[derive(Debug, thiserror::Error)]
    /// #[error("there is no item {0}")]
    /// struct NoItem(u32);
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let items = Stage::builder("items")
    ///     .expects(|_: &NoItem| true)
    ///     .handler(async |id: u32, _: Context| if id < 9 { Ok("box") } else { Err(NoItem(id).into()) })?;
    /// assert!(items.call(12).await.unwrap_err().downcast_ref::<NoItem>().is_some());
    /// # tokio::task::yield_now().await;
    /// assert_eq!(items.observe().total().completed, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn expects<E: Error + 'static>(
        mut self,
        is_answer: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.expected = self.expected.and(is_answer);
        self
    }

    /// The clock that it reads.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// While one of these resources is used above its bound, rejects arrivals before the admission law
    /// is asked, the lowest class first, with the reason
    /// [`ResourceScarce`](tamarisk_control::Reason::ResourceScarce); by default nothing is bounded.
    /// Bound the stage that uses the resource: others go on. While it holds no event itself it
    /// admits whatever is scarce. See [`ResourceGuard`].
    ///
    /// [`ResourceGuard`]: tamarisk_laws::ResourceGuard
    ///
    /// # Examples
    /// ```
    /// use tamarisk_control::Ratio;
    /// use tamarisk_laws::ResourceBounds;
    /// use tamarisk_stage::{Context, Stage};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let bounds = ResourceBounds::new().memory(Ratio::new(0.9)?).descriptors(Ratio::new(0.8)?);
    /// let store = Stage::builder("store")
    ///     .classes(["gold", "bronze"])
    ///     .resources(bounds)
    ///     .handler(async |blob: Vec<u8>, _: Context| Ok(blob.len()))?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn resources(mut self, bounds: ResourceBounds) -> Self {
        self.resources = bounds;
        self
    }

    /// Refuses slow laws, for what has nothing that they could set.
    pub(crate) fn without_slow_laws(self) -> Result<Self, BuildError> {
        let SlowLaws { workers, batch, quality, termination } = &self.slow;
        let named = [
            ("workers", workers.is_some()),
            ("batching", batch.is_some()),
            ("quality", quality.is_some() || !self.least_quality.is_empty()),
            ("termination", termination.is_some()),
        ];
        match named.into_iter().find(|(_, is_named)| *is_named) {
            None => Ok(self),
            Some((rules, _)) => Err(BuildError::InlineLaws { stage: self.name, rules }),
        }
    }

    pub(crate) fn has_law(&self) -> bool {
        self.law.is_some()
    }

    /// For a gate: unless their number is stated, a law says how many callers may run at once.
    pub(crate) fn for_gate(mut self) -> Self {
        self.is_gate = true;
        self
    }

    /// How many workers there may be, once the laws are made that are chosen by name; none if
    /// where they run decides that.
    fn known_workers(&self) -> Option<RangeInclusive<u32>> {
        if let Some(known) = self.bounds.as_ref().or(self.workers.as_ref()) {
            return Some(known.clone());
        }
        if matches!(self.order, QueueOrder::Partitioned(1)) {
            return Some(1..=1);
        }
        self.slow.workers.as_ref().map(|law| bounds(&**law))
    }

    fn limiter(&self) -> Limiter {
        let is_open = self.is_gate && self.known_workers().is_none();
        if is_open { Limiter::Admission } else { Limiter::Workers }
    }

    pub(crate) fn queue<T>(&self) -> Queue<T> {
        match self.order {
            QueueOrder::Ordered(discipline) => Queue::new(discipline, &self.promised()),
            QueueOrder::Partitioned(partitions) => Queue::partitioned(partitions),
        }
    }

    pub(crate) fn is_partitioned(&self) -> bool {
        matches!(self.order, QueueOrder::Partitioned(_))
    }

    pub(crate) fn runtime(&self) -> Result<tokio::runtime::Handle, BuildError> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| BuildError::NoRuntime { stage: self.name.clone() })?;
        // There is no other way to ask whether it has timers than to make one.
        contained(|| drop(tokio::time::sleep(Duration::ZERO)))
            .map_err(|_| BuildError::NoTime { stage: self.name.clone() })?;
        Ok(runtime)
    }

    /// The same with the laws made that are chosen by name.
    pub(crate) fn with_named_laws(mut self) -> Result<Self, BuildError> {
        if let Some(reason) = self.invalid_target.take() {
            return Err(BuildError::Target { stage: self.name, reason });
        }
        let classes = self.resolve_classes()?;
        self.classes = Some(StageClasses::Whole(classes.clone()));
        let impossible = |reason: InvalidKnob| BuildError::Laws {
            stage: self.name.clone(),
            reason: reason.to_string(),
        };
        let slow = SlowLaws::named(&self.chosen, &classes).map_err(impossible)?;
        if let Some(workers) = &slow.workers {
            self.bounds = Some(bounds(&**workers));
        }
        if let Some(batch) = &slow.batch {
            self.batch = Some(batch.most().get() as usize);
        }
        self.slow = slow.or(self.slow);
        let names_law = self.chosen.admission.is_some() || self.chosen.dropping.is_some();
        if names_law {
            let limiter = self.limiter();
            let own = self.law.take();
            let own = || own.unwrap_or_else(|| limiter.default_law(&classes));
            let law = self.chosen.make_admission(&classes, own).map_err(impossible)?;
            if self.chosen.admission.is_some() {
                limiter.check(&self.name, &*law)?;
            }
            self.law = Some(law);
        }
        Ok(self)
    }

    /// Checks the description and turns it into what a stage is made of, and its workers as far
    /// as they are known.
    pub(crate) fn into_config(self) -> Result<(CoreConfig, PoolDescription), BuildError> {
        let classes = self.promised();
        let stage = self.name.clone();
        let workers = self.known_workers();
        if workers.as_ref().is_some_and(|range| range.is_empty() || *range.start() == 0) {
            return Err(BuildError::NoWorkers { stage });
        }
        if self.capacity == 0 {
            return Err(BuildError::NoQueue { stage });
        }
        if self.batch == Some(0) {
            return Err(BuildError::NoBatch { stage });
        }
        let batch = self.batch.map(|events| u32::try_from(events).unwrap_or(u32::MAX));
        let (limiter, least_quality) = (self.limiter(), self.least_qualities(&classes)?);
        let coordination = self.coordination.unwrap_or(self.chosen.coordination);
        let mut slow = StageLaws::coordinated(self.slow, coordination);
        if !self.least_quality.is_empty() {
            let least = least_quality.iter().fold(1.0, |least, ratio| ratio.get().min(least));
            let law = Degradation::new(&classes, Ratio::saturating(least));
            slow.composed.quality.get_or_insert_with(|| Box::new(law));
        }
        let law = self.law.unwrap_or_else(|| limiter.default_law(&classes));
        let pool =
            PoolDescription { workers: workers.clone(), batch, slow, classes: classes.clone() };
        let config = CoreConfig {
            name: self.name,
            clock: self.clock,
            law,
            measured_from: self.measured_from,
            chosen: self.chosen,
            classes,
            stated: self.workers,
            // Until it is known where they run, as many as of threads.
            workers: workers.unwrap_or_else(|| WorkerKind::Threads.range()),
            least_quality,
            resources: self.resources,
            expected: self.expected,
            capacity: self.capacity,
        };
        Ok((config, pool))
    }

    /// The classes, once [`resolve_classes`](Self::resolve_classes) has checked them.
    fn promised(&self) -> Classes {
        self.resolve_classes().expect("classes are checked when laws are made")
    }

    fn resolve_classes(&self) -> Result<Classes, BuildError> {
        let names = match &self.classes {
            None => return Ok(Classes::single(self.target)),
            Some(StageClasses::Whole(classes)) => return Ok(classes.clone()),
            Some(StageClasses::Named(names)) => names,
        };
        let class = |(priority, name): (usize, &String)| Class {
            name: name.clone(),
            target: self.target,
            // More classes than there are priorities are too many classes.
            priority: Priority(u8::try_from(priority).unwrap_or(u8::MAX)),
        };
        let mut classes: Vec<_> = names.iter().enumerate().map(class).collect();
        // The first is the default.
        classes.reverse();
        Classes::new(classes)
            .map_err(|reason| BuildError::Classes { stage: self.name.clone(), reason })
    }

    /// Of each class: what is stated for it, or full where it is stated for others only.
    fn least_qualities(&self, classes: &Classes) -> Result<Vec<Ratio>, BuildError> {
        let unstated = if self.least_quality.is_empty() { Ratio::ZERO } else { Ratio::ONE };
        let mut least = vec![unstated; classes.len()];
        for (_, of_all) in self.least_quality.iter().filter(|(name, _)| name.is_empty()) {
            least.fill(*of_all);
        }
        for (name, of_class) in self.least_quality.iter().filter(|(name, _)| !name.is_empty()) {
            let unknown =
                || BuildError::UnknownClass { stage: self.name.clone(), class: name.clone() };
            least[classes.named(name).ok_or_else(unknown)?.index()] = *of_class;
        }
        Ok(least)
    }
}
