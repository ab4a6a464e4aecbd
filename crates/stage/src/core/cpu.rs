//! How much of the machine's processors is in use.

use std::path::{Path, PathBuf};

use tamarisk_control::Ratio;

/// Where Linux counts the time of its processors.
const COUNTS: &str = "/proc/stat";

/// Measures the share of processor time in use since the last reading.
pub(crate) struct CpuMeter {
    file: PathBuf,
    last: Option<Ticks>,
}

/// Ticks of all processors since the system started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl CpuMeter {
    pub(crate) fn new() -> Self {
        Self::of(Path::new(COUNTS))
    }

    fn of(file: &Path) -> Self {
        Self { file: file.to_owned(), last: None }
    }

    /// None where the system does not report it, and at the first reading.
    pub(crate) fn busy(&mut self) -> Option<Ratio> {
        let now = counts(&std::fs::read_to_string(&self.file).ok()?)?;
        let last = self.last.replace(now)?;
        let all = now.all.checked_sub(last.all).filter(|&all| all > 0)?;
        let idle = now.idle.saturating_sub(last.idle);
        Some(Ratio::saturating(1.0 - idle as f64 / all as f64))
    }
}

/// Of `cpu user nice system idle iowait irq softirq steal guest …`: a processor
/// that waits for a disk is idle, and a guest's time is in the user's already.
fn counts(text: &str) -> Option<Ticks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).flat_map(str::parse).collect();
    let (&idle, &waiting) = (ticks.get(3)?, ticks.get(4)?);
    Some(Ticks { idle: idle + waiting, all: ticks.iter().sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_in_use_is_of_the_time_since_the_last_question() {
        let file = std::env::temp_dir().join(format!("tamarisk-cpu-{}", std::process::id()));
        let mut meter = CpuMeter::of(&file);
        let mut busy = |text: &str| {
            std::fs::write(&file, text).expect("the folder can be written to");
            meter.busy().map(Ratio::get)
        };
        assert_eq!(busy("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1\n"), None);
        assert_eq!(busy("cpu  150 0 100 740 110 0 0 0 0 0\n"), Some(0.5));
        assert_eq!(busy("cpu  150 0 100 740 110 0 0 0 0 0\n"), None, "no time has passed");
        assert_eq!(busy("cpu  5 0 0 5 0 0 0 0\n"), None, "the counts began anew");
        assert_eq!(busy("nothing of the kind"), None);
        std::fs::remove_file(&file).expect("it is there");
    }

    #[test]
    fn this_system_tells() {
        if Path::new(COUNTS).exists() {
            let mut meter = CpuMeter::new();
            assert_eq!(meter.busy(), None);
            assert!(meter.last.is_some_and(|counts| counts.all > 0));
        }
    }
}
