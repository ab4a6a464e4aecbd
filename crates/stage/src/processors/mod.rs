//! Stages that share processors: whose turn it is, and one law for all of them.

mod law;
mod turns;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use tamarisk_control::{AdmissionLaw, Class, ClassId, Classes, Concurrency, InvalidClasses};
use tamarisk_laws::PredictGateTrim;
use tamarisk_laws::catalogue::{InvalidKnob, Laws};

use crate::builder::{BuildError, GATE_LAW};
use crate::clock::Clock;

use law::{Judge, StageLaw};
pub(crate) use turns::Rank;
use turns::Turns;

/// Processors that several stages share, whose events are work for a processor.
///
/// Stages know their own queue and workers only. Those which wait for each other all the same,
/// because they work on the same processors, each admit as much as these could do alone, and a
/// stage's less important events are served before the more important ones of another.
/// Stages that are [built with](crate::StageBuilder::share) the same `SharedProcessors`
/// - together work on as many events at once as there are processors. Whose turn it is, the
///   priority of the class says, and among equals who is due earlier;
/// - are ruled by one admission law, which knows what waits in all of them. Each keeps its queue,
///   its targets, its accounts and its slow laws.
///
/// An event that [calls](crate::Context::call) another stage gives its turn back, and goes on without
/// one. For events that wait for other things, such as a database server, build stages without it, or
/// let them [give their turn back](crate::Context::release_processor).
///
/// Build the stages before they serve: with each one that joins the law begins anew, without what it
/// has learned.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use tamarisk_stage::{Context, SharedProcessors, Stage};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let processors = SharedProcessors::all();
/// let builder = |name: &str| Stage::builder(name).classes(["gold", "bronze"]).share(&processors);
/// let thumbnail = builder("thumbnail")
///     .p90(Duration::from_millis(50))
///     .blocking_handler(|size: u32, _: Context| Ok(vec![0_u8; (size * size) as usize]))?;
/// let checksum = builder("checksum")
///     .p90(Duration::from_secs(1))
///     .blocking_handler(|file: Vec<u8>, _: Context| Ok(file.iter().map(|&b| u64::from(b)).sum::<u64>()))?;
///
/// let image = thumbnail.call(16).await?;
/// assert_eq!(checksum.call(image).await?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedProcessors {
    shared: Arc<Shared>,
    count: Concurrency,
}

/// A stage of which a worker may have to be woken.
pub(crate) trait AwaitsTurn: Send + Sync {
    /// Wakes a worker for a turn that was granted, or declines it if none can make use of it.
    fn wake(&self);
}

/// What the stages share.
struct Shared {
    turns: Mutex<Turns>,
    /// None before the first stage has joined.
    judge: Mutex<Option<Judge>>,
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    list: Vec<Member>,
    /// The choice of all of them, as far as it is about admission.
    laws: Laws,
    clock: Clock,
}

struct Member {
    stage: Option<Weak<dyn AwaitsTurn>>,
    /// Among those of all stages.
    classes: Range<usize>,
    is_gone: bool,
}

/// A stage's part in it, until the stage is closed.
pub(crate) struct Membership {
    shared: Arc<Shared>,
    member: usize,
    part: Arc<Part>,
}

/// The part of a stage in the law.
struct Part {
    classes: Range<usize>,
    /// Written and read under the law's lock: then its place may be another stage's.
    has_left: AtomicBool,
}

impl SharedProcessors {
    /// So many processors; of 0, one.
    pub fn new(count: u32) -> Self {
        let count = Concurrency::new(count);
        let shared = Shared {
            turns: Mutex::new(Turns::new(count)),
            judge: Mutex::new(None),
            members: Mutex::default(),
        };
        Self { shared: Arc::new(shared), count }
    }

    /// Those that this process may use.
    pub fn all() -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count.get()
    }

    /// A stage joins. The law begins anew with that.
    pub(crate) fn join(
        &self,
        stage: &str,
        classes: &Classes,
        laws: &Laws,
        clock: &Clock,
    ) -> Result<Membership, BuildError> {
        let stage = || stage.to_owned();
        let mut members = self.shared.members.lock();
        let laws = of_admission(laws);
        if members.list.iter().any(|member| !member.is_gone) {
            if laws != members.laws {
                return Err(BuildError::SharedLaws { stage: stage() });
            }
            if !clock.is_like(&members.clock) {
                return Err(BuildError::SharedClock { stage: stage() });
            }
        }
        let mut judge = self.shared.judge.lock();
        members.shorten();
        let (member, own) = members.slot(classes.len());
        let count = members.classes().max(own.end);
        let all = with_stage(judge.as_ref().map(Judge::classes), count, &own, classes)
            .map_err(|reason| BuildError::Classes { stage: stage(), reason })?;
        let law = law_for(&laws, &all)
            .map_err(|reason| BuildError::Laws { stage: stage(), reason: reason.to_string() })?;
        if law.name() == GATE_LAW {
            return Err(BuildError::GateLaw { stage: stage() });
        }
        match &mut *judge {
            Some(judge) => judge.follow(law, all),
            None => *judge = Some(Judge::new(law, all, self.count)),
        }
        let joined = Member { stage: None, classes: own.clone(), is_gone: false };
        match members.list.get_mut(member) {
            Some(left) => *left = joined,
            None => members.list.push(joined),
        }
        self.shared.turns.lock().make_room(members.list.len());
        members.clock = clock.clone();
        members.laws = laws;
        let part = Arc::new(Part { classes: own, has_left: AtomicBool::new(false) });
        Ok(Membership { shared: Arc::clone(&self.shared), member, part })
    }
}

