//! The live table of a run, a line per interval.

use std::io::{self, Write};

use tamarisk_load::Interval;

use tamarisk_plot::format;

/// Characters of the bar of a goodput at the service's capacity.
const BAR_LENGTH: usize = 20;

/// The table of one run, on the standard output.
pub(super) struct Table {
    /// The goodput of a full bar, a second.
    capacity: f64,
}

impl Table {
    /// Writes the title and the heads of the columns.
    pub(super) fn begin(title: &str, capacity: f64) -> Self {
        say(title);
        let heads = ["time", "users", "answered/s", "in target/s", "", "p90", "rejected/s"];
        say(&line(heads.map(str::to_owned), "in flight"));
        Self { capacity }
    }

    /// Writes the line of an interval; what little there is after the last user
    /// has gone, while requests drain, is left out.
    pub(super) fn add(&self, interval: &Interval) {
        if interval.level == 0.0 {
            return;
        }
        let rate = |count| format::rate(interval.rate(count).round());
        let p90 = match interval.latency.count {
            0 => "–".to_owned(),
            _ => format::seconds(interval.latency.p90),
        };
        let cells = [
            format!("{:.1} s", interval.start + interval.seconds),
            format::rate(interval.level),
            rate(interval.completed),
            rate(interval.good),
            bar(interval.rate(interval.good) / self.capacity),
            p90,
            rate(interval.rejected),
        ];
        say(&line(cells, &format::count(interval.in_flight)));
    }
}

fn line([time, users, answered, good, bar, p90, rejected]: [String; 7], inside: &str) -> String {
    format!(
        "{time:>7} {users:>6} {answered:>11} {good:>12} {bar:<BAR_LENGTH$} {p90:>9} {rejected:>11} {inside:>10}"
    )
}

/// A bar of eighths of characters, full at a `share` of one.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * BAR_LENGTH as f64 * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A closed standard output is no reason to stop a run.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(0.5), "█".repeat(10));
        assert_eq!(bar(1.0 / 160.0), "▏");
        assert_eq!(bar(1.2), "█".repeat(20));
    }
}
