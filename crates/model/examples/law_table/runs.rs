//! Many runs on all cores, with an estimate of the time left.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::cell::{Numbers, Place};
use crate::row::Row;
use crate::timeline::Beginning;

/// One run to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) place: usize,
    pub(crate) row: usize,
    pub(crate) beginning: Beginning,
    pub(crate) seed: u64,
}

/// Runs `jobs` in their order, and gives what each came to to `done` as it is finished.
///
/// # Errors
/// The first of `done`, after which no further job is begun.
pub(crate) fn run(
    places: &[Place],
    rows: &[Row],
    jobs: &[Job],
    mut done: impl FnMut(Job, Vec<Numbers>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    let mut progress = Progress::new(jobs, cores);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            let (next, send) = (&next, send.clone());
            scope.spawn(move || {
                while let Some(&job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let numbers = places[job.place].run(&rows[job.row], job.beginning, job.seed);
                    if send.send((job, numbers, begun.elapsed())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (job, numbers, time) in receive {
            progress.finished(job, time);
            done(job, numbers)?;
        }
        Ok(())
    })
}

/// How long runs took, by situation and beginning.
struct Progress {
    cores: usize,
    kinds: Vec<Kind>,
    told: Instant,
}

#[derive(Clone, Default)]
struct Kind {
    left: u32,
    finished: u32,
    time: Duration,
}

const TOLD_EVERY: Duration = Duration::from_secs(10);

impl Progress {
    fn new(jobs: &[Job], cores: usize) -> Self {
        let mut kinds = Vec::new();
        for job in jobs {
            Self::kind(&mut kinds, *job).left += 1;
        }
        Self { cores, kinds, told: Instant::now() }
    }

    fn kind(kinds: &mut Vec<Kind>, job: Job) -> &mut Kind {
        let index = job.place * Beginning::ALL.len() + job.beginning as usize;
        if index >= kinds.len() {
            kinds.resize(index + 1, Kind::default());
        }
        &mut kinds[index]
    }

    fn finished(&mut self, job: Job, time: Duration) {
        let kind = Self::kind(&mut self.kinds, job);
        kind.left -= 1;
        kind.finished += 1;
        kind.time += time;
        if self.told.elapsed() >= TOLD_EVERY {
            self.told = Instant::now();
            let left: u32 = self.kinds.iter().map(|kind| kind.left).sum();
            let minutes = self.left().as_secs().div_ceil(60);
            eprintln!("{left} runs left, some {minutes} min");
        }
    }

    /// A kind that has not run yet takes as long as all others on the mean.
    fn left(&self) -> Duration {
        let finished: u32 = self.kinds.iter().map(|kind| kind.finished).sum();
        let time: Duration = self.kinds.iter().map(|kind| kind.time).sum();
        let of = |kind: &Kind| match kind.finished {
            0 => time / finished.max(1) * kind.left,
            finished => kind.time / finished * kind.left,
        };
        self.kinds.iter().map(of).sum::<Duration>() / self.cores as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_by_the_mean_of_each_kind() {
        let job = |beginning| Job { place: 0, row: 0, beginning, seed: 1 };
        let jobs = [Beginning::Cold, Beginning::Cold, Beginning::Calm, Beginning::Calm].map(job);
        let mut progress = Progress::new(&jobs, 2);
        progress.finished(jobs[0], Duration::from_secs(1));
        // One more of 1 s, and two of which nothing is known, on two cores.
        assert_eq!(progress.left(), Duration::from_millis(1500));
        progress.finished(jobs[2], Duration::from_secs(20));
        assert_eq!(progress.left(), Duration::from_millis(10_500));
    }
}
