//! A scenario that is ready to run, and the choice of laws for a run.

use tamarisk_control::global::InvalidStageCount;
use tamarisk_control::{AdmissionLaw, GlobalLaw};
use tamarisk_laws::{InvalidKnob, Knobs, Laws, Open};

use super::Run;
use super::calendar::Calendar;
use super::clients::ClientRun;
use super::clients::pages::Pages;
use super::global::GlobalRun;
use super::governor::Displaced;
use super::job::Jobs;
use super::ledger::Ledger;
use super::resource::ResourceRun;
use super::ruling::{Governor, Ruled};
use super::stage::StageRun;
use super::watch::Watch;
use crate::sim::plan::invalid::InvalidScenario;
use crate::sim::plan::resolved::Plan;
use crate::sim::plan::scenario::Scenario;

/// A scenario that was found sound, to be run any number of times.
#[derive(Clone, Debug)]
pub struct Simulation {
    plan: Plan,
}

/// There is no stage of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no stage {0:?}")]
pub struct UnknownStage(String);

/// Why a stage cannot have such laws.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnsuitableLaws {
    /// There is no stage of that name.
    #[error(transparent)]
    Stage(#[from] UnknownStage),
    /// Their constants do not go together.
    #[error(transparent)]
    Knob(#[from] InvalidKnob),
}

impl Simulation {
    /// Makes `scenario` ready to run.
    ///
    /// # Errors
    /// [`InvalidScenario`] says what cannot be simulated, and where it stands.
    pub fn new(scenario: &Scenario) -> Result<Self, InvalidScenario> {
        Ok(Self { plan: Plan::new(scenario)? })
    }

    /// A run that is about to begin, with no law at any stage yet, under the scenario's
    /// global law if it has one.
    pub fn start(&self, seed: u64) -> Run<'_, ()> {
        let plan = &self.plan;
        let stages = plan.stages.iter().map(|stage| {
            let ruled = Ruled::by(Box::new(Open), stage.workers);
            StageRun::new(stage, ruled)
        });
        let global = plan.global_law().expect("it was made when the scenario was checked");
        Run {
            plan,
            seed,
            now: 0,
            calendar: Calendar::default(),
            jobs: Jobs::default(),
            pages: Pages::default(),
            offered: 0,
            stages: stages.collect(),
            resources: plan.resources.iter().map(ResourceRun::new).collect(),
            clients: (0..plan.clients.len()).map(|index| ClientRun::new(seed, index)).collect(),
            ledger: Ledger::new(plan),
            global: global.map(|law| GlobalRun::new(law, plan)),
            visits: 0,
            displaced: Displaced::default(),
            watch: (),
            window: 0..0,
        }
    }
}

impl<'a, W: Watch> Run<'a, W> {
    /// With this law for admission at the stage named `stage`. Its classes should be the
    /// scenario's.
    ///
    /// # Errors
    /// [`UnknownStage`] if there is none of that name.
    pub fn law(mut self, stage: &str, law: Box<dyn AdmissionLaw>) -> Result<Self, UnknownStage> {
        let index = self.place(stage)?;
        let plan = &self.plan.stages[index];
        self.stages[index] = StageRun::new(plan, Ruled::by(law, plan.workers));
        Ok(self)
    }

    /// With this law over the whole network, instead of the scenario's if it has one.
    ///
    /// # Errors
    /// [`InvalidStageCount`] if the network has more stages than such laws can share.
    pub fn global(mut self, law: Box<dyn GlobalLaw>) -> Result<Self, InvalidStageCount> {
        InvalidStageCount::check(self.plan.stages.len())?;
        self.global = Some(GlobalRun::new(law, self.plan));
        Ok(self)
    }

    /// With these laws of the catalogue at the stage named `stage`, as a live stage has them:
    /// those for workers, batching, quality and termination act as printed, each as if it were
    /// alone, or in turns, if that is their
    /// [coordination](tamarisk_laws::Coordination).
    ///
    /// # Errors
    /// [`UnsuitableLaws`] if there is no stage of that name, or they cannot be.
    pub fn laws(mut self, stage: &str, laws: &Laws) -> Result<Self, UnsuitableLaws> {
        let index = self.place(stage)?;
        let plan = &self.plan.stages[index];
        let ruled = Ruled::by_all(laws, &self.plan.classes, plan.workers)?;
        self.stages[index] = StageRun::new(plan, ruled);
        Ok(self)
    }

    /// With `governor` over all of the stage named `stage`, which begins with `knobs`.
    ///
    /// # Errors
    /// [`UnknownStage`] if there is none of that name.
    pub fn governor(
        mut self,
        stage: &str,
        governor: Box<dyn Governor>,
        knobs: Knobs,
    ) -> Result<Self, UnknownStage> {
        let index = self.place(stage)?;
        let ruled = Ruled::by_governor(governor, knobs);
        self.stages[index] = StageRun::new(&self.plan.stages[index], ruled);
        Ok(self)
    }

    fn place(&self, stage: &str) -> Result<usize, UnknownStage> {
        let index = self.plan.stages.iter().position(|plan| plan.name == stage);
        index.ok_or_else(|| UnknownStage(stage.to_owned()))
    }

    /// With `watch` told of all that happens.
    pub fn watch<V: Watch>(self, watch: V) -> Run<'a, V> {
        let Self { plan, seed, now, calendar, jobs, pages, offered, .. } = self;
        let Self { stages, resources, clients, ledger, global, visits, displaced, window, .. } =
            self;
        Run {
            plan,
            seed,
            now,
            calendar,
            jobs,
            pages,
            offered,
            stages,
            resources,
            clients,
            ledger,
            global,
            visits,
            displaced,
            watch,
            window,
        }
    }
}
