//! What the workers laws of a live graph are told: ended events, targets, and their shares of one
//! throughput [Fair07 §4.2.1].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_catalogue::{ByName, global};
use tamarisk_control::{
    Activity, ClassId, Classes, Concurrency, Finished, Leeway, PerSecond, Reading, Strain, Target,
    Timestamp, WorkersLaw,
};
use tamarisk_laws::Laws;
use tamarisk_stage::{Clock, Context, Graph, StageBuilder, stage_fn};
use tokio::time::sleep;

/// Keeps what it was told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Memory>>);

#[derive(Default)]
struct Memory {
    throughput: Option<f64>,
    finished: u32,
    target: Option<Duration>,
}

impl WorkersLaw for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>, _: Leeway) -> Concurrency {
        Concurrency::new(8)
    }

    fn set_throughput(&mut self, target: PerSecond) {
        self.0.lock().throughput = Some(target.get());
    }

    fn on_finish(&mut self, _: Timestamp, _: &Finished) {
        self.0.lock().finished += 1;
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.0.lock().target = Some(classes.strictest());
    }

    fn strain(&self) -> Strain {
        Strain::Fixed
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

#[tokio::test(start_paused = true)]
async fn workers_laws_are_told_of_events_targets_and_their_share_of_a_throughput() {
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
            if event.is_multiple_of(4) {
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
    assert_eq!([&told[0], &told[1]].map(|told| told.0.lock().finished), [1000, 250]);
    let [at_front, at_back] = told.each_ref().map(|told| told.0.lock().throughput.unwrap());
    assert!((at_front - 120.0).abs() < 1.0, "{at_front}");
    assert!((at_back - 30.0).abs() < 2.0, "{at_back}");

    let sooner = Target::p90(Duration::from_millis(300)).unwrap();
    front.stage().unwrap().set_targets(&[(ClassId::DEFAULT, sooner)]);
    assert_eq!(told[0].0.lock().target, Some(Duration::from_millis(300)));
}
