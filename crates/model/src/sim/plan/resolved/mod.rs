//! A validated scenario, with names resolved to indices and distributions to samplers.

pub(in crate::sim) mod client;
pub(in crate::sim) mod request_type;
pub(in crate::sim) mod stage;

use std::time::Duration;

use tamarisk_control::global::InvalidStageCount;
use tamarisk_control::{ClassId, Classes, GlobalLaw};
use tamarisk_laws::Named;

use self::client::ClientPlan;
use self::stage::{StagePlan, StepPlan};
use super::client::Load;
use super::intervals::Intervals;
use super::invalid::{ClientProblem, InvalidScenario, ResourceProblem, StageProblem};
use super::resource::{Resource, ResourceKind};
use super::scenario::{BATCHES_MAX, Scenario};
use super::time::{NANOS_MAX, nanos};

/// Stages, resources or groups of clients: more than any service has.
const PARTS_MAX: usize = 1000;
/// Accounts are kept for each flow.
const FLOWS_MAX: u32 = 1 << 20;

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
    /// Whether laws can tell clients apart.
    pub(in crate::sim) tells_flows: bool,
    /// Nanoseconds, as all times here.
    pub(in crate::sim) warm_up: u64,
    pub(in crate::sim) end: u64,
    pub(in crate::sim) batches: u32,
    pub(in crate::sim) tick: u64,
    global: Option<Named<dyn GlobalLaw>>,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct ResourcePlan {
    pub(in crate::sim) kind: ResourceKind,
    /// While these last, nothing is done.
    pub(in crate::sim) pauses: Intervals,
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
            let pauses = Intervals::default();
            resources.push(ResourcePlan { kind: resource.kind.clone(), pauses });
        }
        let request_types = request_type::request_types(scenario)?;
        let (mut stages, mut steps) = (Vec::new(), Vec::new());
        for stage in &scenario.stages {
            let plan = StagePlan::new(stage, scenario, &request_types, &mut resources, &mut steps)
                .map_err(|problem| InvalidScenario::Stage { stage: stage.name.clone(), problem })?;
            stages.push(plan);
        }
        check_exits(scenario, &stages)?;

        let mut clients = Vec::new();
        let mut flows = 0;
        for client in &scenario.clients {
            let plan =
                ClientPlan::new(client, scenario, &request_types, flows).map_err(|problem| {
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
            tells_flows: tells_flows(scenario),
            warm_up,
            end,
            batches: scenario.batches,
            tick: nanos(scenario.tick),
            global: scenario.global.clone(),
        };
        plan.global_law()?;
        Ok(plan)
    }

    /// The global law in its first state.
    pub(in crate::sim) fn global_law(&self) -> Result<Option<Box<dyn GlobalLaw>>, InvalidScenario> {
        let impossible = |reason: &dyn ToString| InvalidScenario::Global(reason.to_string());
        let Some(named) = &self.global else { return Ok(None) };
        let law = named.make(&self.classes).map_err(|reason| impossible(&reason))?;
        InvalidStageCount::check(self.stages.len()).map_err(|reason| impossible(&reason))?;
        Ok(Some(law))
    }
}

/// Where no client has several flows, nobody tells clients apart.
fn tells_flows(scenario: &Scenario) -> bool {
    scenario.clients.iter().any(|client| match &client.load {
        Load::Closed { .. } => true,
        _ => client.flows > 1,
    })
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

fn class_named(name: &str, classes: &Classes) -> Option<ClassId> {
    classes.iter().find(|(_, class)| class.name == name).map(|(id, _)| id)
}

fn stage_named(name: &str, scenario: &Scenario) -> Option<u32> {
    scenario.stages.iter().position(|stage| stage.name == name).map(|index| index as u32)
}
