//! The laws of a stage, by name, as every file that has stages names them:
//!
//! ```toml
//! admission = "predict-gate-trim"
//! dropping = "selective-dropper"                                  # besides
//! workers = { law = "pool-sizing", workers_max_count = 64 }       # or a number
//! batching = "throughput-batching"
//! quality = { law = "degradation", quality_least_ratio = 0.5 }
//! termination = "termination-threshold"
//! coordination = "composition"                  # else each of these four acts as printed
//! ```

use std::time::Duration;

use tamarisk_catalogue::{ADMISSION, BATCHING, DROPPING, GLOBAL, QUALITY, TERMINATION, WORKERS};
use tamarisk_control::{AdmissionLaw, Classes, GlobalLaw, Target, WorkersLaw};
use tamarisk_laws::named::Entry;
use tamarisk_laws::{Coordination, Knob, Laws, Named};
use toml::de::DeValue;

use crate::mistakes::Mistakes;
use crate::section::{Fault, Section, Value, wrong_type};
use crate::table::{Form, Key, LawKind, key};
use crate::values::{float, not_one_of, number, one_of, text};

const COORDINATIONS: [&str; 2] = [Coordination::ALL[0].name(), Coordination::ALL[1].name()];

/// How the laws for workers, batching, quality and termination act together.
pub const COORDINATION: Key = key(
    "coordination",
    Form::OneOf(&COORDINATIONS),
    "whether slow laws act as printed, each as if it were alone, or take turns as a composition",
)
.default("\"independent\"");

/// A law that a file may name.
#[derive(Debug)]
pub struct LawChoice {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Its constants.
    pub knobs: &'static [Knob],
}

impl LawKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Admission,
        Self::Dropping,
        Self::Workers,
        Self::Batching,
        Self::Quality,
        Self::Termination,
        Self::Global,
    ];

    /// The key by which a law of this kind is chosen for a stage, or for all of them.
    pub const fn key(self) -> Key {
        let (name, summary) = match self {
            Self::Admission => ("admission", "which events are admitted"),
            Self::Dropping => {
                ("dropping", "which queued events are dropped, in addition to admission")
            }
            Self::Workers => {
                ("workers", "how many events are handled concurrently: a number, or a law")
            }
            Self::Batching => ("batching", "how many events are handled together"),
            Self::Quality => ("quality", "how far service quality is reduced under overload"),
            Self::Termination => ("termination", "when a running event is terminated"),
            Self::Global => ("global", "a law over all stages together"),
        };
        let form = match self {
            Self::Workers => Form::Either(&[Form::Whole(1, 32_768), Form::Law(Self::Workers)]),
            _ => Form::Law(self),
        };
        key(name, form, summary)
    }

    /// The laws of this kind.
    pub fn choices(self) -> Vec<LawChoice> {
        match self {
            Self::Admission => choices(ADMISSION),
            Self::Dropping => {
                let mut laws = choices(ADMISSION);
                laws.retain(|law| DROPPING.contains(&law.name));
                laws
            }
            Self::Workers => choices(WORKERS),
            Self::Batching => choices(BATCHING),
            Self::Quality => choices(QUALITY),
            Self::Termination => choices(TERMINATION),
            Self::Global => choices(GLOBAL),
        }
    }
}

fn choices<L: ?Sized>(entries: &'static [Entry<L>]) -> Vec<LawChoice> {
    let choice =
        |&Entry { name, summary, knobs, .. }: &Entry<L>| LawChoice { name, summary, knobs };
    entries.iter().map(choice).collect()
}

