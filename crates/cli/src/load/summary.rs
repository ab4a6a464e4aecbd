//! The report of a run as text.

use tamarisk_load::{GroupSummary, Percentiles, Report, Summary};

use tamarisk_plot::format;

use crate::columns::aligned;

/// A generator whose own lag exceeds this at the 99th percentile is suspected of
/// being the bottleneck. Tokio's timers and a busy machine explain some
/// milliseconds.
const LAG_SUSPECT_SECONDS: f64 = 0.010;

/// The report as text of some twenty lines.
pub(super) fn render(report: &Report) -> String {
    let mut out = vec![format!("{} · seed {}", report.title(), report.seed)];
    if let Some(target) = report.target_seconds {
        out[0] += &format!(" · goodput: answered within {}", format::seconds(target));
    }
    if report.interrupted {
        out.push(format!("Ended early, after {}.", format::seconds(report.total.seconds)));
    }
    out.push(String::new());
    out.extend(aligned(&phases(report)));
    out.push(String::new());
    if !report.groups.is_empty() {
        out.extend(aligned(&groups(report)));
        out.push(String::new());
    }
    out.extend(aligned(&durations(&report.total)));
    out.push(String::new());
    out.extend(remarks(report));
    out.join("\n") + "\n"
}

fn phases(report: &Report) -> Vec<Vec<String>> {
    let head = ["phase", report.level_unit, "offered", "answered/s", "goodput/s", "rejected/s"];
    let head = head.into_iter().chain(["failed/s", "p50", "p90", "p99", "fairness"]);
    let mut rows = vec![head.map(str::to_owned).collect()];
    for phase in &report.phases {
        let level = match (format::rate(phase.level_from), format::rate(phase.level_to)) {
            (from, to) if from == to => from,
            (from, to) => format!("{from} → {to}"),
        };
        let span = format!("{}–{} s", format::rate(phase.start), format::rate(phase.end));
        let fairness = phase.fairness.map_or_else(|| "–".to_owned(), |f| format!("{f:.3}"));
        rows.push(row(span, level, &phase.summary, fairness));
    }
    if report.phases.len() > 1 {
        rows.push(row("all".to_owned(), String::new(), &report.total, String::new()));
    }
    rows
}

fn row(span: String, level: String, summary: &Summary, fairness: String) -> Vec<String> {
    let latency = |value| match summary.latency.count {
        0 => "–".to_owned(),
        _ => format::seconds(value),
    };
    vec![
        span,
        level,
        format::count(summary.offered),
        format::rate(summary.throughput),
        format::rate(summary.goodput),
        format::rate(summary.reject_rate),
        format::rate(summary.failure_rate),
        latency(summary.latency.p50),
        latency(summary.latency.p90),
        latency(summary.latency.p99),
        fairness,
    ]
}

/// A table such as figures 9 and 11 of \[Welsh03\]: each type of request, and the same for each class.
fn groups(report: &Report) -> Vec<Vec<String>> {
    let head = ["request", "ended", "answered/s", "p50", "p90", "p99", "target", "in target"];
    let head = head.into_iter().chain(["rejected", "failed"]);
    let mut rows = vec![head.map(str::to_owned).collect::<Vec<_>>()];
    let is_asked = |group: &&GroupSummary| group.summary.offered > 0;
    for group in report.groups.iter().filter(is_asked) {
        let summary = &group.summary;
        let name = match (&group.class, &group.request_type) {
            (None, Some(request_type)) => request_type.clone(),
            (Some(class), Some(request_type)) => format!("{class}: {request_type}"),
            (Some(class), None) => format!("{class}: all"),
            (None, None) => "all".to_owned(),
        };
        let ended = summary.completed + summary.rejected + summary.failed;
        let latency = |value| match summary.latency.count {
            0 => "–".to_owned(),
            _ => format::seconds(value),
        };
        rows.push(vec![
            name,
            format::count(ended),
            format::rate(summary.throughput),
            latency(summary.latency.p50),
            latency(summary.latency.p90),
            latency(summary.latency.p99),
            group.target_seconds.map_or_else(|| "–".to_owned(), format::seconds),
            share(summary.good, summary.completed),
            share(summary.rejected, ended),
            share(summary.failed, ended),
        ]);
    }
    rows
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        _ => format!("{:.1} %", 100.0 * part as f64 / whole as f64),
    }
}

fn durations(total: &Summary) -> Vec<Vec<String>> {
    let head = ["", "count", "mean", "p50", "p90", "p99", "p99.9", "max", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let lines = [
        ("latency", &total.latency, "from when a request was due to its full answer"),
        ("response time", &total.response, "from when it was sent"),
        ("connecting", &total.connect, "to establish a connection"),
        ("rejection", &total.rejection, "from when a request was due to its rejection"),
        ("generator lag", &total.generator_lag, "how late the generator itself was"),
    ];
    for (name, percentiles, meaning) in lines {
        if percentiles.count > 0 {
            let Percentiles { count, mean, p50, p90, p99, p99_9, max, .. } = *percentiles;
            let times = [mean, p50, p90, p99, p99_9, max].map(format::seconds);
            let mut row = vec![name.to_owned(), format::count(count)];
            row.extend(times);
            row.push(meaning.to_owned());
            rows.push(row);
        }
    }
    rows
}

/// What to do about errors that the service has no part in.
fn cure(kind: &str) -> Option<&'static str> {
    match kind {
        "connection refused" => Some(
            "Nothing listens at this host and port: start the service, or correct the address.",
        ),
        "no local port or descriptor" => Some(
            "This machine has no port or descriptor left: raise `ulimit -n`, or use fewer users.",
        ),
        "not sent" => Some(
            "All connections were in use, or the generator was behind: raise --connections or \
             --threads, or lower the rate.",
        ),
        _ => None,
    }
}

fn remarks(report: &Report) -> Vec<String> {
    let total = &report.total;
    let mut remarks = vec![format!(
        "{} offered = {} completed + {} rejected + {} failed + {} unfinished",
        format::count(total.offered),
        format::count(total.completed),
        format::count(total.rejected),
        format::count(total.failed),
        format::count(total.unfinished),
    )];
    if total.failed > 0 {
        let kinds = total.errors.iter().map(|(kind, n)| format!("{kind} {}", format::count(*n)));
        remarks.push(format!("Errors: {}", kinds.collect::<Vec<_>>().join(", ")));
        remarks.extend(total.errors.keys().filter_map(|kind| cure(kind)).map(str::to_owned));
    }
    if total.good == 0 {
        remarks.push(match report.target_seconds {
            Some(target) if total.completed > 0 => {
                format!("No request was answered within {}.", format::seconds(target))
            }
            _ => "No request was answered.".to_owned(),
        });
    }
    if total.generator_lag.p99 > LAG_SUSPECT_SECONDS {
        remarks.push(format!(
            "The generator was late by {} at the 99th percentile: it may have been the bottleneck.",
            format::seconds(total.generator_lag.p99)
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_not_sent_for_want_of_a_connection_or_of_time() {
        let cure = cure("not sent").unwrap();
        for part in ["in use", "generator was behind", "--connections", "--threads"] {
            assert!(cure.contains(part), "{part}: {cure}");
        }
    }
}
