//! The laws of a stage, by name.

use std::ops::Range;

use tamarisk_laws::{Laws, Named};
use tamarisk_settings::table::{Form, Key, LawKind, key};
use tamarisk_settings::{Fault, Section, Value, laws};

/// The law of an upstream for which none is chosen.
const DEFAULT: &str = "work-limit";

/// The keys by which the laws of an upstream are chosen.
#[rustfmt::skip]
pub(super) static LAWS: [Key; 7] = [
    LawKind::Admission.key().default("\"work-limit\""),
    LawKind::Dropping.key(),
    LawKind::Workers.key().otherwise("the admission law sets a limit; required if it does not"),
    LawKind::Quality.key(),
    LawKind::Termination.key(),
    laws::COORDINATION,
    key("batching", Form::Never {
        message: "requests to an upstream cannot be batched",
        expected: "remove `batching`: each request is sent on its own",
    }, ""),
];

/// The laws that the sections about the stage `name` choose together.
pub(super) fn read(name: &str, sections: &[&Section<'_>]) -> Result<Laws, Fault> {
    let stated = |key: &str, nth| sections.iter().filter_map(|section| section.value(key)).nth(nth);
    for Key { name: key, .. } in &LAWS {
        if let Some(again) = stated(key, 1) {
            let message = format!("{key} of {name:?} is set twice");
            let expected =
                format!("set it in [upstreams.{name}] or in [stage.{name}], not in both");
            return Err(Fault::new(again.span(), message, expected));
        }
    }
    let value = |key: &str| stated(key, 0);
    let laws = laws::read(value)?;
    in_flight(&laws, value("admission").map(Value::span), value("workers").map(Value::span))?;
    Ok(laws)
}

/// Either the admission law says how many requests are in flight, or a workers law does.
fn in_flight(
    laws: &Laws,
    admission: Option<Range<usize>>,
    workers: Option<Range<usize>>,
) -> Result<(), Fault> {
    let name = laws.admission.as_ref().map_or(DEFAULT, Named::name);
    let limits = match &laws.admission {
        None => true,
        Some(law) => law.make(&laws::any_classes()).is_ok_and(|law| law.concurrency().is_some()),
    };
    match (limits, admission, workers) {
        (true, _, Some(at)) => {
            let message =
                format!("admission law {name:?} sets its own limit of requests in flight");
            let fault = Fault::new(at, message, "remove `workers`");
            Err(fault
                .help("or choose an admission law without a limit, such as \"predict-gate-trim\""))
        }
        (false, Some(at), None) => {
            let message = format!("admission law {name:?} sets no limit of requests in flight");
            let fault = Fault::new(at, message, "needs `workers`");
            Err(fault.help("for example `workers = 32`"))
        }
        _ => Ok(()),
    }
}
