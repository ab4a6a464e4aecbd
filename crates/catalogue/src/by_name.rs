//! Laws of the catalogue by their names, for a stage or a graph of stages.

use tamarisk_control::GlobalLaw;
use tamarisk_laws::named::{AdmissionEntry, Entry, InvalidKnob, Laws, Named};

use crate::lists::{ADMISSION, BATCHING, DROPPING, GLOBAL, QUALITY, TERMINATION, WORKERS};

/// Chooses the laws of a stage by name.
///
/// # Examples
/// ```
/// use tamarisk_catalogue::ByName;
/// use tamarisk_laws::Laws;
///
/// let laws = Laws::new()
///     .admission("predict-gate-trim", &[("standing_wait_ratio", 0.1)])?
///     .workers("pool-sizing", &[("workers_max_count", 32.0)])?
///     .quality("degradation", &[])?;
/// assert!(laws.admission("predict-gate-trimm", &[]).is_err());
/// # Ok::<(), tamarisk_catalogue::InvalidLaw>(())
/// ```
pub trait ByName: Sized {
    /// With the admission law of this name, and these constants.
    ///
    /// # Errors
    /// [`InvalidLaw`] if there is no such law, or it cannot have them.
    fn admission(self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw>;

    /// With a law besides that drops from the queue.
    ///
    /// # Errors
    /// [`InvalidLaw`], as for [`admission`](Self::admission).
    fn dropping(self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw>;

    /// With this law for the number of workers.
    ///
    /// # Errors
    /// [`InvalidLaw`], as for [`admission`](Self::admission).
    fn workers(self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw>;

    /// With this law for the size of batches.
    ///
    /// # Errors
    /// [`InvalidLaw`], as for [`admission`](Self::admission).
    fn batching(self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw>;

    /// With this law for the quality.
    ///
    /// # Errors
    /// [`InvalidLaw`], as for [`admission`](Self::admission).
    fn quality(self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw>;

    /// With this law for how long events may run.
    ///
    /// # Errors
    /// [`InvalidLaw`], as for [`admission`](Self::admission).
    fn termination(self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw>;
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

/// The admission law of this name.
pub fn admission(name: &str) -> Option<&'static AdmissionEntry> {
    ADMISSION.iter().find(|entry| entry.name == name)
}

/// The global law of this name, with these constants.
///
/// # Errors
/// [`InvalidLaw`] if there is no such law, or it cannot have them.
///
/// # Examples
/// ```
/// use tamarisk_catalogue::global;
///
/// let law = global("global-controller", &[("period_seconds", 0.5)])?;
/// assert_eq!(law.name(), "global-controller");
/// let error = global("global-control", &[]).unwrap_err().to_string();
/// assert!(error.ends_with("there are: global-controller, throughput-sharing"));
/// # Ok::<(), tamarisk_catalogue::InvalidLaw>(())
/// ```
pub fn global(name: &str, knobs: &[(&str, f64)]) -> Result<Named<dyn GlobalLaw>, InvalidLaw> {
    choose("global", GLOBAL, |_| true, name, knobs)
}

impl ByName for Laws {
    fn admission(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        self.admission = Some(choose("admission", ADMISSION, |_| true, name, knobs)?);
        Ok(self)
    }

    fn dropping(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        let drops = |name: &str| DROPPING.contains(&name);
        self.dropping = Some(choose("dropping", ADMISSION, drops, name, knobs)?);
        Ok(self)
    }

    fn workers(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        self.workers = Some(choose("workers", WORKERS, |_| true, name, knobs)?);
        Ok(self)
    }

    fn batching(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        self.batching = Some(choose("batching", BATCHING, |_| true, name, knobs)?);
        Ok(self)
    }

    fn quality(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        self.quality = Some(choose("quality", QUALITY, |_| true, name, knobs)?);
        Ok(self)
    }

    fn termination(mut self, name: &str, knobs: &[(&str, f64)]) -> Result<Self, InvalidLaw> {
        self.termination = Some(choose("termination", TERMINATION, |_| true, name, knobs)?);
        Ok(self)
    }
}

/// The law of this name among those `entries` that may be chosen.
fn choose<L: ?Sized>(
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

    use tamarisk_control::{Classes, Target};
    use tamarisk_laws::Open;

    use super::*;

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
