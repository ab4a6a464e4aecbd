//! What the benchmarks share: CPU time from the system's accounting, and a
//! result with its spread.

pub mod busy_clients;
pub mod core_share;
pub mod file_set;
pub mod identity;
pub mod load;
pub mod machine;
pub mod process;
pub mod real_traffic;
pub mod wrk;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// CPU time that this process has used, in user and system mode.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// CPU time of another process by its id: the sum over its live threads, right
/// to within a few milliseconds.
///
/// # Panics
/// If there is no such process.
pub fn cpu_time_of(process: &str) -> Duration {
    threads_of(process).filter_map(|thread| time_of_thread(&thread)).sum()
}

/// The same of those of its threads that have this name.
///
/// # Panics
/// If there is no such process.
pub fn cpu_time_of_threads(process: &str, name: &str) -> Duration {
    let is_named = |thread: &PathBuf| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    threads_of(process).filter(is_named).filter_map(|thread| time_of_thread(&thread)).sum()
}

fn threads_of(process: &str) -> impl Iterator<Item = PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process runs");
    tasks.filter_map(|entry| entry.ok().map(|entry| entry.path()))
}

/// CPU time of one thread of a process, by their ids.
///
/// # Panics
/// If there is no such thread.
pub fn cpu_time_of_thread(process: &str, thread: &str) -> Duration {
    let path = format!("/proc/{process}/task/{thread}");
    time_of_thread(Path::new(&path)).expect("the thread runs")
}

/// CPU time of the processes that this one has started and seen end, right to 10 ms.
///
/// # Panics
/// If the system keeps no account of this process in `/proc`.
pub fn cpu_time_of_the_ended() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("this process runs");
    // The second field is a name in brackets, with any characters in it. The 16th and the 17th
    // are the time in user and in system mode [proc_pid_stat(5)].
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// What the system's account of the thread in `/proc` says.
fn time_of_thread(path: &Path) -> Option<Duration> {
    let stat = std::fs::read_to_string(path.join("schedstat")).ok()?;
    stat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The results of `repetitions` runs of `run`.
pub fn repeated(repetitions: usize, mut run: impl FnMut() -> f64) -> Spread {
    spread((0..repetitions).map(|_| run()).collect())
}

/// The median of some results, with the least and the greatest.
///
/// # Panics
/// If there are none.
pub fn spread(mut results: Vec<f64>) -> Spread {
    results.sort_by(f64::total_cmp);
    let (least, greatest) = (results[0], results[results.len() - 1]);
    let middle = results.len() / 2;
    let median = match results.len() % 2 {
        0 => f64::midpoint(results[middle - 1], results[middle]),
        _ => results[middle],
    };
    Spread { median, least, greatest }
}

/// The same of those results that are numbers, if there are any.
pub fn spread_of_numbers(mut results: Vec<f64>) -> Option<Spread> {
    results.retain(|result| !result.is_nan());
    (!results.is_empty()).then(|| spread(results))
}

/// A result and how far its repetitions lay apart.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The one in the middle, or the mean of the two that are.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub greatest: f64,
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:8.2}  ({:.2} … {:.2})", self.median, self.least, self.greatest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_results_is_the_mean_of_the_two_in_the_middle() {
        assert_eq!(spread(vec![1.0, 3.0]).median, 2.0);
        assert_eq!(spread(vec![8.0, 1.0, 2.0, 4.0]).median, 3.0);
        assert_eq!(spread(vec![3.0, 9.0, 1.0]).median, 3.0);
        assert_eq!(spread(vec![5.0]).median, 5.0);
    }

    #[test]
    fn what_is_no_number_has_no_part_in_a_spread() {
        for nan in [f64::NAN, -f64::NAN] {
            let known = spread_of_numbers(vec![nan, 4.0, 2.0]).unwrap();
            assert_eq!((known.median, known.least, known.greatest), (3.0, 2.0, 4.0));
            assert!(spread_of_numbers(vec![nan]).is_none());
        }
    }
}
