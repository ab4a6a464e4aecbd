//! What it costs to cross a stage boundary, in nanoseconds of CPU time an event.
//!
//! `cargo run --profile dist -p tamarisk-bench --bin stage [part of a row's name]`

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tamarisk_bench::{Spread, cpu_time, repeated};
use tamarisk_control::{Classes, Concurrency, Target};
use tamarisk_laws::PredictGateTrim;
use tamarisk_stage::{
    Batch, BoxError, Entry, Gate, Handler, Inline, Sink, Stage, StageBuilder, stage_fn,
};
use tokio::sync::mpsc;

const REPETITIONS: usize = 9;
const STAGES: usize = 10;
/// Events sent through a pipeline in one repetition.
const EVENTS: usize = 200_000;
/// Events in a pipeline at once: saturated, and no queue near its bound.
const IN_FLIGHT: usize = 512;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be made");
    let _entered = runtime.enter();

    let wanted = std::env::args().nth(1).unwrap_or_default();
    let report = |what: &str, measure: &dyn Fn() -> Spread| {
        if what.contains(&wanted) {
            println!("  {what:<42}{}", measure());
        }
    };
    println!("ns of CPU time an event: median of {REPETITIONS} (least … greatest)");
    report("the function alone", &|| per_call(|| black_box(step(black_box(7)))));
    report("inline", &inline);
    report("gate, uncongested, default law", &|| gate(false));
    report("gate, async, uncongested, default law", &|| gate(true));
    println!("and an event and hop, {STAGES} stages, {IN_FLIGHT} events in flight:");
    report("tasks, batches sent on whole", &|| pipeline(&runtime, Forward::Whole));
    report("tasks, event by event", &|| pipeline(&runtime, Forward::EachAlone));
    report("for comparison: tokio mpsc, one by one", &|| channels(&runtime));
}

#[inline(never)]
fn step(value: u64) -> u64 {
    value.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn per_call<T>(mut call: impl FnMut() -> T) -> Spread {
    const CALLS: u32 = 1_000_000;
    repeated(REPETITIONS, || {
        let before = cpu_time();
        for _ in 0..CALLS {
            black_box(call());
        }
        nanos(cpu_time() - before) / f64::from(CALLS)
    })
}

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

fn inline() -> Spread {
    let stage: Inline<_> = StageBuilder::new("inline").inline(step).expect("it can be built");
    per_call(|| stage.call(black_box(7)))
}

fn gate(is_async: bool) -> Spread {
    let target = Target::p90(Duration::from_millis(200)).expect("a valid target");
    let classes = Classes::single(target);
    let gate: Gate = StageBuilder::new("gate")
        .law(PredictGateTrim::new(&classes))
        .classes(classes)
        .workers(64)
        .gate()
        .expect("it can be built");
    gate.set_workers(Concurrency::new(64));
    if !is_async {
        return per_call(|| gate.try_enter(Entry::new()).expect("uncongested").complete());
    }
    per_call(|| {
        let mut entering = pin!(gate.enter(Entry::new()));
        match entering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(permit)) => permit.complete(),
            _ => unreachable!("uncongested"),
        }
    })
}

#[derive(Clone, Copy)]
enum Forward {
    Whole,
    EachAlone,
}

/// An event of the size that requests have once parsed.
type Event = [u64; 6];

struct ForwardWhole(Sink<Event>);

impl Handler<Event> for ForwardWhole {
    async fn handle(&mut self, batch: &mut Batch<Event>) -> Result<(), BoxError> {
        let rejected = self.0.send_many(batch.drain());
        assert!(rejected.is_empty(), "rejected: {:?}", rejected[0].rejection);
        Ok(())
    }
}

/// Ten stages in a row; the last one returns each event to the driver, which
/// keeps a fixed number in flight.
fn pipeline(runtime: &tokio::runtime::Runtime, forward: Forward) -> Spread {
    let target = Target::p90(Duration::from_secs(60)).expect("a valid target");
    let stage =
        |index: usize| StageBuilder::new(format!("stage {index}")).workers(1).target(target);
    let (done, mut finished) = mpsc::unbounded_channel::<usize>();
    let last: Stage<Event> =
        stage(STAGES - 1).batch(64).tasks(move || Collect(done.clone())).expect("it can be built");
    let mut stages = vec![last];
    for index in (0..STAGES - 1).rev() {
        let next = stages.last().expect("there is one").sink();
        let stage = match forward {
            Forward::Whole => stage(index).batch(64).tasks(move || ForwardWhole(next.clone())),
            Forward::EachAlone => stage(index).batch(64).tasks(stage_fn(move |event, _cx| {
                let sent = next.try_send(event).map_err(|error| error.rejection.reason.to_string());
                async move { Ok(sent?) }
            })),
        };
        stages.push(stage.expect("it can be built"));
    }
    let first = stages.last().expect("there is one").sink();
    let mut run = |events: usize, most_in_flight: usize| {
        let before = cpu_time();
        runtime.block_on(async {
            let mut in_flight = 0;
            let mut left = events;
            while left > 0 || in_flight > 0 {
                let more = (most_in_flight - in_flight).min(left);
                let rejected = first.send_many((0..more).map(|_| [0; 6]));
                assert!(rejected.is_empty(), "rejected: {:?}", rejected[0].rejection);
                left -= more;
                in_flight += more;
                in_flight -= finished.recv().await.expect("the last stage lives");
            }
        });
        nanos(cpu_time() - before) / (events * STAGES) as f64
    };
    // The laws know nothing yet: a few events teach them how short the work is.
    run(2_000, 8);
    repeated(REPETITIONS, || run(EVENTS, IN_FLIGHT))
}

struct Collect(mpsc::UnboundedSender<usize>);

impl Handler<Event> for Collect {
    async fn handle(&mut self, batch: &mut Batch<Event>) -> Result<(), BoxError> {
        let mut events = 0;
        for event in batch.drain() {
            black_box(event.into_event());
            events += 1;
        }
        Ok(self.0.send(events)?)
    }
}

/// The same ten hops over plain bounded channels and tasks.
fn channels(runtime: &tokio::runtime::Runtime) -> Spread {
    let (first, mut receiver) = mpsc::channel::<Event>(IN_FLIGHT);
    for _ in 0..STAGES {
        let (sender, next) = mpsc::channel(IN_FLIGHT);
        let mut from = std::mem::replace(&mut receiver, next);
        runtime.spawn(async move {
            while let Some(event) = from.recv().await {
                if sender.send(black_box(event)).await.is_err() {
                    return;
                }
            }
        });
    }
    repeated(REPETITIONS, || {
        let before = cpu_time();
        runtime.block_on(async {
            let mut in_flight = 0;
            let mut left = EVENTS;
            while left > 0 || in_flight > 0 {
                while left > 0 && in_flight < IN_FLIGHT {
                    first.send([0; 6]).await.expect("the pipeline lives");
                    left -= 1;
                    in_flight += 1;
                }
                receiver.recv().await.expect("the pipeline lives");
                in_flight -= 1;
            }
        });
        nanos(cpu_time() - before) / (EVENTS * STAGES) as f64
    })
}
