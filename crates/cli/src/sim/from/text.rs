//! The scenario as text.

use std::fmt::Write;

use tamarisk_catalogue::admission;
use tamarisk_control::{Percentile, Ratio};

use super::status::{ServiceProfile, Stage, Status};

/// How much of the classes' differences is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// One service for all classes of a stage.
    Alike,
    /// Each class has its own.
    ByClass,
}

/// Service that varies less than this is as good as constant: more Erlang stages would
/// cost and show nothing.
const ERLANG_MOST: f64 = 20.0;

pub(super) fn scenario(url: &str, status: &Status, detail: Detail) -> String {
    let window = status.stages.iter().map(|stage| stage.profile.window_seconds);
    let window = window.fold(0.0, f64::max);
    let mut text = format!("# From {url}: the last {window:.1} s.\n");
    if status.stages.len() > 1 {
        text += "# How requests go from stage to stage is not known: each has its arrivals from outside.\n";
    }
    let (seen, idle): (Vec<_>, Vec<_>) = status.stages.iter().partition(|stage| stage.has_served());
    for stage in idle {
        let _ = writeln!(text, "# {:?} has served nothing of late, and is left out.", stage.name);
    }
    text += "duration = \"60s\"\nwarm_up = \"10s\"\n";
    // Stages may have classes of the same name with other promises.
    let own_names = status.stages.len() > 1;
    let name = |stage: &Stage, class: &str| match own_names {
        true => format!("{}.{class}", stage.name),
        false => class.to_owned(),
    };
    for stage in &seen {
        for class in &stage.classes {
            let _ = write!(
                text,
                "\n[classes.{}]\n{} = {}\n",
                quoted(&name(stage, &class.name)),
                Percentile(Ratio::saturating(class.target.percentile_ratio)).key(),
                seconds(class.target.seconds)
            );
        }
    }
    for stage in seen {
        write_stage(&mut text, stage, detail, |class| name(stage, class));
        write_clients(&mut text, stage, |class| name(stage, class));
    }
    text
}

fn write_stage(text: &mut String, stage: &Stage, detail: Detail, name: impl Fn(&str) -> String) {
    let profiles = stage.classes.iter().filter_map(|class| class.profile.as_ref());
    let Some(all) = ServiceProfile::together(profiles) else { return };
    let seen = stage.profile.in_progress_count;
    let workers = seen.unwrap_or_else(|| f64::from(stage.workers)).round().max(1.0);
    // Workers are whole, and what they get done is to be what was measured.
    let adjusted = workers / seen.unwrap_or(workers);
    let name_of_stage = quoted(&stage.name);
    let _ = write!(text, "\n[stages.{name_of_stage}]\nworkers = {workers}\n");
    if seen.is_none() {
        *text +=
            "# No request waited: this many may be worked on at once, and fewer may be able to.\n";
    } else {
        let crowded = stage.profile.crowded_ratio * 100.0;
        let _ = writeln!(
            text,
            "# In progress on average while requests waited, {crowded:.0} % of the time."
        );
    }
    if stage.queue_capacity > 0 {
        let _ = writeln!(text, "queue = {}", stage.queue_capacity.min(1_000_000));
    }
    // As `protect` serves the queues before upstreams, and stages theirs if nothing else is said.
    let discipline = if stage.runs == "gate" { "earliest-due" } else { "adaptive-lifo" };
    let _ = writeln!(text, "discipline = \"{discipline}\"");
    let _ = writeln!(text, "service = {}", service(&all, adjusted));
    if admission(&stage.law.name).is_some() {
        let _ = writeln!(text, "admission = {}", quoted(&stage.law.name));
    }
    if detail == Detail::ByClass {
        for class in &stage.classes {
            let Some(own) = &class.profile else { continue };
            let (stage, class) = (quoted(&stage.name), quoted(&name(&class.name)));
            let _ = write!(text, "\n[stages.{stage}.classes.{class}]\n");
            let _ = writeln!(text, "service = {}", service(own, adjusted));
        }
    }
}

fn write_clients(text: &mut String, stage: &Stage, name: impl Fn(&str) -> String) {
    let rate: f64 = stage.classes.iter().map(|class| class.arrivals_per_second).sum();
    let _ = write!(
        text,
        "\n[clients.{}]\nenter = {}\nopen = \"{rate:.3}/s\"\n",
        quoted(&stage.name),
        quoted(&stage.name)
    );
    if rate <= 0.0 {
        return;
    }
    // Shares add up to one: the last has what the others leave.
    let mut left = 1.0;
    let mut mix = Vec::new();
    for (index, class) in stage.classes.iter().enumerate() {
        let share = match index + 1 == stage.classes.len() {
            true => left,
            false => (class.arrivals_per_second / rate * 1e6).round() / 1e6,
        };
        left = ((left - share) * 1e6).round() / 1e6;
        mix.push(format!("{} = {share}", quoted(&name(&class.name))));
    }
    let _ = writeln!(text, "mix = {{ {} }}", mix.join(", "));
}

