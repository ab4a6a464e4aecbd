//! The status in the text format of Prometheus
//! [exposition formats, version 0.0.4](https://prometheus.io/docs/instrumenting/exposition_formats/).

use std::fmt::Write;

use tamarisk_stage::{ClassObservation, StageObservation, TimeHistogram};

use super::Board;
use crate::process::Process;

pub(super) fn render(board: &Board) -> String {
    let stages = board.observe();
    let mut text = Text::default();
    text.family("tamarisk_build_info", "gauge", "Always 1; the label says which version runs.");
    text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    text.family("tamarisk_uptime_seconds", "gauge", "Time since the start.");
    text.sample(&[], board.uptime().as_secs_f64());
    if let Some(connections) = board.connections() {
        text.family("tamarisk_connections", "gauge", "Open client connections.");
        text.sample(&[], connections as f64);
    }
    text.family(
        "tamarisk_responses_total",
        "counter",
        "Responses sent to clients, by status code.",
    );
    for (code, count) in board.responses() {
        text.sample(&[("code", code.as_str())], count as f64);
    }
    for counter in board.counters() {
        text.family(&format!("tamarisk_{}_total", counter.name), "counter", counter.help);
        text.sample(&[], (counter.read)() as f64);
    }
    requests(&mut text, &stages);
    capacity(&mut text, &stages);
    times(&mut text, &stages);
    histograms(&mut text, &stages);
    law(&mut text, &stages);
    if let Some(process) = Process::read() {
        of_process(&mut text, &process);
    }
    text.0
}

fn requests(text: &mut Text, stages: &[StageObservation]) {
    text.family("tamarisk_offered_total", "counter", "Requests received, admitted or not.");
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.accounts.offered as f64);
    }
    text.family("tamarisk_outcomes_total", "counter", "Requests that have ended, by outcome.");
    for (stage, class) in classes(stages) {
        let accounts = &class.accounts;
        for (outcome, count) in [
            ("completed", accounts.completed),
            ("rejected", accounts.rejected),
            ("dropped", accounts.dropped),
            ("terminated", accounts.terminated),
            ("failed", accounts.failed),
            ("abandoned", accounts.abandoned),
        ] {
            let labels = [("stage", &*stage.name), ("class", &*class.name), ("outcome", outcome)];
            text.sample(&labels, count as f64);
        }
    }
    text.family("tamarisk_rejections_total", "counter", "Rejected requests, by reason.");
    for stage in stages {
        for (reason, count) in &stage.rejections {
            text.sample(&[("stage", &stage.name), ("reason", reason.as_str())], *count as f64);
        }
    }
    text.family("tamarisk_queued", "gauge", "Requests in the queue.");
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.accounts.queued as f64);
    }
    text.family("tamarisk_running", "gauge", "Requests being served that occupy a worker.");
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.accounts.running as f64);
    }
    text.family(
        "tamarisk_parked",
        "gauge",
        "Requests being served for so long that they occupy no worker any more.",
    );
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.accounts.parked as f64);
    }
    text.family(
        "tamarisk_suspended",
        "gauge",
        "Requests that wait for their clients, or streams that send nothing, and occupy no worker.",
    );
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.accounts.suspended as f64);
    }
}

fn capacity(text: &mut Text, stages: &[StageObservation]) {
    text.family("tamarisk_workers", "gauge", "Requests that may be served concurrently.");
    for stage in stages {
        text.of_stage(stage, f64::from(stage.workers));
    }
    text.family(
        "tamarisk_busy_ratio",
        "gauge",
        "Share of the workers' time spent on requests in the last 5 to 10 seconds.",
    );
    for stage in stages {
        text.of_stage(stage, stage.busy.get());
    }
    text.family(
        "tamarisk_quality_ratio",
        "gauge",
        "Quality of service: 1 is full, less is degraded.",
    );
    for stage in stages {
        text.of_stage(stage, stage.quality.get());
    }
    text.family(
        "tamarisk_batch_events",
        "gauge",
        "Most requests that a worker takes in one batch.",
    );
    for stage in stages {
        if let Some(batch) = stage.batch {
            text.of_stage(stage, f64::from(batch));
        }
    }
    text.family(
        "tamarisk_run_limit_seconds",
        "gauge",
        "Longest time that a request may be served before it is terminated.",
    );
    for (stage, class) in classes(stages) {
        if let Some(limit) = class.run_limit {
            text.of_class(stage, class, limit.as_secs_f64());
        }
    }
    text.family("tamarisk_queue_capacity", "gauge", "Most requests that the queue holds.");
    for stage in stages {
        text.of_stage(stage, stage.queue_capacity as f64);
    }
}

