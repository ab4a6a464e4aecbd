//! Targets as JSON: showing and changing them (`/targets`).
//!
//! ```json
//! { "shop": { "default": { "p90": "200ms" }, "search/paying": { "p99": "1s" } } }
//! ```

use serde_json::{Map, Value, json};
use tamarisk_control::{ClassId, Classes, Percentile, Target, parse_duration};
use tamarisk_stage::Gate;

/// New targets for some classes of one gate.
pub(super) struct TargetChange<'a> {
    gate: &'a Gate,
    targets: Vec<(ClassId, Target)>,
}

/// The targets that there are, for each stage and class.
pub(super) fn render(gates: &[Gate]) -> String {
    let stages = gates.iter().map(|gate| {
        let classes = gate.classes();
        let targets = classes.iter().map(|(_, class)| (class.name.clone(), written(class.target)));
        (gate.observe().name, Value::Object(targets.collect()))
    });
    format!("{}\n", Value::Object(stages.collect()))
}

/// `{"p90": "0.2s"}`
fn written(target: Target) -> Value {
    json!({ Percentile(target.at()).key(): format!("{}s", target.response_time().as_secs_f64()) })
}

/// What `document` wants changed; `whole` says that it has to name every class.
pub(super) fn read<'a>(
    gates: &'a [Gate],
    document: &Value,
    whole: bool,
) -> Result<Vec<TargetChange<'a>>, String> {
    let stages = object(document, "the document")?;
    let names: Vec<_> = gates.iter().map(|gate| gate.observe().name).collect();
    let mut changes = Vec::new();
    for (name, classes) in stages {
        let index = names.iter().position(|known| known == name);
        let index = index.ok_or_else(|| unknown("stage", name, &names))?;
        changes.push(of_stage(&gates[index], name, object(classes, name)?, whole)?);
    }
    match names.iter().find(|name| whole && !stages.contains_key(*name)) {
        Some(missing) => Err(format!("the stage {missing:?} is missing; use PATCH to change some")),
        None => Ok(changes),
    }
}

fn of_stage<'a>(
    gate: &'a Gate,
    stage: &str,
    document: &Map<String, Value>,
    whole: bool,
) -> Result<TargetChange<'a>, String> {
    let classes: Classes = gate.classes();
    let names: Vec<_> = classes.iter().map(|(_, class)| class.name.clone()).collect();
    let mut targets = Vec::new();
    for (name, target) in document {
        let class = classes
            .named(name)
            .ok_or_else(|| format!("{} in the stage {stage:?}", unknown("class", name, &names)))?;
        targets.push((class, target_of(name, target)?));
    }
    match names.iter().find(|name| whole && !document.contains_key(*name)) {
        Some(missing) => {
            Err(format!("the class {missing:?} of {stage:?} is missing; use PATCH to change some"))
        }
        None => Ok(TargetChange { gate, targets }),
    }
}

fn target_of(class: &str, document: &Value) -> Result<Target, String> {
    let expected = "expected one percentile and its time, such as {\"p90\": \"200ms\"}";
    let stated = object(document, class)?;
    let (1, Some((key, time))) = (stated.len(), stated.iter().next()) else {
        return Err(format!("{class:?} has {} targets; {expected}", stated.len()));
    };
    let Percentile(at) = Percentile::of_key(key)
        .ok_or_else(|| format!("{key:?} is not a percentile; {expected}"))?;
    let time = time.as_str().ok_or_else(|| format!("{time} is not a time; {expected}"))?;
    let time = parse_duration(time).map_err(|error| format!("{error}; {expected}"))?;
    Target::percentile(at, time).map_err(|error| error.to_string())
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| {
        format!(
            "{what} is not an object; expected {{\"stage\": {{\"class\": {{\"p90\": \"200ms\"}}}}}}"
        )
    })
}

fn unknown(kind: &str, name: &str, names: &[String]) -> String {
    /// Similarity of a name to the one that was probably meant.
    const ALIKE: f64 = 0.7;
    let alike = names.iter().map(|known| (strsim::jaro_winkler(name, known), known));
    let nearest = alike.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(alike, _)| *alike >= ALIKE);
    let similar = nearest.map(|(_, known)| format!(" (did you mean {known:?}?)"));
    let similar = similar.unwrap_or_default();
    format!("unknown {kind} {name:?}{similar}; known: {}", names.join(", "))
}

impl TargetChange<'_> {
    pub(super) fn apply(&self) {
        let (name, before) = (self.gate.name(), self.gate.classes());
        self.gate.set_targets(&self.targets);
        for (class, target) in &self.targets {
            let class = before.at(*class);
            let what = match &*class.name {
                "default" => format!("{name:?}"),
                class => format!("{class:?} of {name:?}"),
            };
            let from = class.target;
            tracing::info!("Target of {what} changed over the status port: {from} → {target}.");
        }
    }
}
