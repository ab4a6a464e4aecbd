//! A scenario that was found sound, with names made into indices and distributions
//! into what can be drawn from.

use std::sync::Arc;
use std::time::Duration;

use tamarisk_control::{ClassId, Classes, Concurrency, GlobalLaw, Ratio};
use tamarisk_laws::catalogue::Named;

use super::distribution::{Distribution, InvalidDistribution, Sampler, Shares, add_up};
use super::invalid::{ClientProblem, InvalidScenario, ResourceProblem, StageProblem};
use super::profile::{Curve, Profile};
use super::scenario::{
    BATCHES_MAX, Client, Discipline, Heed, KindAt, Load, Resource, ResourceKind, Retry, Route,
    Scenario, Stage, Step, TraceArrival,
};
use super::speed::Speed;
use crate::sim::run::calendar::NANOS_MAX;
use crate::sim::run::global::GlobalRun;
use crate::sim::run::upstream::{SortPlan, Spans, UpstreamPlan};

/// Stages, resources or groups of clients: more than any service has.
const PARTS_MAX: usize = 1000;
/// Accounts are kept for each flow.
const FLOWS_MAX: u32 = 1 << 20;
/// Steps of one service.
const STEPS_MAX: usize = 100;
/// Retries of one request.
const ATTEMPTS_MAX: u32 = 1000;

/// Out of the network.
pub(in crate::sim) const EXIT: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(in crate::sim) struct Plan {
    pub(in crate::sim) classes: Classes,
    pub(in crate::sim) stages: Box<[StagePlan]>,
    /// Of all stages and classes, in one list.
    pub(in crate::sim) steps: Box<[StepPlan]>,
    pub(in crate::sim) resources: Box<[ResourcePlan]>,
    pub(in crate::sim) clients: Box<[ClientPlan]>,
    pub(in crate::sim) flows: u32,
    /// Nanoseconds, as all times here.
    pub(in crate::sim) warm_up: u64,
    pub(in crate::sim) end: u64,
    pub(in crate::sim) batches: u32,
    pub(in crate::sim) tick: u64,
    global: Option<Named<dyn GlobalLaw>>,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct StagePlan {
    pub(in crate::sim) name: String,
    pub(in crate::sim) workers: Concurrency,
    pub(in crate::sim) capacity: u32,
    pub(in crate::sim) next_is: NextIs,
    /// In which line events of each sort wait.
    pub(in crate::sim) line_of_sort: Box<[usize]>,
    /// The priority of each line, most important first.
    pub(in crate::sim) level_of_line: Box<[usize]>,
    pub(in crate::sim) stretch: Option<Curve>,
    /// While these last, its work stands still.
    pub(in crate::sim) pauses: Spans,
    /// What is special about what stands behind it.
    pub(in crate::sim) upstream: Option<UpstreamPlan>,
    /// For each sort of events, the first of its steps in [`Plan::steps`]. If a batch costs something,
    /// that is the step before it.
    pub(in crate::sim) first_step: Box<[u32]>,
    /// How many steps before that the first event of a batch begins: one or none.
    pub(in crate::sim) steps_of_batch: u32,
    /// The share of its steps that falls with the quality.
    pub(in crate::sim) degradable: f64,
    /// Nanoseconds.
    pub(in crate::sim) clean_up: u64,
    /// Whether the stage can tell clients apart.
    pub(in crate::sim) tells_flows: bool,
    /// For each class, where it goes next.
    pub(in crate::sim) next: Box<[Shares<u32>]>,
}

/// Which of a stage's queued events is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum NextIs {
    /// The oldest of the first priority that has any.
    Oldest,
    /// The oldest or the newest of the first priority that has any.
    AsLawSays,
    /// Of the first priority in which any may start, the one that is due first.
    EarliestDue,
}

