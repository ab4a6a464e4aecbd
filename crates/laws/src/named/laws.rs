//! A stage's choice of named laws.

use tamarisk_control::{AdmissionLaw, BatchLaw, Classes, QualityLaw, TerminationLaw, WorkersLaw};

use super::{InvalidKnob, Named};
use crate::WithDropper;

/// The laws that a stage is to have; what none is chosen for stays as the stage has it
/// by itself.
///
/// # Examples
/// ```
/// use tamarisk_laws::{Laws, entries};
///
/// let mut workers = entries::ELASTIC_POOL.named();
/// workers.set("workers_max_count", 32.0)?;
/// let laws = Laws {
///     admission: Some(entries::PREDICT_GATE_TRIM.named()),
///     workers: Some(workers),
///     ..Laws::new()
/// };
/// # Ok::<(), tamarisk_laws::named::InvalidKnob>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Laws {
    /// Who may enter.
    pub admission: Option<Named<dyn AdmissionLaw>>,
    /// What is dropped from the queue besides: one that admits everything.
    pub dropping: Option<Named<dyn AdmissionLaw>>,
    /// How many events are worked on at once.
    pub workers: Option<Named<dyn WorkersLaw>>,
    /// How many events a worker takes at once.
    pub batching: Option<Named<dyn BatchLaw>>,
    /// How well events are served.
    pub quality: Option<Named<dyn QualityLaw>>,
    /// How long events may run.
    pub termination: Option<Named<dyn TerminationLaw>>,
    /// How the laws for workers, batches, quality and termination act together.
    pub coordination: Coordination,
}

/// How slow laws act together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coordination {
    /// Each as printed, whatever the others do.
    #[default]
    Independent,
    /// In turns, by what admission rejects: a [`Composition`](crate::Composition).
    Composition,
}

impl Coordination {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Independent, Self::Composition];

    /// The name that configuration files use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Composition => "composition",
        }
    }
}

impl Laws {
    /// None chosen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With slow laws that act together in this way.
    #[must_use]
    pub fn coordination(mut self, coordination: Coordination) -> Self {
        self.coordination = coordination;
        self
    }

    /// The law for arrivals and departures: `otherwise` if none is chosen, together
    /// with the dropper if one is.
    ///
    /// # Errors
    /// [`InvalidKnob`] if constants do not go together.
    pub fn make_admission(
        &self,
        classes: &Classes,
        otherwise: impl FnOnce() -> Box<dyn AdmissionLaw>,
    ) -> Result<Box<dyn AdmissionLaw>, InvalidKnob> {
        let admission = match &self.admission {
            Some(named) => named.make(classes)?,
            None => otherwise(),
        };
        Ok(match &self.dropping {
            Some(dropper) => Box::new(WithDropper::new(admission, dropper.make(classes)?)),
            None => admission,
        })
    }

    /// Calls `visit` for each law that is chosen, with what it rules, its name, and its
    /// constants.
    pub fn each(
        &self,
        mut visit: impl FnMut(&'static str, &'static str, Vec<(&'static str, f64)>),
    ) {
        fn tell<L: ?Sized>(
            visit: &mut impl FnMut(&'static str, &'static str, Vec<(&'static str, f64)>),
            rules: &'static str,
            named: Option<&Named<L>>,
        ) {
            if let Some(named) = named {
                visit(rules, named.name(), named.knobs().collect());
            }
        }
        tell(&mut visit, "admission", self.admission.as_ref());
        tell(&mut visit, "dropping", self.dropping.as_ref());
        tell(&mut visit, "workers", self.workers.as_ref());
        tell(&mut visit, "batching", self.batching.as_ref());
        tell(&mut visit, "quality", self.quality.as_ref());
        tell(&mut visit, "termination", self.termination.as_ref());
    }
}
