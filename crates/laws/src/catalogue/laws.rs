//! A stage's choice of laws from the catalogue, by name.

use tamarisk_control::{AdmissionLaw, BatchLaw, Classes, QualityLaw, TerminationLaw, WorkersLaw};

use super::{
    ADMISSION, BATCHING, DROPPING, Entry, InvalidKnob, Named, QUALITY, TERMINATION, WORKERS,
};
use crate::WithDropper;

/// The laws that a stage is to have; what none is chosen for stays as the stage has it
/// by itself.
///
/// # Examples
/// ```
/// use tamarisk_laws::catalogue::Laws;
///
/// let laws = Laws::new()
///     .admission("predict-gate-trim", &[("standing_wait_ratio", 0.1)])?
///     .workers("pool-sizing", &[("workers_max_count", 32.0)])?
///     .quality("degradation", &[])?;
/// assert!(laws.admission("predict-gate-trimm", &[]).is_err());
/// # Ok::<(), tamarisk_laws::catalogue::InvalidLaw>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Laws {
    /// Who may enter.
    pub admission: Option<Named<dyn AdmissionLaw>>,
    /// What is dropped from the queue besides: one of [`DROPPING`].
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

/// Why a law cannot be chosen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidLaw {
    /// There is no law of that name and kind.
    #[error("there is no {kind} law {name:?}; there are: {known}")]
    Unknown {
        /// What it would have to rule.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// It cannot have such constants.
    #[error(transparent)]
    Knob(#[from] InvalidKnob),
}

impl Laws {
    /// None chosen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the admission law of this name, and these constants.
    ///
    /// # Errors
    /// [`InvalidLaw`] if there is no such law, or it cannot have them.
    pub fn admission(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        self.admission = Some(choose("admission", ADMISSION, |_| true, name, knobs)?);
        Ok(self)
    }

    /// With a law besides that drops from the queue.
    ///
    /// # Errors
    /// [`InvalidLaw`], as for [`admission`](Self::admission).
    pub fn dropping(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        let drops = |name: &str| DROPPING.contains(&name);
        self.dropping = Some(choose("dropping", ADMISSION, drops, name, knobs)?);
        Ok(self)
    }

    /// With this law for the number of workers.
    ///
    /// # Errors
    /// [`InvalidLaw`], as for [`admission`](Self::admission).
    pub fn workers(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        self.workers = Some(choose("workers", WORKERS, |_| true, name, knobs)?);
        Ok(self)
    }

    /// With this law for the size of batches.
    ///
    /// # Errors
    /// [`InvalidLaw`], as for [`admission`](Self::admission).
    pub fn batching(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        self.batching = Some(choose("batching", BATCHING, |_| true, name, knobs)?);
        Ok(self)
    }

    /// With this law for the quality.
    ///
    /// # Errors
    /// [`InvalidLaw`], as for [`admission`](Self::admission).
    pub fn quality(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        self.quality = Some(choose("quality", QUALITY, |_| true, name, knobs)?);
        Ok(self)
    }

    /// With this law for how long events may run.
    ///
    /// # Errors
    /// [`InvalidLaw`], as for [`admission`](Self::admission).
    pub fn termination(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        self.termination = Some(choose("termination", TERMINATION, |_| true, name, knobs)?);
        Ok(self)
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

/// The law of this name among those `entries` that may be chosen.
pub(super) fn choose<L: ?Sized>(
    kind: &'static str,
    entries: &'static [Entry<L>],
    may: impl Fn(&str) -> bool,
    name: &str,
    knobs: &[(&str, f64)],
) -> Result<Named<L>, InvalidLaw> {
    let mut possible = entries.iter().filter(|entry| may(entry.name));
    let Some(entry) = possible.find(|entry| entry.name == name) else {
        let names: Vec<_> = entries.iter().map(|entry| entry.name).filter(|n| may(n)).collect();
        return Err(InvalidLaw::Unknown { kind, name: name.to_owned(), known: names.join(", ") });
    };
    let mut named = entry.named();
    for &(knob, value) in knobs {
        named.set(knob, value)?;
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::Target;

    use super::*;
    use crate::Open;

    #[test]
    fn a_dropper_accompanies_the_admission_law() {
        let classes = Classes::single(Target::p90(Duration::from_millis(200)).unwrap());
        let laws = Laws::new().dropping("selective-dropper", &[("wait_ratio", 0.5)]).unwrap();
        let law = laws.make_admission(&classes, || Box::new(Open)).unwrap();
        assert_eq!(law.name(), "open");
        let mut thresholds = Vec::new();
        law.readings(&mut |reading| thresholds.push((reading.name.to_owned(), reading.value)));
        assert_eq!(thresholds, [("drop_threshold_seconds".to_owned(), 0.1)]);
    }

    #[test]
    fn a_law_that_only_rejects_is_no_dropper() {
        let error = Laws::new().dropping("red", &[]).unwrap_err().to_string();
        assert!(
            error.starts_with("there is no dropping law \"red\"; there are: selective-dropper")
        );
    }
}
