//! One throughput for a whole live graph, told to the workers law of each stage [Fair07 §4.2.1].

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{
    Activity, Classes, Concurrency, Leeway, PerSecond, Reading, Strain, Target, Timestamp,
    WorkersLaw,
};
use tamarisk_laws::catalogue::{Laws, global};
use tamarisk_stage::{Clock, Context, Graph, StageBuilder, stage_fn};
use tokio::time::sleep;

/// Keeps the throughput that it was told last.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Option<f64>>>);

impl WorkersLaw for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>, _: Leeway) -> Concurrency {
        Concurrency::new(8)
    }

    fn set_throughput(&mut self, target: PerSecond) {
        *self.0.lock() = Some(target.get());
    }

    fn strain(&self) -> Strain {
        Strain::Fixed
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

#[tokio::test(start_paused = true)]
async fn each_stage_is_told_its_share_of_the_throughput() {
    let target = Target::p90(Duration::from_secs(1)).unwrap();
    let law = global("throughput-sharing", &[("throughput_per_second", 120.0)]).unwrap();
    let graph = Graph::new().named_law(&law, &Classes::single(target)).unwrap();
    let told = [Told::default(), Told::default()];
    let stage = |name: &str, told: &Told| {
        let laws = Laws::new().admission("open", &[]).unwrap();
        StageBuilder::new(name)
            .target(target)
            .laws(laws)
            .workers_between(1..=16)
            .workers_law(told.clone())
            .clock(Clock::runtime())
    };
    let front = graph.declare::<u32>(stage("front", &told[0])).unwrap();
    let back = graph.declare::<u32>(stage("back", &told[1])).unwrap();
    let to_back = graph.edge(&front, &back).unwrap();
    // A quarter goes on.
    front.tasks(stage_fn(move |event: u32, cx: Context| {
        let to_back = to_back.clone();
        async move {
            if event % 4 == 0 {
                to_back.send_lossy(cx.envelope(event));
            }
            Ok(())
        }
    }));
    back.tasks(stage_fn(|_: u32, _: Context| async { Ok(()) }));
    graph.start().unwrap();
    let sink = front.sink();
    for event in 0..1000 {
        sink.send_lossy(event);
        sleep(Duration::from_millis(10)).await;
    }
    let [at_front, at_back] = told.map(|told| told.0.lock().unwrap());
    assert!((at_front - 120.0).abs() < 1.0, "{at_front}");
    assert!((at_back - 30.0).abs() < 2.0, "{at_back}");
}
