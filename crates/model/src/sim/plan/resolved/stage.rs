//! A stage with its names resolved.

use std::time::Duration;

use tamarisk_control::{Classes, Concurrency, MeasuredFrom};

use super::request_type::RequestType;
use super::{EXIT, ResourcePlan, class_named, stage_named};
use crate::sim::plan::distribution::{Distribution, Sampler, Shares, add_up};
use crate::sim::plan::intervals::Intervals;
use crate::sim::plan::invalid::StageProblem;
use crate::sim::plan::profile::Curve;
use crate::sim::plan::resource::ResourceKind;
use crate::sim::plan::scenario::Scenario;
use crate::sim::plan::speed::Speed;
use crate::sim::plan::stage::{Discipline, KindAt, Route, Stage, Step};
use crate::sim::plan::time::nanos;

/// Steps of one service.
const STEPS_MAX: usize = 100;

#[derive(Clone, Debug)]
pub(in crate::sim) struct StagePlan {
    pub(in crate::sim) name: String,
    pub(in crate::sim) workers: Concurrency,
    pub(in crate::sim) capacity: u32,
    pub(in crate::sim) service_order: ServiceOrder,
    /// In which line events of each type wait.
    pub(in crate::sim) line_of_type: Box<[usize]>,
    /// The priority of each line, most important first.
    pub(in crate::sim) level_of_line: Box<[usize]>,
    stretch: Option<Curve>,
    /// While these last, its work stands still.
    pub(in crate::sim) pauses: Intervals,
    /// What is special about what stands behind it.
    pub(in crate::sim) upstream: Option<UpstreamPlan>,
    /// For each request type, the first of its steps in `Plan::steps`. If a batch costs something,
    /// that is the step before it.
    pub(in crate::sim) first_step: Box<[u32]>,
    /// How many steps before that the first event of a batch begins: one or none.
    pub(in crate::sim) steps_of_batch: u32,
    /// Where the response times begin that its laws are told.
    pub(in crate::sim) measured_from: MeasuredFrom,
    /// How many events of a batch they are taken for once.
    pub(in crate::sim) batch_cost_covers: u32,
    /// The share of its steps that falls with the quality.
    pub(in crate::sim) degradable: f64,
    /// Nanoseconds.
    pub(in crate::sim) clean_up: u64,
    /// For each class, where it goes next.
    pub(in crate::sim) next: Box<[Shares<u32>]>,
}

/// Which of a stage's queued events is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum ServiceOrder {
    /// The oldest of the first priority that has any.
    Oldest,
    /// The oldest or the newest of the first priority that has any.
    ByLaw,
    /// Of the first priority in which any may start, the one that is due first.
    EarliestDue,
}

/// What a stage has behind it besides workers.
#[derive(Clone, Debug)]
pub(in crate::sim) struct UpstreamPlan {
    /// For each request type.
    pub(in crate::sim) request_types: Box<[RequestTypePlan]>,
    /// What is sent in these is lost.
    pub(in crate::sim) outages: Intervals,
    /// After so long a reply that never comes is given up, in nanoseconds.
    pub(in crate::sim) answer_time: u64,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct RequestTypePlan {
    pub(in crate::sim) needs_worker: bool,
    /// From having a worker to the first data of a stream; `None` of what is no stream.
    pub(in crate::sim) first_data: Option<Sampler>,
    /// The share of which no reply comes.
    pub(in crate::sim) lost: f64,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct StepPlan {
    pub(in crate::sim) place: StepResource,
    pub(in crate::sim) work: Sampler,
    /// Whether the service ends with it; if not, the next in the list follows.
    pub(in crate::sim) is_last: bool,
}

/// What a step of a service runs on.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum StepResource {
    /// The worker alone.
    Own,
    /// The shared resource of this index.
    Shared(u32),
    /// A connection of the pool of this index.
    Pool(u32),
}

impl StagePlan {
    /// How long work takes at `now` that takes `nanos` where nothing makes it slow.
    pub(in crate::sim) fn stretched(&self, now: u64, nanos: f64) -> f64 {
        match &self.stretch {
            None => nanos,
            Some(stretch) => nanos * stretch.value(now),
        }
    }