/// What requests are told apart by: their class alone, or their kind too.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Sort {
    pub(in crate::sim) class: ClassId,
    /// As laws see it.
    pub(in crate::sim) kind: u32,
    /// Its place: classes come first, then kinds.
    pub(in crate::sim) index: u32,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct ResourcePlan {
    pub(in crate::sim) kind: ResourceKind,
    /// While these last, nothing is done.
    pub(in crate::sim) pauses: Spans,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct StepPlan {
    pub(in crate::sim) place: Place,
    pub(in crate::sim) work: Sampler,
    /// Whether the service ends with it; if not, the next in the list follows.
    pub(in crate::sim) is_last: bool,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum Place {
    Own,
    Shared(u32),
    Pool(u32),
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct ClientPlan {
    pub(in crate::sim) entry: u32,
    pub(in crate::sim) mix: Shares<Sort>,
    pub(in crate::sim) load: LoadPlan,
    pub(in crate::sim) flow_first: u32,
    pub(in crate::sim) flows: u32,
    /// The share of the first flow, if it is not as the others.
    pub(in crate::sim) greedy: Option<f64>,
    pub(in crate::sim) retry: RetryPlan,
    pub(in crate::sim) patience: Option<u64>,
    pub(in crate::sim) leaves: Option<Sampler>,
}

#[derive(Clone, Debug)]
pub(in crate::sim) enum LoadPlan {
    Open(Renewal),
    Sessions { starts: Renewal, stay: f64, think: Sampler },
    Closed { users: Box<[(u64, u32)]>, think: Sampler },
    Trace(Arc<[TraceArrival]>),
}

/// A renewal process on a clock that runs as fast as the rate says.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Renewal {
    pub(in crate::sim) rate: Curve,
    pub(in crate::sim) gaps: Sampler,
    /// One over the mean of the gaps.
    pub(in crate::sim) per_gap: f64,
    /// How many times as long as drawn gaps are at a rate that never changes.
    pub(in crate::sim) steady: Option<f64>,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct RetryPlan {
    pub(in crate::sim) attempts_max: u32,
    pub(in crate::sim) pause: Sampler,
    pub(in crate::sim) growth: f64,
    pub(in crate::sim) pause_max: u64,
    pub(in crate::sim) heed: Heed,
}

impl Plan {
    pub(in crate::sim) fn new(scenario: &Scenario) -> Result<Self, InvalidScenario> {
        check_sizes(scenario)?;
        check_names("stage", scenario.stages.iter().map(|stage| &stage.name))?;
        check_names("resource", scenario.resources.iter().map(|resource| &resource.name))?;
        check_names("client", scenario.clients.iter().map(|client| &client.name))?;
        let (warm_up, end) = span(scenario)?;

        let mut resources = Vec::new();
        for resource in &scenario.resources {
            check_resource(resource, scenario).map_err(|problem| InvalidScenario::Resource {
                resource: resource.name.clone(),
                problem,
            })?;
            let pauses = Spans::default();
            resources.push(ResourcePlan { kind: resource.kind.clone(), pauses });
        }
        let sorts = sorts(scenario)?;
        let (mut stages, mut steps) = (Vec::new(), Vec::new());
        for stage in &scenario.stages {
            let plan = StagePlan::new(stage, scenario, &sorts, &mut resources, &mut steps)
                .map_err(|problem| InvalidScenario::Stage { stage: stage.name.clone(), problem })?;
            stages.push(plan);
        }
        check_exits(scenario, &stages)?;

        let mut clients = Vec::new();
        let mut flows = 0;
        for client in &scenario.clients {
            let plan = ClientPlan::new(client, scenario, &sorts, flows).map_err(|problem| {
                InvalidScenario::Client { client: client.name.clone(), problem }
            })?;
            flows += plan.flows;
            if flows > FLOWS_MAX {
                let problem = ClientProblem::Flows(flows);
                return Err(InvalidScenario::Client { client: client.name.clone(), problem });
            }
            clients.push(plan);
        }
        let plan = Self {
            classes: scenario.classes.clone(),
            stages: stages.into(),
            steps: steps.into(),
            resources: resources.into(),
            clients: clients.into(),
            flows,
            warm_up,
            end,
            batches: scenario.batches,
            tick: nanos(scenario.tick),
            global: scenario.global.clone(),
        };
        plan.global_run()?;
        Ok(plan)
    }

    /// The global law, about to begin.
    pub(in crate::sim) fn global_run(&self) -> Result<Option<GlobalRun>, InvalidScenario> {
        let impossible = |reason: &dyn ToString| InvalidScenario::Global(reason.to_string());
        let Some(named) = &self.global else { return Ok(None) };
        let law = named.make(&self.classes).map_err(|reason| impossible(&reason))?;
        GlobalRun::new(law, self).map(Some).map_err(|reason| impossible(&reason))
    }
}

fn check_sizes(scenario: &Scenario) -> Result<(), InvalidScenario> {
    let sizes = [
        ("stages", 1, scenario.stages.len()),
        ("resources", 0, scenario.resources.len()),
        ("clients", 1, scenario.clients.len()),
    ];
    for (what, least, count) in sizes {
        if !(least..=PARTS_MAX).contains(&count) {
            return Err(InvalidScenario::Count { what, least, most: PARTS_MAX, count });
        }
    }
    if !(1..=BATCHES_MAX).contains(&scenario.batches) {
        return Err(InvalidScenario::Count {
            what: "batches",
            least: 1,
            most: BATCHES_MAX as usize,
            count: scenario.batches as usize,
        });
    }
    Ok(())
}

fn check_names<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), InvalidScenario> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(InvalidScenario::Duplicate { what, name: pair[0].clone() }),
        None => Ok(()),
    }
}

