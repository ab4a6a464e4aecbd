//! The log of the profiler: a line of JSON each interval, written by a thread of its own, and
//! switched on and off while it runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use tamarisk_stage::StageObservation;

use super::options::{ProfileError, ProfileOptions};
use super::rotating_file::RotatingFile;
use super::sample::Sampler;

/// The log; clones share it. It ends with the last of them.
#[derive(Clone)]
pub struct ProfileLog(Arc<Handle>);

struct Handle(Arc<Shared>);

struct Shared {
    options: ProfileOptions,
    state: Mutex<State>,
    changed: Condvar,
    lines: AtomicU64,
    failures: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    On,
    Ended,
}

impl ProfileLog {
    /// Sees that the file can be written. Nothing is until the log is [started](Self::start).
    ///
    /// # Errors
    /// [`ProfileError::File`].
    pub fn open(options: ProfileOptions) -> Result<Self, ProfileError> {
        let opened = RotatingFile::open(&options.file, options.bytes_max);
        opened.map_err(|source| ProfileError::File {
            file: options.file.display().to_string(),
            source,
        })?;
        Ok(Self(Arc::new(Handle(Arc::new(Shared {
            options,
            state: Mutex::new(State::On),
            changed: Condvar::new(),
            lines: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })))))
    }

    /// Writes what `observe` sees from now on; no line while that is nothing.
    ///
    /// # Errors
    /// [`ProfileError::Thread`].
    pub fn start(
        &self,
        observe: impl Fn() -> Vec<StageObservation> + Send + 'static,
    ) -> Result<(), ProfileError> {
        let shared = Arc::clone(&self.0.0);
        let thread = thread::Builder::new().name("profile".to_owned());
        let started = thread.spawn(move || shared.run(&observe));
        started.map(drop).map_err(ProfileError::Thread)
    }

    /// Switches it on or off.
    pub fn switch(&self, on: bool) {
        let shared = &self.0.0;
        *shared.state.lock() = if on { State::On } else { State::Off };
        shared.changed.notify_all();
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        *self.0.0.state.lock() == State::On
    }

    /// Where it is written, and how often.
    pub fn options(&self) -> &ProfileOptions {
        &self.0.0.options
    }

    /// How many lines were written.
    pub fn lines(&self) -> u64 {
        self.0.0.lines.load(Ordering::Relaxed)
    }

    /// How many could not be.
    pub fn failures(&self) -> u64 {
        self.0.0.failures.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn run(&self, observe: &dyn Fn() -> Vec<StageObservation>) {
        while self.wait_until_on() {
            let mut sampler = Sampler::default();
            // Opened anew each time, for it may have been moved away meanwhile.
            let mut file = None;
            let mut due = Instant::now();
            while self.is_on_at(due) {
                let seen = observe();
                // There is nothing to tell of, or not any more.
                if !seen.is_empty() {
                    let line = sampler.line(Instant::now(), SystemTime::now(), &seen);
                    let count = match self.write(&mut file, &line) {
                        Ok(()) => &self.lines,
                        Err(_) => &self.failures,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
                // After a pause of the whole machine, lines are not made up for.
                due = (due + self.interval()).max(Instant::now());
            }
        }
    }

    fn write(&self, file: &mut Option<RotatingFile>, line: &str) -> io::Result<()> {
        let mut open = match file.take() {
            Some(open) => open,
            None => RotatingFile::open(&self.options.file, self.options.bytes_max)?,
        };
        open.write(line)?;
        *file = Some(open);
        Ok(())
    }

    fn interval(&self) -> Duration {
        /// Observing every stage costs a fraction of this.
        const LEAST: Duration = Duration::from_millis(10);
        /// A year: what is longer cannot always be added to an instant.
        const MOST: Duration = Duration::from_secs(365 * 24 * 3600);
        self.options.interval.clamp(LEAST, MOST)
    }

    /// `false` when it has ended.
    fn wait_until_on(&self) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| *state == State::Off);
        *state == State::On
    }

    /// Waits until `due`; `false` when it is switched off before.
    fn is_on_at(&self, due: Instant) -> bool {
        let mut state = self.state.lock();
        while *state == State::On && !self.changed.wait_until(&mut state, due).timed_out() {}
        *state == State::On
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        *self.0.state.lock() = State::Ended;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use tamarisk_stage::StageBuilder;

    use super::*;

    #[tokio::test]
    async fn lines_are_written_while_it_is_on_and_the_thread_ends_with_it() {
        let file = std::env::temp_dir().join(format!("tamarisk-profile-{}", std::process::id()));
        let options =
            ProfileOptions { interval: Duration::from_millis(10), ..ProfileOptions::new(&file) };
        let gate = StageBuilder::new("app").gate().unwrap();
        let (looked, looks) = mpsc::channel();
        let log = ProfileLog::open(options).unwrap();
        log.start(move || {
            let _ = looked.send(());
            vec![gate.observe()]
        })
        .unwrap();
        let next = || looks.recv_timeout(Duration::from_secs(20));
        for _ in 0..3 {
            next().unwrap();
        }
        log.switch(false);
        assert!(!log.is_on());
        // One may have been under way.
        while looks.recv_timeout(Duration::from_millis(100)).is_ok() {}
        let lines = fs::read_to_string(&file).unwrap();
        assert_eq!(lines.lines().count() as u64, log.lines());
        assert!(lines.lines().all(|line| line.contains(r#""name":"app""#)), "{lines}");
        assert!(log.lines() >= 3 && log.failures() == 0);

        log.switch(true);
        next().unwrap();
        drop(log);
        while next() != Err(mpsc::RecvTimeoutError::Disconnected) {}
        fs::remove_file(file).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_at_the_start() {
        let options = ProfileOptions::new("/nowhere/at/all/profile.jsonl");
        let error = ProfileLog::open(options).err().unwrap().to_string();
        assert_eq!(error, "cannot write the profile to /nowhere/at/all/profile.jsonl");
    }
}
