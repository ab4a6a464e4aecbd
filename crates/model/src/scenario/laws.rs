//! The laws of a stage in a scenario file.

use tamarisk_control::{Classes, Strain};
use tamarisk_laws::{Coordination, Laws, Named};
use tamarisk_settings::{Fault, Section, laws};

/// The value of `workers` at a stage where no request waits for a worker.
pub(super) const UNLIMITED: &str = "unlimited";

/// The laws that the section of a stage names. A mere number of workers is none.
pub(super) fn laws(section: &Section<'_>, classes: &Classes) -> Result<Laws, Fault> {
    let laws = laws::read(|key| {
        section.value(key).filter(|value| {
            let value = value.get_ref();
            let is_number = value.is_integer() || value.as_str() == Some(UNLIMITED);
            key != "workers" || !is_number
        })
    })?;
    if laws.coordination == Coordination::Composition
        && !is_guarded(&laws)
        && let Some((rules, name)) = first_in_need(&laws, classes)
    {
        let span = section.value(rules).map_or_else(|| section.span(), |value| value.span());
        let message = format!("nothing tells {name} of overload in a composition");
        let fault =
            Fault::new(span, message, "needs an admission law that rejects, for it acts on that");
        return Err(fault.help(
            "add for example `admission = \"predict-gate-trim\"`, or remove `coordination`",
        ));
    }
    Ok(laws)
}

/// Whether anybody is ever rejected or dropped.
fn is_guarded(laws: &Laws) -> bool {
    laws.dropping.is_some() || laws.admission.as_ref().is_some_and(|law| law.name() != "open")
}

/// What the first law rules that would act under overload, and its name.
fn first_in_need(laws: &Laws, classes: &Classes) -> Option<(&'static str, &'static str)> {
    let Laws { workers, batching, quality, termination, .. } = laws;
    let names = [
        ("workers", acting(workers.as_ref(), classes, |law| law.strain())),
        ("batching", acting(batching.as_ref(), classes, |law| law.strain())),
        ("quality", acting(quality.as_ref(), classes, |law| law.strain())),
        ("termination", acting(termination.as_ref(), classes, |law| law.strain())),
    ];
    names.into_iter().find_map(|(rules, name)| Some((rules, name?)))
}

/// The name of a law that changes something.
fn acting<L: ?Sized>(
    named: Option<&Named<L>>,
    classes: &Classes,
    strain: fn(&L) -> Strain,
) -> Option<&'static str> {
    let law = named?.make(classes).ok()?;
    (strain(&law) != Strain::Fixed).then(|| named.map(Named::name))?
}
