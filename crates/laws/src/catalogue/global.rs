//! The laws over a graph of stages.

use std::time::Duration;

use tamarisk_control::{GlobalLaw, Ratio};

use super::laws::choose;
use super::{GlobalEntry, InvalidLaw, Named, knob};
use crate::GlobalController;

/// Every global law that ships.
pub const GLOBAL: &[GlobalEntry] = &[GlobalEntry {
    name: "global-controller",
    summary: "one promise for all stages, shared by the flows between them [Fair07]",
    knobs: &[
        knob("aim_ratio", "the share of the promise to aim at", 0.8, 0.05, 1.0),
        knob("period_seconds", "the sample", 1.0, 0.1, 60.0),
    ],
    make: |classes, values| {
        let (aim, period) = (Ratio::saturating(values[0]), Duration::from_secs_f64(values[1]));
        Ok(Box::new(GlobalController::with(classes, period, aim)))
    },
}];

/// The global law of this name, with these constants.
///
/// # Errors
/// [`InvalidLaw`] if there is no such law, or it cannot have them.
///
/// # Examples
/// ```
/// use tamarisk_laws::catalogue::global;
///
/// let law = global("global-controller", &[("period_seconds", 0.5)])?;
/// assert_eq!(law.name(), "global-controller");
/// let error = global("global-control", &[]).unwrap_err().to_string();
/// assert!(error.ends_with("there are: global-controller"));
/// # Ok::<(), tamarisk_laws::catalogue::InvalidLaw>(())
/// ```
pub fn global(name: &str, knobs: &[(&str, f64)]) -> Result<Named<dyn GlobalLaw>, InvalidLaw> {
    choose("global", GLOBAL, |_| true, name, knobs)
}