impl Members {
    /// Forgets those at the end that are gone.
    fn shorten(&mut self) {
        while self.list.pop_if(|last| last.is_gone).is_some() {}
    }

    /// How many classes they have together.
    fn classes(&self) -> usize {
        self.list.last().map_or(0, |last| last.classes.end)
    }

    /// Where a stage with so many classes can join, and which of all classes are its own: in the
    /// place of one that is gone, if that had as many.
    fn slot(&self, classes: usize) -> (usize, Range<usize>) {
        let left = |member: &Member| member.is_gone && member.classes.len() == classes;
        match self.list.iter().position(left) {
            Some(slot) => (slot, self.list[slot].classes.clone()),
            None => (self.list.len(), self.classes()..self.classes() + classes),
        }
    }
}

impl Membership {
    /// Says whom to wake for a turn.
    pub(crate) fn attach(&self, stage: Weak<dyn AwaitsTurn>) {
        self.shared.members.lock().list[self.member].stage = Some(stage);
    }

    /// The law of all stages, for this one to ask.
    pub(crate) fn law(&self) -> Box<dyn AdmissionLaw> {
        Box::new(StageLaw { shared: Arc::clone(&self.shared), part: Arc::clone(&self.part) })
    }

    /// Whether a worker would get a turn now for an event of this rank. If not, one is woken when
    /// the turn has come.
    pub(crate) fn is_free_for(&self, rank: Rank) -> bool {
        self.shared.turns.lock().is_free_for(self.member, rank)
    }

    /// Takes a turn, if there is one for an event of this rank.
    pub(crate) fn take(&self, rank: Rank) -> bool {
        self.shared.turns.lock().take(self.member, rank)
    }

    /// Gives a turn back. It is kept for `next`, the first event of the stage, if that is first
    /// among those of all stages. To be followed by [`pass_on`](Self::pass_on).
    pub(crate) fn give_back(&self, next: Option<Rank>) {
        self.shared.turns.lock().give_back(self.member, next);
    }

    /// No worker of the stage can make use of a turn. To be followed by
    /// [`pass_on`](Self::pass_on).
    pub(crate) fn decline(&self) {
        self.shared.turns.lock().decline(self.member);
    }

    /// Gives free turns to the stages that wait for them. It takes their locks: nobody calls it
    /// under one.
    pub(crate) fn pass_on(&self) {
        loop {
            let Some(member) = self.shared.turns.lock().grant() else { return };
            let stage =
                self.shared.members.lock().list.get(member).and_then(|member| member.stage.clone());
            // One that is gone declines when it is dropped.
            if let Some(stage) = stage.and_then(|stage| stage.upgrade()) {
                stage.wake();
            }
        }
    }

    /// The stage is closed: what was in it counts no more.
    pub(crate) fn leave(&self) {
        let mut judge = self.shared.judge();
        if !self.part.has_left.swap(true, Ordering::Relaxed) {
            judge.forget(self.part.classes.clone());
        }
    }
}

impl Drop for Membership {
    /// No worker of the stage is left: its place is free.
    fn drop(&mut self) {
        self.leave();
        self.decline();
        self.shared.members.lock().list[self.member].is_gone = true;
        self.pass_on();
    }
}

impl Shared {
    /// The law. A stage has joined.
    fn judge(&self) -> MappedMutexGuard<'_, Judge> {
        MutexGuard::map(self.judge.lock(), |judge| judge.as_mut().expect("a stage has joined"))
    }
}

/// What of a choice of laws all stages have in common.
fn of_admission(laws: &Laws) -> Laws {
    let Laws { admission, dropping, .. } = laws.clone();
    Laws { admission, dropping, ..Laws::new() }
}

fn law_for(laws: &Laws, all: &Classes) -> Result<Box<dyn AdmissionLaw>, InvalidKnob> {
    laws.make_admission(all, || Box::new(PredictGateTrim::new(all)))
}

/// So many classes: those of `stage` at `own`, the others as they are known.
fn with_stage(
    known: Option<&Classes>,
    count: usize,
    own: &Range<usize>,
    stage: &Classes,
) -> Result<Classes, InvalidClasses> {
    let source = |index: usize| match known {
        Some(known) if !own.contains(&index) => (known, ClassId::new(index)),
        _ => (stage, ClassId::new(index - own.start)),
    };
    let class = |index: usize| {
        let (classes, id) = source(index);
        // Two stages may have classes of one name.
        Class { name: index.to_string(), ..classes.at(id).clone() }
    };
    let all = Classes::new((0..count).map(class).collect())?;
    let weight = |index: usize| {
        let (classes, id) = source(index);
        Some((ClassId::new(index), classes.weight(id)?))
    };
    let weights = (0..count).filter_map(weight);
    Ok(weights.fold(all, |all, (id, weight)| all.weighted(id, weight)))
}
