//! The status in the text format of Prometheus
//! [exposition formats, version 0.0.4](https://prometheus.io/docs/instrumenting/exposition_formats/).

use std::fmt::Write;

use tamarisk_stage::{ClassObservation, StageObservation};

use super::Board;

pub(super) fn render(board: &Board) -> String {
    let stages = board.observe();
    let mut text = Text::default();
    text.family("tamarisk_uptime_seconds", "gauge", "Time since the start.");
    text.sample(&[], board.uptime().as_secs_f64());
    if let Some(connections) = board.connections() {
        text.family("tamarisk_connections", "gauge", "Open client connections.");
        text.sample(&[], connections as f64);
    }
    for counter in board.counters() {
        text.family(&format!("tamarisk_{}_total", counter.name), "counter", counter.help);
        text.sample(&[], (counter.read)() as f64);
    }
    events(&mut text, &stages);
    capacity(&mut text, &stages);
    times(&mut text, &stages);
    law(&mut text, &stages);
    text.0
}

fn events(text: &mut Text, stages: &[StageObservation]) {
    text.family("tamarisk_offered_total", "counter", "Events that asked to enter a stage.");
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.accounts.offered as f64);
    }
    text.family("tamarisk_outcomes_total", "counter", "What became of events, each counted once.");
    for (stage, class) in classes(stages) {
        let accounts = &class.accounts;
        for (outcome, count) in [
            ("completed", accounts.completed),
            ("rejected", accounts.rejected),
            ("dropped", accounts.dropped),
            ("terminated", accounts.terminated),
            ("failed", accounts.failed),
        ] {
            let labels = [("stage", &*stage.name), ("class", &*class.name), ("outcome", outcome)];
            text.sample(&labels, count as f64);
        }
    }
    text.family("tamarisk_rejections_total", "counter", "Rejections by the rule that said no.");
    for stage in stages {
        for (reason, count) in &stage.rejections {
            text.sample(&[("stage", &stage.name), ("reason", reason.as_str())], *count as f64);
        }
    }
    text.family("tamarisk_queued", "gauge", "Events in the queue.");
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.accounts.queued as f64);
    }
    text.family("tamarisk_running", "gauge", "Events being worked on.");
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.accounts.running as f64);
    }
    text.family(
        "tamarisk_parked",
        "gauge",
        "Events worked on for so long that they hold no place any more.",
    );
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.accounts.parked as f64);
    }
    text.family(
        "tamarisk_suspended",
        "gauge",
        "Events that wait for their own clients, without a place.",
    );
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.accounts.suspended as f64);
    }
}

fn capacity(text: &mut Text, stages: &[StageObservation]) {
    text.family("tamarisk_workers", "gauge", "How many events may be worked on at once.");
    for stage in stages {
        text.of_stage(stage, f64::from(stage.workers));
    }
    text.family("tamarisk_busy_ratio", "gauge", "Share of the workers' time spent on events.");
    for stage in stages {
        text.of_stage(stage, stage.busy.get());
    }
    text.family("tamarisk_quality_ratio", "gauge", "How well events are to be served.");
    for stage in stages {
        text.of_stage(stage, stage.quality.get());
    }
    text.family("tamarisk_batch_events", "gauge", "Most events that a worker takes at once.");
    for stage in stages {
        if let Some(batch) = stage.batch {
            text.of_stage(stage, f64::from(batch));
        }
    }
    text.family("tamarisk_run_limit_seconds", "gauge", "How long an event may run.");
    for (stage, class) in classes(stages) {
        if let Some(limit) = class.run_limit {
            text.of_class(stage, class, limit.as_secs_f64());
        }
    }
    text.family("tamarisk_queue_capacity", "gauge", "Most events that the queue holds.");
    for stage in stages {
        text.of_stage(stage, stage.queue_capacity as f64);
    }
}

fn times(text: &mut Text, stages: &[StageObservation]) {
    text.family("tamarisk_target_seconds", "gauge", "Promised response time.");
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.target.as_secs_f64());
    }
    let kinds: [(&str, &str, Kind); 2] = [
        (
            "tamarisk_response_seconds",
            "Time from entering the stage to the end, of late.",
            |class| class.response,
        ),
        ("tamarisk_service_seconds", "Time from leaving the queue to the end, of late.", |class| {
            class.service
        }),
    ];
    for (name, help, kind) in kinds {
        text.family(name, "gauge", help);
        for (stage, class) in classes(stages) {
            let Some(times) = kind(class) else { continue };
            for (at, time) in
                [("p50", times.p50), ("p90", times.p90), ("p99", times.p99), ("max", times.max)]
            {
                let labels = [("stage", &*stage.name), ("class", &*class.name), ("at", at)];
                text.sample(&labels, time.as_secs_f64());
            }
        }
    }
}

type Kind = fn(&ClassObservation) -> Option<tamarisk_stage::Percentiles>;

fn law(text: &mut Text, stages: &[StageObservation]) {
    text.family("tamarisk_law", "gauge", "1 for each law that rules a stage.");
    for stage in stages {
        for law in &stage.laws {
            text.sample(&[("stage", &*stage.name), ("rules", law.rules), ("law", law.name)], 1.0);
        }
    }
    text.family("tamarisk_law_knob", "gauge", "Constants of the laws that were chosen by name.");
    for stage in stages {
        for law in &stage.laws {
            for (name, value) in &law.knobs {
                let labels = [("stage", &*stage.name), ("law", law.name), ("name", name)];
                text.sample(&labels, *value);
            }
        }
    }
    text.family("tamarisk_law_reading", "gauge", "Knobs and estimates of the admission law.");
    for stage in stages {
        for reading in &stage.readings {
            let labels = [
                ("stage", &*stage.name),
                ("law", stage.law),
                ("name", &*reading.name),
                ("class", reading.class.as_deref().unwrap_or_default()),
            ];
            text.sample(&labels, reading.value);
        }
    }
}

fn classes(
    stages: &[StageObservation],
) -> impl Iterator<Item = (&StageObservation, &ClassObservation)> {
    stages.iter().flat_map(|stage| stage.classes.iter().map(move |class| (stage, class)))
}

/// Text in the making; samples belong to the family begun last.
#[derive(Default)]
struct Text(String, String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        name.clone_into(&mut self.1);
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn of_stage(&mut self, stage: &StageObservation, value: f64) {
        self.sample(&[("stage", &stage.name)], value);
    }

    fn of_class(&mut self, stage: &StageObservation, class: &ClassObservation, value: f64) {
        self.sample(&[("stage", &stage.name), ("class", &class.name)], value);
    }

    /// Writing to a string does not fail.
    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(&self.1);
        for (index, (name, label)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{name}=\"");
            for character in label.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let value = match value {
            value if value.is_nan() => "NaN".to_owned(),
            f64::INFINITY => "+Inf".to_owned(),
            f64::NEG_INFINITY => "-Inf".to_owned(),
            value => value.to_string(),
        };
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_infinities_spelled() {
        let mut text = Text::default();
        text.family("a", "gauge", "Help.");
        text.sample(&[("x", "q\"b\\n\n"), ("y", "")], f64::INFINITY);
        text.sample(&[], 0.25);
        let expected =
            "# HELP a Help.\n# TYPE a gauge\na{x=\"q\\\"b\\\\n\\n\",y=\"\"} +Inf\na 0.25\n";
        assert_eq!(text.0, expected);
    }
}
