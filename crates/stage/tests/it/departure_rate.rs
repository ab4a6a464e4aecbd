//! The thesis's departure-rate controllers at a live stage [Fair07 §4.3], on paused time: the
//! same types as in the simulator hold a throughput and a percentile.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_catalogue::WORKERS;
use tamarisk_control::{
    Activity, AdmissionLaw, Arrival, Backlog, Classes, Concurrency, Decision, Ending, Finished,
    Leeway, Reading, Target, Timestamp, WorkersLaw,
};
use tamarisk_laws::FixedWorkers;
use tamarisk_stage::{Clock, Context, StageBuilder, stage_fn};
use tokio::time::sleep;

const FORMS: [&str; 6] =
    ["fair-p", "fair-pi", "fair-pd", "fair-precompensated", "fair-heuristic", "fair-hybrid"];
const SERVICE: Duration = Duration::from_millis(50);

/// Admits everything, and tells a workers law what a stage tells of itself.
#[derive(Clone)]
struct Told(Arc<Mutex<State>>);

struct State {
    law: Box<dyn WorkersLaw>,
    offered: u64,
    completed: u64,
    /// The most that ran at once since the last tick.
    running_most: u32,
    wanted: u32,
    responses: Vec<Duration>,
}

impl AdmissionLaw for Told {
    fn name(&self) -> &'static str {
        "open"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        let mut state = self.0.lock();
        state.offered += 1;
        state.running_most = state.running_most.max(backlog.running_total);
        Decision::Admit
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        let mut state = self.0.lock();
        state.completed += u64::from(finished.ending == Ending::Completed);
        state.running_most = state.running_most.max(backlog.running_total + 1);
        state.responses.push(finished.response);
        state.law.on_finish(now, finished);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        let mut state = self.0.lock();
        let State { offered, completed, running_most, .. } = *state;
        let workers_idle = backlog.workers.get().saturating_sub(running_most);
        let activity = Activity { backlog: *backlog, offered, lost: 0, completed, workers_idle };
        state.wanted = state.law.on_tick(now, &activity, Leeway::Either).get();
        state.running_most = backlog.running_total;
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

fn promise(millis: u64) -> Target {
    Target::p90(Duration::from_millis(millis)).unwrap()
}

/// The throughput and the response times in the last 20 of 60 seconds, under so many users who do not think.
async fn run(name: &str, throughput: f64, target: Target, users: u32) -> (f64, Vec<Duration>) {
    // Users who wait for their answers are a constant number.
    let knobs = [
        ("throughput_per_second", throughput),
        ("workers_max_count", 100.0),
        ("reserve_ratio", 0.0),
    ];
    let entry = WORKERS.iter().find(|entry| entry.name == name).unwrap();
    let law = entry.law_with(&Classes::single(target), &knobs).unwrap();
    let state =
        State { law, offered: 0, completed: 0, running_most: 0, wanted: 1, responses: Vec::new() };
    let told = Told(Arc::new(Mutex::new(state)));
    let work = stage_fn(|_: u32, _: Context| async {
        sleep(SERVICE).await;
        Ok(())
    });
    let stage = StageBuilder::new("work")
        .law(told.clone())
        .target(target)
        .workers_between(1..=100)
        .workers_law(FixedWorkers(Concurrency::ONE))
        .batch(32)
        .clock(Clock::runtime())
        .tasks(work)
        .unwrap();
    let sink = stage.sink();
    let (mut sent, mut before) = (0, 0);
    for tick in 0..6000 {
        sleep(Duration::from_millis(10)).await;
        let (completed, wanted) = {
            let mut state = told.0.lock();
            if tick == 4000 {
                before = state.completed;
                state.responses.clear();
            }
            (state.completed, state.wanted)
        };
        // Each user sends when the stage has done one more.
        while sent < u64::from(users) + completed {
            assert!(sink.send_lossy(0));
            sent += 1;
        }
        assert_eq!(stage.set_workers(wanted).unwrap(), wanted);
    }
    let mut state = told.0.lock();
    ((state.completed - before) as f64 / 20.0, std::mem::take(&mut state.responses))
}

fn p90(mut responses: Vec<Duration>) -> Duration {
    responses.sort_unstable();
    responses[responses.len() * 9 / 10]
}

#[tokio::test(start_paused = true)]
async fn each_form_holds_a_throughput_of_a_live_stage() {
    for name in FORMS {
        let (throughput, _) = run(name, 200.0, promise(5000), 60).await;
        // A tenth more or less: a worker is a tenth of the pool.
        assert!((throughput / 200.0 - 1.0).abs() < 0.1, "{name}: {throughput}");
    }
}

#[tokio::test(start_paused = true)]
async fn p_and_pd_hold_the_percentile_of_a_live_stage() {
    // The others swing about it: PI integrates twice, and a dead-beat gain answers all of an
    // error of which a part is gone.
    for name in ["fair-p", "fair-pd"] {
        // 60 users who do not think are answered in 0.5 s by 6 workers, which do 120 a second.
        let (_, responses) = run(name, 0.0, promise(500), 60).await;
        let held = p90(responses);
        let near = Duration::from_millis(450)..Duration::from_millis(550);
        assert!(near.contains(&held), "{name}: {held:?}");
    }
}
