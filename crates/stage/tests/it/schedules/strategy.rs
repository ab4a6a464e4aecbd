//! What a random schedule is made of.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::strategy::Union;
use tamarisk_control::ClassId;
use tamarisk_stage::{Discipline, Entry};

use super::book::Fate;

/// How the stage is built.
#[derive(Clone, Debug)]
pub(super) struct Making {
    pub(super) workers: u32,
    pub(super) capacity: usize,
    pub(super) batch: usize,
    pub(super) appetite: usize,
    pub(super) line: Line,
    pub(super) law: Ruler,
}

/// The admission law.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ruler {
    Script,
    PredictGateTrim,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    Ordered(Discipline),
    Partitioned,
    SingleThreaded,
}

/// How an event goes on its way.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) class: usize,
    pub(super) key: u8,
    pub(super) timeout: Option<u64>,
    pub(super) cost: u32,
    pub(super) fate: Fate,
}

impl Way {
    pub(super) fn entry(&self) -> Entry {
        let entry = Entry::new().class(ClassId::new(self.class)).cost(self.cost).flow(self.key);
        match self.timeout {
            Some(millis) => entry.timeout(Duration::from_millis(millis)),
            None => entry,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    TrySend(Way),
    Lossy(Way),
    Many(Vec<Way>),
    Send(Way),
    LeaveSender(usize),
    LeaveCaller(usize),
    Reserve(Way),
    Commit,
    Abort,
    Terminate(usize),
    Turn(Knob),
    Pass(u64),
    Settle,
}

#[derive(Clone, Debug)]
pub(super) enum Knob {
    Workers(u32),
    Batch(u32),
    Handlers(usize),
    Reject(bool),
    Drop(bool),
    NewestFirst(bool),
    Patience(Option<u64>),
    Guard(bool),
}

#[derive(Clone, Debug)]
pub(super) enum End {
    Close,
    Drain(u64),
}

impl End {
    pub(super) fn any() -> impl Strategy<Value = Self> {
        prop_oneof![Just(Self::Close), (0u64..2000).prop_map(Self::Drain)]
    }
}

pub(super) fn making() -> impl Strategy<Value = Making> {
    let line = prop_oneof![
        Just(Line::Ordered(Discipline::Fifo)),
        Just(Line::Ordered(Discipline::Priority)),
        Just(Line::Ordered(Discipline::AdaptiveLifo)),
        Just(Line::Ordered(Discipline::ShortestFirst)),
        Just(Line::Ordered(Discipline::FairByFlow)),
        Just(Line::Ordered(Discipline::EarliestDue)),
        Just(Line::Partitioned),
        Just(Line::SingleThreaded),
    ];
    let law = prop_oneof![3 => Just(Ruler::Script), 1 => Just(Ruler::PredictGateTrim)];
    (1u32..=4, 1usize..12, 1usize..5, 1usize..5, line, law).prop_map(
        |(workers, capacity, batch, appetite, line, law)| Making {
            workers,
            capacity,
            batch,
            appetite,
            line,
            law,
        },
    )
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..60)
}

fn step() -> Union<BoxedStrategy<Step>> {
    Union::new_weighted(vec![
        (8, way().prop_map(Step::TrySend).boxed()),
        (2, way().prop_map(Step::Lossy).boxed()),
        (3, vec(way(), 0..6).prop_map(Step::Many).boxed()),
        (4, way().prop_map(Step::Send).boxed()),
        (1, any::<usize>().prop_map(Step::LeaveSender).boxed()),
        (1, any::<usize>().prop_map(Step::LeaveCaller).boxed()),
        (2, way().prop_map(Step::Reserve).boxed()),
        (2, Just(Step::Commit).boxed()),
        (1, Just(Step::Abort).boxed()),
        (3, any::<usize>().prop_map(Step::Terminate).boxed()),
        (4, knob().prop_map(Step::Turn).boxed()),
        (6, (0u64..150).prop_map(Step::Pass).boxed()),
        (4, Just(Step::Settle).boxed()),
    ])
}

fn knob() -> Union<BoxedStrategy<Knob>> {
    Union::new_weighted(vec![
        (4, (1u32..6).prop_map(Knob::Workers).boxed()),
        (2, (0u32..6).prop_map(Knob::Batch).boxed()),
        (2, (1usize..5).prop_map(Knob::Handlers).boxed()),
        (1, any::<bool>().prop_map(Knob::Reject).boxed()),
        (1, any::<bool>().prop_map(Knob::Drop).boxed()),
        (1, any::<bool>().prop_map(Knob::NewestFirst).boxed()),
        (1, weighted(0.6, 1u64..200).prop_map(Knob::Patience).boxed()),
        (1, any::<bool>().prop_map(Knob::Guard).boxed()),
    ])
}

fn way() -> impl Strategy<Value = Way> {
    (0usize..3, 0u8..4, weighted(0.3, 0u64..120), 0u32..5, fate())
        .prop_map(|(class, key, timeout, cost, fate)| Way { class, key, timeout, cost, fate })
}

fn fate() -> impl Strategy<Value = Fate> {
    let millis = || prop_oneof![2 => Just(0u64), 3 => 1u64..60];
    prop_oneof![
        8 => millis().prop_map(Fate::Answer),
        1 => millis().prop_map(Fate::AnswerShielded),
        1 => millis().prop_map(Fate::AnswerAndErr),
        1 => millis().prop_map(Fate::LetGo),
        1 => millis().prop_map(Fate::Err),
        1 => millis().prop_map(Fate::Resign),
        1 => millis().prop_map(Fate::Panic),
        1 => Just(Fate::Forever),
    ]
}