fn times(text: &mut Text, stages: &[StageObservation]) {
    text.family(
        "tamarisk_target_seconds",
        "gauge",
        "Target of the response time, at the percentile of the class.",
    );
    for (stage, class) in classes(stages) {
        text.of_class(stage, class, class.target.as_secs_f64());
    }
    let kinds: [(&str, &str, Kind); 2] = [
        (
            "tamarisk_response_seconds",
            "Response time, queued and served, by percentile, in the last 5 to 10 seconds.",
            |class| class.response,
        ),
        (
            "tamarisk_service_seconds",
            "Time served, by percentile, in the last 5 to 10 seconds.",
            |class| class.service,
        ),
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

/// Times since the start, in buckets.
fn histograms(text: &mut Text, stages: &[StageObservation]) {
    let kinds: [(&str, &str, Since); 3] = [
        (
            "tamarisk_queue_time_seconds",
            "Time that completed requests were queued before they were served.",
            |class| &class.queue_times,
        ),
        (
            "tamarisk_service_time_seconds",
            "Time that completed requests were served, without waiting for their clients. \
             For the stage of an upstream this is the upstream's time.",
            |class| &class.service_times,
        ),
        (
            "tamarisk_response_time_seconds",
            "Time that completed requests were queued and served.",
            |class| &class.response_times,
        ),
    ];
    for (name, help, times) in kinds {
        text.family(name, "histogram", help);
        for (stage, class) in classes(stages) {
            text.histogram(&[("stage", &stage.name), ("class", &class.name)], times(class));
        }
    }
}

type Since = fn(&ClassObservation) -> &TimeHistogram;

/// Standard metrics of a process, under their usual names.
fn of_process(text: &mut Text, process: &Process) {
    let gauge = "gauge";
    let all = [
        (
            "process_cpu_seconds_total",
            "counter",
            "User and system CPU time in seconds.",
            Some(process.cpu_seconds),
        ),
        (
            "process_resident_memory_bytes",
            gauge,
            "Resident memory in bytes.",
            Some(process.resident_bytes as f64),
        ),
        (
            "process_virtual_memory_bytes",
            gauge,
            "Virtual memory in bytes.",
            Some(process.virtual_bytes as f64),
        ),
        (
            "process_open_fds",
            gauge,
            "Open file descriptors.",
            process.open_files.map(|count| count as f64),
        ),
        (
            "process_max_fds",
            gauge,
            "Largest number of open file descriptors.",
            process.open_files_max.map(|count| count as f64),
        ),
        (
            "process_start_time_seconds",
            gauge,
            "Start of the process in seconds since the Unix epoch.",
            process.started_seconds,
        ),
        ("process_threads", gauge, "Threads of the process.", Some(process.threads as f64)),
    ];
    for (name, kind, help, value) in all {
        if let Some(value) = value {
            text.family(name, kind, help);
            text.sample(&[], value);
        }
    }
}

type Kind = fn(&ClassObservation) -> Option<tamarisk_stage::Percentiles>;

fn law(text: &mut Text, stages: &[StageObservation]) {
    text.family("tamarisk_law", "gauge", "Controllers of a stage: always 1; labels name them.");
    for stage in stages {
        for law in &stage.laws {
            text.sample(&[("stage", &*stage.name), ("rules", law.rules), ("law", law.name)], 1.0);
        }
    }
    text.family(
        "tamarisk_law_knob",
        "gauge",
        "Settings of the controllers that were chosen by name.",
    );
    for stage in stages {
        for law in &stage.laws {
            for (name, value) in &law.knobs {
                let labels = [("stage", &*stage.name), ("law", law.name), ("name", name)];
                text.sample(&labels, *value);
            }
        }
    }
    text.family(
        "tamarisk_law_reading",
        "gauge",
        "Settings and estimates of the admission controller.",
    );
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

    fn histogram(&mut self, labels: &[(&str, &str)], times: &TimeHistogram) {
        let count = times.count() as f64;
        let bounds = times.buckets().map(|(bound, count)| {
            let bound = bound.as_secs_f64().to_string();
            (bound, count as f64)
        });
        for (bound, count) in bounds.chain([("+Inf".to_owned(), count)]) {
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
            self.sample_of("_bucket", &labels, count);
        }
        self.sample_of("_sum", labels, times.sum_seconds());
        self.sample_of("_count", labels, count);
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.sample_of("", labels, value);
    }

    /// Writing to a string does not fail.
    fn sample_of(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(&self.1);
        self.0.push_str(suffix);
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