/// When measuring begins and ends.
fn span(scenario: &Scenario) -> Result<(u64, u64), InvalidScenario> {
    let Scenario { warm_up, duration, tick, .. } = scenario;
    let whole = warm_up.saturating_add(*duration);
    if duration.is_zero() || whole.as_nanos() > u128::from(NANOS_MAX) {
        return Err(InvalidScenario::Span(whole));
    }
    if *tick < Duration::from_millis(1) || *tick > Duration::from_secs(1) {
        return Err(InvalidScenario::Tick(*tick));
    }
    Ok((nanos(*warm_up), nanos(whole)))
}

fn check_resource(resource: &Resource, scenario: &Scenario) -> Result<(), ResourceProblem> {
    match &resource.kind {
        ResourceKind::Pool(0) => Err(ResourceProblem::NoConnections),
        ResourceKind::Pool(_) => Ok(()),
        ResourceKind::Shared(speed) => {
            let workers = scenario.stages.iter().map(|stage| stage.workers);
            let most = workers.fold(0, u32::saturating_add).max(1);
            speed.check(most).map_err(ResourceProblem::Speed)
        }
    }
}

impl StagePlan {
    fn new(
        stage: &Stage,
        scenario: &Scenario,
        sorts: &[Sort],
        resources: &mut Vec<ResourcePlan>,
        steps: &mut Vec<StepPlan>,
    ) -> Result<Self, StageProblem> {
        if stage.workers == 0 {
            return Err(StageProblem::NoWorkers);
        }
        stage.speed.check(stage.workers).map_err(StageProblem::Speed)?;
        let spans = |spans: &[(Duration, Duration)], what| {
            let spans = spans.iter().map(|&(from, until)| (nanos(from), nanos(until)));
            Spans::new(spans).ok_or(StageProblem::Spans(what))
        };
        let pauses = spans(&stage.pauses, "pauses")?;
        let own_place = match &stage.speed {
            Speed::Full => Place::Own,
            speed => {
                let kind = ResourceKind::Shared(speed.clone());
                resources.push(ResourcePlan { kind, pauses: pauses.clone() });
                Place::Shared(resources.len() as u32 - 1)
            }
        };
        let named = stage.service_of.iter().map(|(class, _)| class);
        check_classes(named.chain(stage.routes_of.iter().map(|(class, _)| class)), scenario)?;

        let constant = |time| Distribution::Constant(time).sampler();
        let batch_cost = constant(stage.batch_cost).map_err(StageProblem::BatchCost)?;
        constant(stage.clean_up).map_err(StageProblem::CleanUp)?;
        let batch_cost = StepPlan { place: own_place, work: batch_cost, is_last: false };
        let steps_of_batch = u32::from(!stage.batch_cost.is_zero());
        for own in &stage.kinds {
            if !scenario.kinds.iter().any(|kind| kind.name == own.kind) {
                return Err(StageProblem::UnknownKind(own.kind.clone()));
            }
        }
        let (mut first_step, mut next) = (Vec::new(), Vec::new());
        for sort in sorts {
            let class = &scenario.classes.iter().nth(sort.class.index()).expect("it is one").1;
            let of = stage.service_of.iter().find(|(name, _)| *name == class.name);
            let of_class = of.map_or(&stage.service, |(_, service)| service);
            let own = kind_at(stage, scenario, sort).and_then(|own| own.service.as_ref());
            steps.extend((0..steps_of_batch).map(|_| batch_cost.clone()));
            first_step.push(steps.len() as u32);
            let service = own.unwrap_or(of_class);
            steps.extend(plan_steps(service, &class.name, own_place, scenario)?);
        }
        for (_, class) in scenario.classes.iter() {
            let of = stage.routes_of.iter().find(|(name, _)| *name == class.name);
            let routes = of.map_or(&stage.routes, |(_, routes)| routes);
            next.push(plan_routes(routes, &class.name, scenario)?);
        }
        let outages = spans(&stage.outages, "outages")?;
        let levels = levels(&scenario.classes, stage.discipline);
        let (line_of_sort, level_of_line) = lines(sorts, &levels, stage.discipline);
        let stretch = stage.stretch.curve().map_err(StageProblem::Stretch)?;
        Ok(Self {
            name: stage.name.clone(),
            workers: Concurrency::new(stage.workers),
            capacity: stage.capacity,
            next_is: match stage.discipline {
                Discipline::Fifo | Discipline::Priority => NextIs::Oldest,
                Discipline::AdaptiveLifo => NextIs::AsLawSays,
                Discipline::EarliestDue => NextIs::EarliestDue,
            },
            line_of_sort,
            level_of_line,
            pauses,
            upstream: plan_upstream(stage, scenario, sorts, outages)?,
            stretch: (stretch.constant() != Some(1.0)).then_some(stretch),
            first_step: first_step.into(),
            steps_of_batch,
            degradable: stage.degradable.get(),
            clean_up: nanos(stage.clean_up),
            tells_flows: tells_flows(scenario),
            next: next.into(),
        })
    }
}

