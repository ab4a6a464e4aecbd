//! The global laws in the catalogue: those over a graph of stages.

use tamarisk_control::GlobalLaw;

use super::laws::choose;
use super::{GlobalEntry, InvalidLaw, Named, entry};
use crate::fair::{GlobalControllerConstants, ThroughputSharingConstants};
use crate::{GlobalController, ThroughputSharing};

/// Every global law that ships.
pub const GLOBAL: &[GlobalEntry] = &[
    entry!(
        "global-controller",
        "one promise for all stages, shared by the flows between them [Fair07]",
        |classes, its: GlobalControllerConstants| {
            GlobalController::with(classes, its.period_seconds, its.aim_ratio)
        }
    ),
    entry!(
        "throughput-sharing",
        "one throughput for all stages, which they follow by their workers [Fair07]",
        |classes, its: ThroughputSharingConstants| ThroughputSharing::with(classes, &its)
    ),
];

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
/// assert!(error.ends_with("there are: global-controller, throughput-sharing"));
/// # Ok::<(), tamarisk_laws::catalogue::InvalidLaw>(())
/// ```
pub fn global(name: &str, knobs: &[(&str, f64)]) -> Result<Named<dyn GlobalLaw>, InvalidLaw> {
    choose("global", GLOBAL, |_| true, name, knobs)
}
