//! `p90 = "200ms"`: a response-time target as a key and a value.

use tamarisk_control::Target;

pub use crate::percentile::{is_percentile, percentile};
use crate::section::{Fault, Section};
use crate::values;

/// The target that a section states, if it does; at most one.
///
/// # Errors
/// A [`Fault`] at a second one, or at one that is none.
pub fn of(section: &Section<'_>) -> Result<Option<Target>, Fault> {
    let mut target = None;
    for (key, value) in section.entries() {
        let Some(percentile) = percentile(key.get_ref()) else { continue };
        if target.is_some() {
            let message = "several targets for the same requests";
            return Err(Fault::new(key.span(), message, "keep one percentile"));
        }
        let time = values::duration(value)?;
        let stated = Target::percentile(percentile, time)
            .map_err(|error| Fault::new(value.span(), error.to_string(), "expected 10us to 24h"))?;
        target = Some(stated);
    }
    Ok(target)
}
