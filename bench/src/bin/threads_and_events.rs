//! A thread for each request beside events on one thread: each request reads 8 KB of a file that is
//! in memory, and another one takes its place when it has ended [Welsh02 §2, figs 3, 6].
//!
//! `cargo run --release -p tamarisk-bench --bin threads_and_events`
//!
//! Requests are made by the process itself, threads are there before, as in the thesis. The third
//! contestant is a stage whose workers are threads, as many as its law finds useful.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use tamarisk_bench::process::Scratch;
use tamarisk_bench::{cpu_time, spread};
use tamarisk_control::Target;
use tamarisk_laws::Threshold;
use tamarisk_stage::{Stage, StageBuilder, blocking_fn};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const READ: usize = 8 * 1024;
const STACK: usize = 128 * 1024;
/// Response times that are kept of a run; of these, percentiles are right to a thousandth.
const SAMPLES_MAX: u64 = 1_000_000;
/// Judged requests whose response times are kept: one in so many.
const SAMPLED: u64 = 8;
const WARM_UP: Duration = Duration::from_millis(500);

/// A thread for each request beside events on one thread
#[derive(Debug, Parser)]
struct Options {
    /// How many requests at once
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 8, 64, 256, 1024, 4096, 8192])]
    requests: Vec<usize>,
    /// How often each number is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long it is judged, after half a second
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    seconds: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Threads,
    Events,
    Stage,
}

const KINDS: [Kind; 3] = [Kind::Threads, Kind::Events, Kind::Stage];

fn main() -> Result<()> {
    let options = Options::parse();
    let scratch = Scratch::new("threads-bench")?;
    let path = scratch.write("file", &"x".repeat(READ))?;
    let file = Arc::new(File::open(path)?);
    println!(
        "thousands of requests a second; p99 and the longest response; µs of CPU time a request: \
         medians of {} (least … greatest of the first)",
        options.rounds
    );
    for &requests in &options.requests {
        let mut runs: [Vec<Run>; 3] = Default::default();
        for _ in 0..options.rounds {
            for (kind, runs) in KINDS.into_iter().zip(&mut runs) {
                runs.push(run(kind, requests, &file, Duration::from_secs(options.seconds))?);
            }
        }
        println!("{requests} at once");
        for (kind, runs) in KINDS.iter().zip(&runs) {
            let all = |value: fn(&Run) -> f64| spread(runs.iter().map(value).collect());
            let (rate, cost) = (all(|run| run.rate / 1e3), all(|run| run.cost));
            println!(
                "  {:<8} {:8.1} ({:.1} … {:.1})   p99 {:9.3} ms   worst {:9.1} ms   {:.2} µs",
                format!("{kind:?}").to_lowercase(),
                rate.median,
                rate.least,
                rate.greatest,
                all(|run| run.p99 * 1e3).median,
                all(|run| run.worst * 1e3).median,
                cost.median
            );
        }
    }
    Ok(())
}

struct Run {
    /// Requests a second.
    rate: f64,
    /// Seconds from when a request is made to its end.
    p99: f64,
    worst: f64,
    /// Microseconds.
    cost: f64,
}

/// What has been done, and for how long it goes on.
struct Account {
    file: Arc<File>,
    done: AtomicU64,
    /// How many were done before those that are judged; [`u64::MAX`] until they are.
    judged_from: AtomicU64,
    is_over: AtomicBool,
    /// Response times in seconds, of those that are kept.
    times: Mutex<Vec<f32>>,
    /// The longest response time of all that are judged, in nanoseconds.
    worst: AtomicU64,
}