/// Where no client has several flows, nobody tells clients apart.
fn tells_flows(scenario: &Scenario) -> bool {
    scenario.clients.iter().any(|client| match &client.load {
        Load::Closed { .. } => true,
        _ => client.flows > 1,
    })
}

fn check_classes<'a>(
    names: impl Iterator<Item = &'a String>,
    scenario: &Scenario,
) -> Result<(), StageProblem> {
    for name in names {
        if class_named(name, &scenario.classes).is_none() {
            return Err(StageProblem::UnknownClass(name.clone()));
        }
    }
    Ok(())
}

fn class_named(name: &str, classes: &Classes) -> Option<ClassId> {
    classes.iter().find(|(_, class)| class.name == name).map(|(id, _)| id)
}

fn stage_named(name: &str, scenario: &Scenario) -> Option<u32> {
    scenario.stages.iter().position(|stage| stage.name == name).map(|index| index as u32)
}

fn plan_steps(
    steps: &[Step],
    class: &str,
    own: Place,
    scenario: &Scenario,
) -> Result<Vec<StepPlan>, StageProblem> {
    if steps.is_empty() || steps.len() > STEPS_MAX {
        let class = class.to_owned();
        return Err(StageProblem::Steps { class, count: steps.len(), most: STEPS_MAX });
    }
    let plan = |(index, step): (usize, &Step)| {
        let work = step
            .work
            .sampler()
            .map_err(|why| StageProblem::Service { class: class.to_owned(), why })?;
        let place = match &step.on {
            None => own,
            Some(name) => {
                let index = scenario.resources.iter().position(|resource| resource.name == *name);
                let index = index.ok_or_else(|| StageProblem::UnknownResource(name.clone()))?;
                match scenario.resources[index].kind {
                    ResourceKind::Shared(_) => Place::Shared(index as u32),
                    ResourceKind::Pool(_) => Place::Pool(index as u32),
                }
            }
        };
        Ok(StepPlan { place, work, is_last: index + 1 == steps.len() })
    };
    steps.iter().enumerate().map(plan).collect()
}

