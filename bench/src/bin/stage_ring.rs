//! What an event takes to go round a ring of 10 to 100 stages [Welsh02 §5.8.2]: alone, with a thread
//! for each stage as the thesis had and with tasks, and 512 at once, in batches.
//!
//! `cargo run --release -p tamarisk-bench --bin stage_ring`
//!
//! All on core 0, as the thesis's machine had one. Alone the wall clock counts, from the first
//! stage to the driver that closes the ring; at once it is CPU time.

use std::time::{Duration, Instant};

use anyhow::Result;
use tamarisk_bench::{Spread, cpu_time, repeated};
use tamarisk_control::Target;
use tamarisk_stage::{Batch, BlockingHandler, BoxError, Handler, Sink, Stage, StageBuilder};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CORE: usize = 0;
const STAGES: [usize; 4] = [10, 20, 50, 100];
const REPETITIONS: usize = 7;
/// Crossings in one repetition, by one event alone.
const CROSSINGS: usize = 20_000;
/// Crossings in one repetition, by all that are in flight.
const CROSSINGS_AT_ONCE: usize = 1_000_000;
const IN_FLIGHT: usize = 512;

fn main() -> Result<()> {
    let mut core = rustix::thread::CpuSet::new();
    core.set(CORE);
    rustix::thread::sched_setaffinity(None, &core)?;
    println!("ns a crossing: median of {REPETITIONS} (least … greatest)");
    println!(
        "{:>7}  {:<28} {:<28} {:<28} 512 at once, tasks",
        "stages", "alone, threads", "alone, tasks", "512 at once, threads"
    );
    for stages in STAGES {
        let rows = [
            (Kind::Threads, 1),
            (Kind::Tasks, 1),
            (Kind::Threads, IN_FLIGHT),
            (Kind::Tasks, IN_FLIGHT),
        ];
        let mut line = format!("{stages:>7}");
        for (kind, in_flight) in rows {
            let Spread { median, least, greatest } = measure(kind, stages, in_flight)?;
            line += &format!("  {:<27}", format!("{median:.0} ({least:.0} … {greatest:.0})"));
        }
        println!("{line}");
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    Threads,
    Tasks,
}

/// An event of the size that requests have once parsed.
type Event = [u64; 6];

/// Sends all that comes to the next stage; the last one tells the driver how many came.
#[derive(Clone)]
enum Forward {
    To(Sink<Event>),
    Home(mpsc::UnboundedSender<usize>),
}

impl Forward {
    fn forward(&self, batch: &mut Batch<Event>) -> Result<(), BoxError> {
        match self {
            Self::To(next) => {
                let rejected = next.send_many(batch.drain());
                assert!(rejected.is_empty(), "rejected: {:?}", rejected[0].rejection);
            }
            Self::Home(driver) => driver.send(batch.drain().count())?,
        }
        Ok(())
    }
}

impl Handler<Event> for Forward {
    async fn handle(&mut self, batch: &mut Batch<Event>) -> Result<(), BoxError> {
        self.forward(batch)
    }
}

impl BlockingHandler<Event> for Forward {
    fn handle(&mut self, batch: &mut Batch<Event>) -> Result<(), BoxError> {
        self.forward(batch)
    }
}

/// A ring of stages, with one worker each.
struct Ring {
    first: Sink<Event>,
    home: mpsc::UnboundedReceiver<usize>,
    stages: Vec<Stage<Event>>,
    runtime: Runtime,
}

impl Ring {
    fn new(kind: Kind, stages: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let target = Target::p90(Duration::from_secs(60))?;
        let (driver, home) = mpsc::unbounded_channel();
        let mut forward = Forward::Home(driver);
        let mut all = Vec::new();
        for index in (0..stages).rev() {
            let builder =
                StageBuilder::new(format!("stage {index}")).workers(1).batch(64).target(target);
            let handler = forward.clone();
            let factory = move || handler.clone();
            let stage = match kind {
                Kind::Threads => builder.threads(factory)?,
                Kind::Tasks => builder.tasks(factory)?,
            };
            forward = Forward::To(stage.sink());
            all.push(stage);
        }
        drop(entered);
        let Forward::To(first) = forward else { unreachable!("there are stages") };
        Ok(Self { first, home, stages: all, runtime })
    }

    /// Sends so many events round, of which so many at most are on their way.
    fn go(&mut self, events: usize, most_in_flight: usize) {
        let Self { first, home, runtime, .. } = self;
        runtime.block_on(async {
            let (mut left, mut in_flight) = (events, 0);
            while left > 0 || in_flight > 0 {
                let more = (most_in_flight - in_flight).min(left);
                let rejected = first.send_many((0..more).map(|_| [0; 6]));
                assert!(rejected.is_empty(), "rejected: {:?}", rejected[0].rejection);
                left -= more;
                in_flight += more;
                in_flight -= home.recv().await.expect("the last stage lives");
            }
        });
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let _entered = self.runtime.enter();
        self.stages.clear();
    }
}

fn measure(kind: Kind, stages: usize, in_flight: usize) -> Result<Spread> {
    let mut ring = Ring::new(kind, stages)?;
    // The laws know nothing yet: a few events teach them how short the work is.
    ring.go(200, 8.min(in_flight));
    let crossings = if in_flight == 1 { CROSSINGS } else { CROSSINGS_AT_ONCE };
    Ok(repeated(REPETITIONS, || {
        let events = crossings / stages;
        let (start, before) = (Instant::now(), cpu_time());
        ring.go(events, in_flight);
        let time = if in_flight == 1 { start.elapsed() } else { cpu_time() - before };
        time.as_nanos() as f64 / (events * stages) as f64
    }))
}