/// Work with this mean and variation, of the kinds that have a closed form.
fn service(service: &ServiceProfile, times: f64) -> String {
    let mean = seconds(service.mean_seconds * times);
    let stages = (1.0 / service.variation_squared.max(1.0 / ERLANG_MOST)).round();
    let time = match service.variation_squared {
        square if square > 1.05 => {
            format!("hyper_exponential = {mean}, variation = {:.4}", square.sqrt())
        }
        _ if stages > 1.0 => format!("erlang = {mean}, stages = {stages}"),
        _ => format!("exponential = {mean}"),
    };
    format!("{{ {time} }}")
}

fn seconds(seconds: f64) -> String {
    format!("\"{}ms\"", (seconds * 1e7).round().max(1.0) / 1e4)
}

/// As a key or a value of TOML: a name as scenarios take it.
fn quoted(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    format!("\"{}\"", text.chars().map(plain).take(NAME_MAX).collect::<String>())
}

/// The longest name of a stage or class in a scenario.
const NAME_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use tamarisk_model::scenario;
    use tamarisk_model::sim::Discipline;

    use super::*;

    fn status(variation_squared: f64, in_progress: &str) -> Status {
        let class = |name: &str, rate: f64, mean: f64| {
            format!(
                r#"{{ "name": "{name}", "target": {{ "percentile_ratio": 0.9, "seconds": 0.2 }},
                "arrivals_per_second": {rate}, "profile": {{ "mean_seconds": {mean},
                "variation_squared": {variation_squared}, "buckets": [{{ "count": 50 }}] }} }}"#
            )
        };
        let text = format!(
            r#"{{ "stages": [{{ "name": "app", "runs": "gate", "workers": 32, "queue_capacity": 10000,
            "profile": {{ "window_seconds": 7.5, "crowded_ratio": 0.5,
            "in_progress_count": {in_progress} }}, "law": {{ "name": "work-limit" }},
            "classes": [{}, {}] }}] }}"#,
            class("gold:a", 25.0, 0.01),
            class("default", 75.0, 0.03)
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_stage_that_has_served_nothing_is_left_out() {
        let mut status = status(1.0, "7.6");
        let mut idle = self::status(1.0, "null").stages.remove(0);
        idle.name = "idle".into();
        idle.classes.iter_mut().for_each(|class| class.profile = None);
        status.stages.push(idle);
        let text = scenario("there", &status, Detail::Alike);
        let file = scenario::parse("live.toml", &text).unwrap();
        let names: Vec<_> = file.scenario.stages.iter().map(|stage| &*stage.name).collect();
        assert_eq!(names, ["app"]);
        assert_eq!(file.scenario.clients.len(), 1);
        assert!(text.contains("# \"idle\" has served nothing"), "{text}");
    }

    #[test]
    fn workers_and_service_keep_the_measured_capacity() {
        for variation_squared in [0.0, 0.3, 1.0, 4.0] {
            let text = scenario("there", &status(variation_squared, "7.6"), Detail::Alike);
            let file = scenario::parse("live.toml", &text).unwrap();
            let network = file.network(None).unwrap();
            // 7.6 in progress, each for 20 ms, the mean of both classes.
            let capacity = network.limit().arrivals.get();
            assert!((capacity / 380.0 - 1.0).abs() < 1e-5, "{capacity}");
            assert!((network.arrivals().get() - 100.0).abs() < 1e-6);
            let admission = file.laws[0].1.admission.as_ref().unwrap();
            assert_eq!(admission.name(), "work-limit");
        }
    }

    #[test]
    fn a_stage_where_nothing_waited_has_the_workers_that_it_says() {
        let text = scenario("there", &status(1.0, "null"), Detail::ByClass);
        let file = scenario::parse("live.toml", &text).unwrap();
        assert_eq!(file.scenario.stages[0].workers, 32);
        let of_class = &file.scenario.stages[0].service_of;
        assert_eq!((of_class.len(), &*of_class[0].0), (2, "gold-a"));
    }

    #[test]
    fn a_queue_before_an_upstream_is_served_as_protect_serves_it() {
        let mut status = status(1.0, "7.6");
        let discipline = |status: &Status| {
            let text = scenario("there", status, Detail::Alike);
            scenario::parse("live.toml", &text).unwrap().scenario.stages[0].discipline
        };
        assert_eq!(discipline(&status), Discipline::EarliestDue);
        status.stages[0].runs = "threads".to_owned();
        assert_eq!(discipline(&status), Discipline::AdaptiveLifo);
    }

    #[test]
    fn several_stages_stand_side_by_side_and_the_file_says_so() {
        let mut status = status(1.0, "7.6");
        assert!(!scenario("there", &status, Detail::Alike).contains("from stage to stage"));
        let mut other = self::status(1.0, "3").stages;
        other[0].name = "db".to_owned();
        status.stages.append(&mut other);
        let text = scenario("there", &status, Detail::Alike);
        assert!(text.contains("# How requests go from stage to stage is not known"), "{text}");
        let file = scenario::parse("live.toml", &text).unwrap();
        let entries: Vec<_> = file.scenario.clients.iter().map(|client| &*client.entry).collect();
        assert_eq!(entries, ["app", "db"]);
        assert!(file.scenario.stages.iter().all(|stage| stage.routes.is_empty()));
    }
}