fn plan_routes(
    routes: &[Route],
    class: &str,
    scenario: &Scenario,
) -> Result<Shares<u32>, StageProblem> {
    let mut shares = Vec::new();
    for route in routes {
        let to = stage_named(&route.to, scenario)
            .ok_or_else(|| StageProblem::UnknownStage(route.to.clone()))?;
        shares.push((route.probability, to));
    }
    let sum: f64 = shares.iter().map(|share| share.0).sum();
    let exit = (1.0 - sum).max(0.0);
    // A hair below one is one: nobody means to let a billionth leave.
    let exit = if exit < 1e-9 { 0.0 } else { exit };
    shares.push((exit, EXIT));
    let probabilities: Vec<f64> = shares.iter().map(|share| share.0).collect();
    add_up(&probabilities).map_err(|_| StageProblem::Routes { class: class.to_owned(), sum })?;
    Ok(Shares::new(shares))
}

/// Classes, and then kinds.
fn sorts(scenario: &Scenario) -> Result<Vec<Sort>, InvalidScenario> {
    check_names("kind", scenario.kinds.iter().map(|kind| &kind.name))?;
    let classes = scenario.classes.iter().map(|(class, _)| (class, 0));
    let mut sorts: Vec<_> = classes.collect();
    for (index, kind) in scenario.kinds.iter().enumerate() {
        if class_named(&kind.name, &scenario.classes).is_some() {
            return Err(InvalidScenario::SameName(kind.name.clone()));
        }
        let class = class_named(&kind.class, &scenario.classes);
        let unknown = || InvalidScenario::KindOfUnknownClass {
            kind: kind.name.clone(),
            class: kind.class.clone(),
        };
        sorts.push((class.ok_or_else(unknown)?, index as u32 + 1));
    }
    let sort = |(index, (class, kind))| Sort { class, kind, index };
    Ok((0u32..).zip(sorts).map(sort).collect())
}

/// What is different for the kind of `sort` at `stage`.
fn kind_at<'a>(stage: &'a Stage, scenario: &Scenario, sort: &Sort) -> Option<&'a KindAt> {
    let kind = &scenario.kinds[sort.kind.checked_sub(1)? as usize];
    stage.kinds.iter().find(|own| own.kind == kind.name)
}

fn plan_upstream(
    stage: &Stage,
    scenario: &Scenario,
    sorts: &[Sort],
    outages: Spans,
) -> Result<Option<UpstreamPlan>, StageProblem> {
    let mut plans = Vec::new();
    for sort in sorts {
        let own = kind_at(stage, scenario, sort);
        let first_data = own.and_then(|own| own.first_data.as_ref());
        let first_data = first_data.map(Distribution::sampler).transpose();
        plans.push(SortPlan {
            needs_worker: own.is_none_or(|own| own.needs_worker),
            first_data: first_data.map_err(StageProblem::FirstData)?,
            lost: own.and_then(|own| own.lost).unwrap_or(stage.lost).get(),
        });
    }
    let plain =
        |sort: &SortPlan| sort.needs_worker && sort.first_data.is_none() && sort.lost == 0.0;
    if outages.is_empty() && plans.iter().all(plain) {
        return Ok(None);
    }
    let answer_time = nanos(stage.answer_time);
    Ok(Some(UpstreamPlan { sorts: plans.into(), outages, answer_time }))
}