/// The laws that are stated, where `value` finds what a key says.
///
/// # Errors
/// A [`Fault`] at a law that there is not, or that cannot have such constants.
pub fn read<'a>(value: impl Fn(&str) -> Option<&'a Value<'a>>) -> Result<Laws, Fault> {
    let dropping = value("dropping");
    let mut mistakes = Mistakes::default();
    let admission = value("admission").map(|value| law(value, "admission", ADMISSION)).transpose();
    let admission = mistakes.note(admission);
    let dropper = mistakes.note(dropping.map(self::dropper).transpose());
    let workers = mistakes.note(value("workers").map(workers).transpose());
    let batching = value("batching").map(|value| law(value, "batching", BATCHING)).transpose();
    let batching = mistakes.note(batching);
    let quality = value("quality").map(|value| law(value, "quality", QUALITY)).transpose();
    let quality = mistakes.note(quality);
    let termination = value("termination").map(|value| law(value, "termination", TERMINATION));
    let termination = mistakes.note(termination.transpose());
    let coordination = mistakes.note(value("coordination").map(coordination).transpose());
    let laws = mistakes.done(|| {
        Some(Laws {
            admission: admission?,
            dropping: dropper?,
            workers: workers?,
            batching: batching?,
            quality: quality?,
            termination: termination?,
            coordination: coordination?.unwrap_or_default(),
        })
    })?;
    if let (Some(at), Some(dropper)) = (dropping, &laws.dropping)
        && laws.admission.as_ref().is_some_and(|law| law.name() == dropper.name())
    {
        let message = format!("{} is already the admission law", dropper.name());
        return Err(Fault::new(at.span(), message, "choose another law, or remove `dropping`"));
    }
    Ok(laws)
}

/// A law over all stages: `"global-controller"`, or a table with its constants.
///
/// # Errors
/// A [`Fault`] at a law that there is not, or that cannot have such constants.
pub fn global(value: &Value<'_>) -> Result<Named<dyn GlobalLaw>, Fault> {
    law(value, "global", GLOBAL)
}

/// `workers = 32` says what `{ law = "fixed", workers_count = 32 }` does.
fn workers(value: &Value<'_>) -> Result<Named<dyn WorkersLaw>, Fault> {
    let DeValue::Integer(_) = value.get_ref() else {
        return law(value, "workers", WORKERS);
    };
    let expected = "a number of workers from 1 to 32768, or a law";
    let count = number(value, expected, u64::MAX)?;
    let mut fixed = WORKERS[0].named();
    fixed.set("workers_count", count as f64).map_err(|error| {
        Fault::new(value.span(), error.to_string(), format!("expected {expected}"))
    })?;
    Ok(fixed)
}

fn coordination(value: &Value<'_>) -> Result<Coordination, Fault> {
    Ok(Coordination::ALL[one_of(value, "coordination", &COORDINATIONS)?])
}

fn dropper(value: &Value<'_>) -> Result<Named<dyn AdmissionLaw>, Fault> {
    let named = law(value, "dropping", ADMISSION)?;
    if DROPPING.contains(&named.name()) {
        return Ok(named);
    }
    Err(not_one_of(value.span(), "dropping law", named.name(), DROPPING))
}

/// A law by its name alone, or by a table that has its name and some of its constants.
fn law<L: ?Sized>(
    value: &Value<'_>,
    kind: &str,
    entries: &'static [Entry<L>],
) -> Result<Named<L>, Fault> {
    let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
    let choose = |name: &Value<'_>| one_of(name, &format!("{kind} law"), &names);
    let table = match value.get_ref() {
        DeValue::String(_) => return Ok(entries[choose(value)?].named()),
        DeValue::Table(table) => table,
        _ => return Err(wrong_type(value, "the name of a law, or a table with `law = \"…\"`")),
    };
    let Some(name) = table.get("law") else {
        let expected = format!("needs `law = {:?}`", names[0]);
        return Err(Fault::new(
            value.span(),
            format!("the name of the {kind} law is missing"),
            expected,
        ));
    };
    text(name)?;
    let entry = &entries[choose(name)?];
    let mut known = vec!["law"];
    known.extend(entry.knobs.iter().map(|knob| knob.name));
    let section = Section::of_law(value, known)?;
    let mut named = entry.named();
    for Knob { name, summary, least, greatest, .. } in entry.knobs {
        let Some(value) = section.value(name) else { continue };
        let expected = format!("a number from {least} to {greatest}: {summary}");
        let number = float(value, &expected)?;
        named.set(name, number).map_err(|error| {
            Fault::new(value.span(), error.to_string(), format!("expected {expected}"))
        })?;
    }
    named.make(&any_classes()).map_err(|error| {
        Fault::new(value.span(), error.to_string(), "change one of these constants")
    })?;
    Ok(named)
}

/// Classes to make a law for: whether constants go together does not depend on what is promised.
pub fn any_classes() -> Classes {
    Classes::single(Target::p90(Duration::from_secs(1)).expect("a second is a target"))
}
