//! The progress line of an import.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};

use super::import_summary::ImportSummary;

/// Between lines where the standard error is not a terminal.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Shows how far an import is: on a terminal as one line that renews itself, elsewhere as a plain
/// line now and then. Always on the standard error.
pub(super) struct ImportProgress {
    total_bytes: u64,
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Plain { next: Instant },
}

impl ImportProgress {
    pub(super) fn new(total_bytes: u64) -> Self {
        let shown = if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template(
                "{bar:20.green/dim} {bytes} of {total_bytes}  {msg}  {eta} left",
            )
            .expect("the template is well-formed");
            Shown::Bar(ProgressBar::new(total_bytes).with_style(style.progress_chars("━━─")))
        } else {
            Shown::Plain { next: Instant::now() + PLAIN_EVERY }
        };
        Self { total_bytes, shown }
    }

    pub(super) fn show(&mut self, read_bytes: u64, summary: &ImportSummary) {
        let messages = HumanCount(summary.imported);
        match &mut self.shown {
            Shown::Bar(bar) => {
                bar.set_position(read_bytes);
                bar.set_message(format!("{messages} messages"));
            }
            Shown::Plain { next } if Instant::now() >= *next => {
                *next = Instant::now() + PLAIN_EVERY;
                let (read, total) = (HumanBytes(read_bytes), HumanBytes(self.total_bytes));
                eprintln!("{read} of {total}  {messages} messages");
            }
            Shown::Plain { .. } => {}
        }
    }

    pub(super) fn finish(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
