//! All laws of one stage in one value, for live and simulated stages.

use std::time::Duration;

use tamarisk_control::{
    Activity, AdmissionLaw, Backlog, ClassId, Classes, Concurrency, PerSecond, Timestamp,
};

use super::base::Base;
use super::{Composition, Independent, Knobs, SlowLaws};
use crate::named::Coordination;

/// Who rules a stage: an admission law alone, or together with slow laws.
pub struct Ruling(Form);

enum Form {
    /// Without slow laws, or with some that take turns.
    Base(Base),
    /// With laws of which each acts as if it were alone.
    Independent(Box<Independent>),
}

/// The slow laws of a stage, by how they act. Of two for one thing the independent one rules.
#[derive(Default)]
pub struct StageLaws {
    /// Each as printed, whatever the others do.
    pub independent: SlowLaws,
    /// In turns, as a [`Composition`].
    pub composed: SlowLaws,
}

impl StageLaws {
    /// `laws`, which all act in this way.
    pub fn coordinated(laws: SlowLaws, coordination: Coordination) -> Self {
        match coordination {
            Coordination::Independent => Self { independent: laws, ..Self::default() },
            Coordination::Composition => Self { composed: laws, ..Self::default() },
        }
    }

    /// Together with `admission`, for a stage that begins with such knobs.
    pub fn with(self, admission: Box<dyn AdmissionLaw>, classes: &Classes, knobs: Knobs) -> Ruling {
        let Self { independent, composed } = self;
        let base = compose(admission, composed.without(&independent), classes, knobs);
        if independent.is_empty() {
            return Ruling(Form::Base(base));
        }
        Ruling(Form::Independent(Box::new(Independent::new(base, independent, knobs))))
    }
}

fn compose(
    admission: Box<dyn AdmissionLaw>,
    slow: SlowLaws,
    classes: &Classes,
    knobs: Knobs,
) -> Base {
    if slow.is_empty() {
        return Base::Admission(admission);
    }
    let SlowLaws { workers, batch, quality, termination } = slow;
    let mut composition = Composition::new(classes, admission, knobs);
    if let Some(law) = workers {
        composition = composition.workers(law);
    }
    if let Some(law) = batch {
        composition = composition.batch(law);
    }
    if let Some(law) = quality {
        composition = composition.quality(law);
    }
    if let Some(law) = termination {
        composition = composition.termination(law);
    }
    Base::Composed(Box::new(composition))
}

impl Ruling {
    /// `law` alone: the stage stays as it is built.
    pub fn by(law: Box<dyn AdmissionLaw>) -> Self {
        Self(Form::Base(Base::Admission(law)))
    }

    /// The law that is asked about each event.
    #[inline]
    pub fn admission(&self) -> &dyn AdmissionLaw {
        match &self.0 {
            Form::Base(base) => base.admission(),
            Form::Independent(laws) => &**laws,
        }
    }

    /// The same, to be asked.
    #[inline]
    pub fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        match &mut self.0 {
            Form::Base(base) => base.admission_mut(),
            Form::Independent(laws) => &mut **laws,
        }
    }

    /// For a stage that has nothing which slow laws could set.
    pub fn into_admission(self) -> Box<dyn AdmissionLaw> {
        match self.0 {
            Form::Base(base) => base.into_admission(),
            Form::Independent(laws) => laws,
        }
    }

    /// What slow laws have set last, if there are any.
    pub fn knobs(&self) -> Option<Knobs> {
        match &self.0 {
            Form::Base(base) => base.composition().map(Composition::knobs),
            Form::Independent(laws) => Some(laws.knobs()),
        }
    }

    /// A tick of the slow laws: what they have set, if there are any.
    pub fn govern(&mut self, now: Timestamp, activity: &Activity<'_>) -> Option<Knobs> {
        match &mut self.0 {
            Form::Base(base) => base.govern(now, activity),
            Form::Independent(laws) => Some(laws.govern(now, activity)),
        }
    }

    /// An event has come for which none of the workers in `backlog` is idle: how many there are from
    /// now on, before the admission law is asked.
    pub fn on_shortage(&mut self, now: Timestamp, backlog: &Backlog<'_>) -> Concurrency {
        match &mut self.0 {
            Form::Base(base) => base.on_shortage(now, backlog),
            Form::Independent(laws) => laws.on_shortage(now, backlog),
        }
    }

    /// How long an event of `class` may run. None if only its deadline ends it.
    pub fn limit(&self, class: ClassId) -> Option<Duration> {
        match &self.0 {
            Form::Base(base) => base.limit(class),
            Form::Independent(laws) => laws.limit(class),
        }
    }

    /// Tells the workers law, if there is one, how many events a second to complete.
    pub fn set_throughput(&mut self, target: PerSecond) {
        match &mut self.0 {
            Form::Base(base) => base.set_throughput(target),
            Form::Independent(laws) => laws.set_throughput(target),
        }
    }

    /// What slow laws rule, and their names; what none rules stays as it was built.
    pub fn slow_names(&self) -> Vec<(&'static str, &'static str)> {
        let ruled = ["workers", "batching", "quality", "termination"];
        let names = match &self.0 {
            Form::Base(base) => base.names(),
            Form::Independent(laws) => laws.names(),
        };
        let names = ruled.into_iter().zip(names);
        names.filter_map(|(rules, name)| Some((rules, name?))).collect()
    }
}
