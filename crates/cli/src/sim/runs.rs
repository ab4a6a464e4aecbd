//! Runs simulations in parallel, one per core.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use tamarisk_control::Timestamp;
use tamarisk_laws::Knobs;
use tamarisk_model::sim::{Report, Scenario, Seen, Simulation, Watch};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::places::Places;
use super::series::Series;
use crate::interrupt::SignalWatch;

/// What is to be run.
pub(super) struct Runs {
    pub(super) simulation: Simulation,
    pub(super) scenario: Scenario,
    pub(super) arrangements: Vec<Arrangement>,
    pub(super) seeds: Vec<u64>,
}

/// Laws at their stages.
pub(super) struct Arrangement {
    pub(super) name: String,
    pub(super) laws: Places,
}

/// What the runs of one arrangement came to.
pub(super) struct Results {
    /// One for each seed.
    pub(super) reports: Vec<Report>,
    /// The course of the first one.
    pub(super) series: Series,
}

const SHOWN_EVERY: Duration = Duration::from_millis(100);

/// Runs all; `None` if the user did not want to wait for it.
pub(super) fn all(
    runs: &Arc<Runs>,
    quiet: bool,
    foreground: &mut Foreground,
) -> anyhow::Result<Option<Vec<Results>>> {
    let count = runs.arrangements.len() * runs.seeds.len();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let (send, receive) = mpsc::unbounded_channel();
    let seconds = Arc::new(AtomicU64::new(0));
    let next = Arc::new(AtomicUsize::new(0));
    for _ in 0..cores.min(count) {
        let (runs, send) = (Arc::clone(runs), send.clone());
        let (seconds, next) = (Arc::clone(&seconds), Arc::clone(&next));
        // They end with the process, if that is asked to end before they do.
        std::thread::Builder::new().name("simulation".to_owned()).spawn(move || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count || send.send((index, runs.one(index, &seconds))).is_err() {
                    return;
                }
            }
        })?;
    }
    drop(send);
    let whole = (runs.scenario.warm_up + runs.scenario.duration).as_secs() * count as u64;
    let bar = match quiet || !std::io::stderr().is_terminal() {
        true => ProgressBar::hidden(),
        false => bar(whole),
    };
    let Foreground { runtime, interrupt } = foreground;
    let done = runtime.block_on(collect(receive, &bar, &seconds, interrupt));
    bar.finish_and_clear();
    let Some(mut done) = done else { return Ok(None) };
    if done.len() < count {
        bail!("a run ended without a result");
    }
    done.sort_by_key(|(index, _)| *index);
    let mut results: Vec<Results> = Vec::new();
    for (_, (report, series)) in done {
        match (series, results.last_mut()) {
            (Some(series), _) => results.push(Results { reports: vec![report], series }),
            (None, Some(result)) => result.reports.push(report),
            (None, None) => bail!("the first run was not recorded"),
        }
    }
    Ok(Some(results))
}

/// What waits for the runs, and for Ctrl-C from the moment that it is made.
pub(super) struct Foreground {
    runtime: Runtime,
    interrupt: SignalWatch,
}

impl Foreground {
    pub(super) fn new() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let interrupt = {
            let _entered = runtime.enter();
            SignalWatch::interrupt()
        };
        Ok(Self { runtime, interrupt })
    }
}

/// Which run, and its report, with its course if it is the first of its arrangement.
type Done = (usize, (Report, Option<Series>));

async fn collect(
    mut receive: mpsc::UnboundedReceiver<Done>,
    bar: &ProgressBar,
    seconds: &AtomicU64,
    interrupt: &mut SignalWatch,
) -> Option<Vec<Done>> {
    let mut done = Vec::new();
    let mut shown = tokio::time::interval(SHOWN_EVERY);
    loop {
        tokio::select! {
            run = receive.recv() => match run {
                Some(run) => done.push(run),
                None => return Some(done),
            },
            _ = shown.tick() => bar.set_position(seconds.load(Ordering::Relaxed)),
            () = interrupt.asked() => return None,
        }
    }
}

fn bar(seconds: u64) -> ProgressBar {
    let template = "{bar:20.green/dim} {elapsed:>4}  {pos} of {len} s simulated, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is well-formed");
    ProgressBar::new(seconds).with_style(style.progress_chars("━━─"))
}

impl Runs {
    fn one(&self, index: usize, seconds: &AtomicU64) -> (Report, Option<Series>) {
        let arrangement = &self.arrangements[index / self.seeds.len()];
        let seed = index % self.seeds.len();
        let mut run = self.simulation.start(self.seeds[seed]);
        for (stage, laws) in &arrangement.laws {
            run = run.laws(stage, laws).expect("stages and laws are the scenario's, or were made");
        }
        let series = (seed == 0).then(|| Series::new(&self.scenario));
        let mut watch = Observer { series, seconds, seen: 0 };
        let report = run.watch(&mut watch).finish();
        (report, watch.series.map(Series::finish))
    }
}

/// Counts the seconds that pass, and keeps the course of a run if that is wanted.
struct Observer<'a> {
    series: Option<Series>,
    seconds: &'a AtomicU64,
    seen: u64,
}

impl Watch for Observer<'_> {
    fn see(&mut self, seen: &Seen) {
        let second = seen.at.as_nanos() / 1_000_000_000;
        if second > self.seen {
            self.seconds.fetch_add(second - self.seen, Ordering::Relaxed);
            self.seen = second;
        }
        if let Some(series) = &mut self.series {
            series.see(seen);
        }
    }

    fn set(&mut self, at: Timestamp, stage: u32, knobs: &Knobs) {
        if let Some(series) = &mut self.series {
            series.set(at, stage, knobs);
        }
    }
}