    pub(super) fn new(
        stage: &Stage,
        scenario: &Scenario,
        request_types: &[RequestType],
        resources: &mut Vec<ResourcePlan>,
        steps: &mut Vec<StepPlan>,
    ) -> Result<Self, StageProblem> {
        if stage.workers == 0 {
            return Err(StageProblem::NoWorkers);
        }
        stage.speed.check(stage.workers).map_err(StageProblem::Speed)?;
        let spans = |spans: &[(Duration, Duration)], what| {
            let spans = spans.iter().map(|&(from, until)| (nanos(from), nanos(until)));
            Intervals::new(spans).ok_or(StageProblem::Intervals(what))
        };
        let pauses = spans(&stage.pauses, "pauses")?;
        let own_place = match &stage.speed {
            Speed::Full => StepResource::Own,
            speed => {
                let kind = ResourceKind::Shared(speed.clone());
                resources.push(ResourcePlan { kind, pauses: pauses.clone() });
                StepResource::Shared(resources.len() as u32 - 1)
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
        for request_type in request_types {
            let class =
                &scenario.classes.iter().nth(request_type.class.index()).expect("it is one").1;
            let of = stage.service_of.iter().find(|(name, _)| *name == class.name);
            let of_class = of.map_or(&stage.service, |(_, service)| service);
            let own = kind_at(stage, scenario, request_type).and_then(|own| own.service.as_ref());
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
        let (line_of_type, level_of_line) = lines(request_types, &levels, stage.discipline);
        let stretch = stage.stretch.curve().map_err(StageProblem::Stretch)?;
        Ok(Self {
            name: stage.name.clone(),
            workers: Concurrency::new(stage.workers),
            capacity: stage.capacity,
            service_order: match stage.discipline {
                Discipline::Fifo | Discipline::Priority => ServiceOrder::Oldest,
                Discipline::AdaptiveLifo => ServiceOrder::ByLaw,
                Discipline::EarliestDue => ServiceOrder::EarliestDue,
            },
            line_of_type,
            level_of_line,
            pauses,
            upstream: plan_upstream(stage, scenario, request_types, outages)?,
            stretch: (stretch.constant() != Some(1.0)).then_some(stretch),
            first_step: first_step.into(),
            steps_of_batch,
            batch_cost_covers: stage.batch_cost_covers.max(1),
            measured_from: stage.measured_from,
            degradable: stage.degradable.get(),
            clean_up: nanos(stage.clean_up),
            next: next.into(),
        })
    }
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

fn plan_steps(
    steps: &[Step],
    class: &str,
    own: StepResource,
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
                    ResourceKind::Shared(_) => StepResource::Shared(index as u32),
                    ResourceKind::Pool(_) => StepResource::Pool(index as u32),
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

/// What is different for this request type at `stage`.
fn kind_at<'a>(
    stage: &'a Stage,
    scenario: &Scenario,
    request_type: &RequestType,
) -> Option<&'a KindAt> {
    let kind = &scenario.kinds[request_type.kind.checked_sub(1)? as usize];
    stage.kinds.iter().find(|own| own.kind == kind.name)
}

fn plan_upstream(
    stage: &Stage,
    scenario: &Scenario,
    request_types: &[RequestType],
    outages: Intervals,
) -> Result<Option<UpstreamPlan>, StageProblem> {
    let mut plans = Vec::new();
    for request_type in request_types {
        let own = kind_at(stage, scenario, request_type);
        let first_data = own.and_then(|own| own.first_data.as_ref());
        let first_data = first_data.map(Distribution::sampler).transpose();
        plans.push(RequestTypePlan {
            needs_worker: own.is_none_or(|own| own.needs_worker),
            first_data: first_data.map_err(StageProblem::FirstData)?,
            lost: own.and_then(|own| own.lost).unwrap_or(stage.lost).get(),
        });
    }
    let plain = |request_type: &RequestTypePlan| {
        request_type.needs_worker && request_type.first_data.is_none() && request_type.lost == 0.0
    };
    if outages.is_empty() && plans.iter().all(plain) {
        return Ok(None);
    }
    let answer_time = nanos(stage.answer_time);
    Ok(Some(UpstreamPlan { request_types: plans.into(), outages, answer_time }))
}

/// In which line each type waits, and of which level each line is.
fn lines(
    request_types: &[RequestType],
    level_of_class: &[usize],
    discipline: Discipline,
) -> (Box<[usize]>, Box<[usize]>) {
    let level = |request_type: &RequestType| level_of_class[request_type.class.index()];
    if discipline != Discipline::EarliestDue {
        let count = level_of_class.iter().max().map_or(1, |most| most + 1);
        return (request_types.iter().map(level).collect(), (0..count).collect());
    }
    let mut order: Vec<usize> = (0..request_types.len()).collect();
    order.sort_by_key(|&request_type| level(&request_types[request_type]));
    let mut line_of_type = vec![0; request_types.len()];
    for (line, &request_type) in order.iter().enumerate() {
        line_of_type[request_type] = line;
    }
    (
        line_of_type.into(),
        order.iter().map(|&request_type| level(&request_types[request_type])).collect(),
    )
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