/// In which line each sort waits, and of which level each line is.
fn lines(
    sorts: &[Sort],
    level_of_class: &[usize],
    discipline: Discipline,
) -> (Box<[usize]>, Box<[usize]>) {
    let level = |sort: &Sort| level_of_class[sort.class.index()];
    if discipline != Discipline::EarliestDue {
        let count = level_of_class.iter().max().map_or(1, |most| most + 1);
        return (sorts.iter().map(level).collect(), (0..count).collect());
    }
    let mut order: Vec<usize> = (0..sorts.len()).collect();
    order.sort_by_key(|&sort| level(&sorts[sort]));
    let mut line_of_sort = vec![0; sorts.len()];
    for (line, &sort) in order.iter().enumerate() {
        line_of_sort[sort] = line;
    }
    (line_of_sort.into(), order.iter().map(|&sort| level(&sorts[sort])).collect())
}

fn levels(classes: &Classes, discipline: Discipline) -> Box<[usize]> {
    if discipline == Discipline::Fifo {
        return vec![0; classes.len()].into();
    }
    let mut priorities: Vec<_> = classes.iter().map(|(_, class)| class.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    classes
        .iter()
        .map(|(_, class)| priorities.partition_point(|&other| other < class.priority))
        .collect()
}

/// Whoever is in must be able to get out: from every stage some way leads to the exit.
fn check_exits(scenario: &Scenario, stages: &[StagePlan]) -> Result<(), InvalidScenario> {
    for (id, class) in scenario.classes.iter() {
        let mut leads_out = vec![false; stages.len()];
        // Each pass finds at least one more stage, or is the last.
        loop {
            let found = (0..stages.len()).find(|&index| {
                let mut next = stages[index].next[id.index()].iter();
                !leads_out[index] && next.any(|&to| to == EXIT || leads_out[to as usize])
            });
            match found {
                Some(index) => leads_out[index] = true,
                None => break,
            }
        }
        if let Some(index) = leads_out.iter().position(|leads_out| !leads_out) {
            let problem = StageProblem::NoExit { class: class.name.clone() };
            return Err(InvalidScenario::Stage { stage: stages[index].name.clone(), problem });
        }
    }
    Ok(())
}

impl ClientPlan {
    fn new(
        client: &Client,
        scenario: &Scenario,
        sorts: &[Sort],
        flow_first: u32,
    ) -> Result<Self, ClientProblem> {
        let entry = stage_named(&client.entry, scenario)
            .ok_or_else(|| ClientProblem::UnknownStage(client.entry.clone()))?;
        let load = LoadPlan::new(client, scenario)?;
        let flows = match &load {
            LoadPlan::Closed { users, .. } => {
                users.iter().map(|step| step.1).max().unwrap_or_default().max(1)
            }
            _ => client.flows,
        };
        if flows == 0 || flows > FLOWS_MAX {
            return Err(ClientProblem::Flows(flows));
        }
        if client.patience.is_some_and(|patience| patience.is_zero()) {
            return Err(ClientProblem::NoPatience);
        }
        let leaves = client.leaves.as_ref().map(Distribution::sampler).transpose();
        let leaves = leaves.map_err(ClientProblem::Leaves)?;
        let waits = matches!(load, LoadPlan::Sessions { .. } | LoadPlan::Closed { .. });
        if waits && leaves.is_some() {
            return Err(ClientProblem::Unleaving);
        }
        if client.greedy.is_some() && (flows < 2 || !matches!(load, LoadPlan::Open(_))) {
            return Err(ClientProblem::Greedy);
        }
        Ok(Self {
            entry,
            mix: plan_mix(client, scenario, sorts)?,
            load,
            flow_first,
            flows,
            retry: RetryPlan::new(&client.retry)?,
            patience: client.patience.map(nanos),
            leaves,
            greedy: client.greedy.map(Ratio::get),
        })
    }
}

fn plan_mix(
    client: &Client,
    scenario: &Scenario,
    sorts: &[Sort],
) -> Result<Shares<Sort>, ClientProblem> {
    if client.mix.is_empty() {
        return Ok(Shares::new([(1.0, sorts[0])]));
    }
    let mut shares = Vec::new();
    for (name, share) in &client.mix {
        let kind = scenario.kinds.iter().position(|kind| kind.name == *name);
        let index = match kind {
            Some(kind) => Some(scenario.classes.len() + kind),
            None => class_named(name, &scenario.classes).map(ClassId::index),
        };
        let index = index.ok_or_else(|| ClientProblem::UnknownClass(name.clone()))?;
        shares.push((*share, sorts[index]));
    }
    let probabilities: Vec<f64> = shares.iter().map(|share| share.0).collect();
    add_up(&probabilities).map_err(ClientProblem::Shares)?;
    Ok(Shares::new(shares))
}

impl LoadPlan {
    fn new(client: &Client, scenario: &Scenario) -> Result<Self, ClientProblem> {
        let sampler = |think: &Distribution| think.sampler().map_err(ClientProblem::Think);
        Ok(match &client.load {
            Load::Open { rate, gaps } => Self::Open(Renewal::new(rate, gaps)?),
            Load::Sessions { rate, gaps, stay, think } => {
                if stay.get() >= 1.0 {
                    return Err(ClientProblem::NeverLeaves);
                }
                let starts = Renewal::new(rate, gaps)?;
                Self::Sessions { starts, stay: stay.get(), think: sampler(think)? }
            }
            Load::Closed { users, think } => {
                let ordered = users.windows(2).all(|pair| pair[0].0 < pair[1].0);
                if users.is_empty() || !ordered {
                    return Err(ClientProblem::Users);
                }
                let users = users.iter().map(|&(at, count)| (nanos(at), count)).collect();
                Self::Closed { users, think: sampler(think)? }
            }
            Load::Trace(arrivals) => {
                for (index, arrival) in arrivals.iter().enumerate() {
                    let ordered = index == 0 || arrivals[index - 1].at <= arrival.at;
                    let known = arrival.class.index() < scenario.classes.len();
                    if !ordered || !known || arrival.flow >= client.flows {
                        return Err(ClientProblem::Trace(index));
                    }
                }
                Self::Trace(Arc::clone(arrivals))
            }
        })
    }
}

impl Renewal {
    fn new(rate: &Profile, gaps: &Distribution) -> Result<Self, ClientProblem> {
        let curve = rate.curve().map_err(ClientProblem::Rate)?;
        let mean = gaps.mean().map_err(ClientProblem::Gaps)?;
        if mean.is_zero() {
            return Err(ClientProblem::NoGap);
        }
        let sampler = gaps.sampler().map_err(ClientProblem::Gaps)?;
        let per_gap = 1.0 / mean.as_nanos() as f64;
        let steady = curve.constant().map(|rate| per_gap * 1e9 / rate);
        Ok(Self { rate: curve, gaps: sampler, per_gap, steady })
    }
}

impl RetryPlan {
    fn new(retry: &Retry) -> Result<Self, ClientProblem> {
        if retry.attempts_max > ATTEMPTS_MAX {
            return Err(ClientProblem::Attempts(retry.attempts_max));
        }
        if !retry.growth.is_finite() || retry.growth < 1.0 {
            return Err(ClientProblem::Growth(retry.growth));
        }
        const DAY: Duration = Duration::from_secs(24 * 3600);
        if retry.pause_max > DAY {
            return Err(ClientProblem::Pause(InvalidDistribution::TooLong(retry.pause_max)));
        }
        Ok(Self {
            attempts_max: retry.attempts_max,
            pause: retry.pause.sampler().map_err(ClientProblem::Pause)?,
            growth: retry.growth,
            pause_max: nanos(retry.pause_max),
            heed: retry.heed,
        })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