impl Account {
    /// Does what one request, made at this time, asks for.
    fn serve(&self, made: Instant, buffer: &mut [u8; READ]) {
        self.file.read_exact_at(buffer, 0).expect("the file is there");
        let number = self.done.fetch_add(1, Ordering::Relaxed);
        let Some(number) = number.checked_sub(self.judged_from.load(Ordering::Relaxed)) else {
            return;
        };
        let took = made.elapsed();
        self.worst.fetch_max(took.as_nanos() as u64, Ordering::Relaxed);
        if number.is_multiple_of(SAMPLED) && number < SAMPLED * SAMPLES_MAX {
            self.times.lock().expect("nobody panics").push(took.as_secs_f32());
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

fn run(kind: Kind, requests: usize, file: &Arc<File>, judged: Duration) -> Result<Run> {
    let account = Arc::new(Account {
        file: Arc::clone(file),
        done: AtomicU64::new(0),
        judged_from: AtomicU64::new(u64::MAX),
        is_over: AtomicBool::new(false),
        times: Mutex::default(),
        worst: AtomicU64::new(0),
    });
    let (server, of_server) = (std::thread::Builder::new(), Arc::clone(&account));
    let server = server.spawn(move || match kind {
        Kind::Threads => threads(requests, &of_server),
        Kind::Events => events(requests, &of_server),
        Kind::Stage => stage(requests, &of_server),
    })?;
    std::thread::sleep(WARM_UP);
    let judged_from = account.done.load(Ordering::Relaxed);
    account.judged_from.store(judged_from, Ordering::Relaxed);
    let (start, before) = (Instant::now(), cpu_time());
    std::thread::sleep(judged);
    let done = (account.done.load(Ordering::Relaxed) - judged_from) as f64;
    let (took, spent) = (start.elapsed(), cpu_time() - before);
    account.is_over.store(true, Ordering::Relaxed);
    server.join().ok().context("the server panicked")??;
    let mut times = std::mem::take(&mut *account.times.lock().expect("nobody panics"));
    times.sort_by(f32::total_cmp);
    let worst = account.worst.load(Ordering::Relaxed);
    Ok(Run {
        rate: done / took.as_secs_f64(),
        p99: times.get(times.len() * 99 / 100).copied().unwrap_or(f32::NAN).into(),
        worst: if times.is_empty() { f64::NAN } else { worst as f64 / 1e9 },
        cost: spent.as_secs_f64() * 1e6 / done,
    })
}

/// As many threads as requests, and a queue.
fn threads(requests: usize, account: &Arc<Account>) -> Result<()> {
    let made = (0..requests).map(|_| Instant::now()).collect();
    let queue =
        Arc::new((Mutex::new(VecDeque::<Instant>::from_iter::<Vec<_>>(made)), Condvar::new()));
    let mut all = Vec::new();
    for _ in 0..requests {
        let (queue, account) = (Arc::clone(&queue), Arc::clone(account));
        let thread = std::thread::Builder::new().stack_size(STACK);
        all.push(thread.spawn(move || {
            let (requests, some) = &*queue;
            let mut buffer = [0; READ];
            while !account.is_over() {
                let mut waiting = requests.lock().expect("nobody panics");
                let made = loop {
                    match waiting.pop_front() {
                        Some(made) => break made,
                        None => waiting = some.wait(waiting).expect("nobody panics"),
                    }
                };
                drop(waiting);
                account.serve(made, &mut buffer);
                requests.lock().expect("nobody panics").push_back(Instant::now());
                some.notify_one();
            }
        })?);
    }
    all.into_iter().try_for_each(|thread| thread.join()).ok().context("a thread panicked")
}

/// One thread, which does one request after the other.
fn events(requests: usize, account: &Account) -> Result<()> {
    let mut waiting: VecDeque<Instant> = (0..requests).map(|_| Instant::now()).collect();
    let mut buffer = [0; READ];
    while !account.is_over() {
        let made = waiting.pop_front().context("there are always some")?;
        account.serve(made, &mut buffer);
        waiting.push_back(Instant::now());
    }
    Ok(())
}

/// A stage whose law finds how many threads are of use.
fn stage(requests: usize, account: &Arc<Account>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (account_of, again) = (Arc::clone(account), Arc::new(Mutex::new(None)));
        let sink = Arc::clone(&again);
        let stage: Stage<Instant> = StageBuilder::new("read")
            .law(Threshold::new(u32::MAX))
            .queue_capacity(2 * requests)
            .target(Target::p90(Duration::from_secs(60))?)
            .threads(blocking_fn(move |made: Instant, _| {
                let mut buffer = [0; READ];
                account_of.serve(made, &mut buffer);
                let sink: Option<tamarisk_stage::Sink<Instant>> =
                    sink.lock().expect("nobody panics").clone();
                if let Some(sink) = sink.filter(|_| !account_of.is_over()) {
                    sink.try_send(Instant::now())
                        .map_err(|error| format!("{:?}", error.rejection))?;
                }
                Ok(())
            }))?;
        *again.lock().expect("nobody panics") = Some(stage.sink());
        let rejected = stage.sink().send_many((0..requests).map(|_| Instant::now()));
        assert!(rejected.is_empty(), "rejected: {:?}", rejected[0].rejection);
        while !account.is_over() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        *again.lock().expect("nobody panics") = None;
        stage.drain(Duration::from_secs(10)).await;
        Ok(())
    })
}
