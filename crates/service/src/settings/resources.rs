//! Bounds on resources above which an upstream's requests are rejected, `resources`.

use tamarisk_control::Ratio;
use tamarisk_laws::ResourceBounds;
use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::values::ratio;
use tamarisk_settings::{Fault, Section, Value};

static RESOURCES: Table = Table {
    heading: "resources",
    summary: "Above which use of a resource requests are rejected, those of the lowest class first; the next class every half second that it lasts. Below nine tenths of the bound they are admitted again, class by class; between the two, one class every five seconds. While none is queued or in service, all are admitted.",
    groups: &[&[
        key(
            "memory",
            Form::Number(0.0, 1.0),
            "share of the memory in use: of the limit of the control group, or else of the machine",
        )
        .otherwise("not bounded"),
        key(
            "descriptors",
            Form::Number(0.0, 1.0),
            "share of its descriptors that the process has open",
        )
        .otherwise("not bounded"),
        key("cpu", Form::Number(0.0, 1.0), "share of the machine's processor time in use")
            .otherwise("not bounded"),
    ]],
};

/// Bounds on resources.
pub(super) const RESOURCES_KEY: Key = key(
    "resources",
    Form::Table(&RESOURCES),
    "use of memory, descriptors and processors above which requests to it are rejected",
)
.otherwise("not bounded");

/// The table `resources`.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub(super) fn resources(value: &Value<'_>) -> Result<ResourceBounds, Fault> {
    let section = Section::new(value, &RESOURCES)?;
    let mut bounds = ResourceBounds::new();
    if let Some(bound) = section.read("memory", above_zero)? {
        bounds = bounds.memory(bound);
    }
    if let Some(bound) = section.read("descriptors", above_zero)? {
        bounds = bounds.descriptors(bound);
    }
    if let Some(bound) = section.read("cpu", above_zero)? {
        bounds = bounds.cpu(bound);
    }
    if bounds == ResourceBounds::new() {
        let message = "no resource is bounded";
        return Err(Fault::new(section.span(), message, "needs for example `memory = 0.9`"));
    }
    Ok(bounds)
}

fn above_zero(value: &Value<'_>) -> Result<Ratio, Fault> {
    let bound = ratio(value)?;
    if bound == Ratio::ZERO {
        let message = "a bound of 0 rejects every request";
        return Err(Fault::new(value.span(), message, "expected a share such as 0.9"));
    }
    Ok(bound)
}
