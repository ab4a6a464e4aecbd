//! An admission law of one's own: simulated beside two of the catalogue, then live on a stage.
//!
//! `cargo run --release -p tamarisk --example my_law`

use std::time::Duration;

use tamarisk::catalogue;
use tamarisk::control::{Arrival, Backlog, Decision, Finished};
use tamarisk::model::sim::{Client, Distribution, Scenario, Simulation, Stage as Simulated};
use tamarisk::{
    AdmissionLaw, BoxError, Classes, Context, Reason, Rejection, Stage, Target, Timestamp,
};

/// Rejects what would wait for longer than half of the target: the queue, times the mean
/// service time, over the workers.
struct HalfTarget {
    wait_max: f64,
    service_mean: f64,
}

impl HalfTarget {
    fn new(target: Target) -> Self {
        Self { wait_max: 0.5 * target.response_time().as_secs_f64(), service_mean: 0.0 }
    }
}

impl AdmissionLaw for HalfTarget {
    fn name(&self) -> &'static str {
        "half-target"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        let queued = f64::from(backlog.queued_total);
        let wait = queued * self.service_mean / f64::from(backlog.workers.get());
        if wait <= self.wait_max {
            return Decision::Admit;
        }
        let after = Duration::from_secs_f64(wait - self.wait_max);
        Decision::Reject(Rejection::new(Reason::PredictedLate).retry_after(after))
    }

    fn on_finish(&mut self, _: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        self.service_mean += 0.1 * (finished.service.as_secs_f64() - self.service_mean);
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let target = Target::p90(Duration::from_millis(100))?;
    let classes = Classes::single(target);

    // Two workers of 10 ms, offered twice the 200 events a second that they can do.
    let service = Distribution::Exponential(Duration::from_millis(10));
    let scenario = Scenario::new(classes.clone(), Duration::from_secs(60))
        .stage(Simulated::new("work", 2, service))
        .client(Client::poisson("users", "work", 400.0));
    let simulation = Simulation::new(&scenario)?;
    let mut laws: Vec<Box<dyn AdmissionLaw>> = vec![Box::new(HalfTarget::new(target))];
    for name in ["threshold", "predict-gate-trim"] {
        laws.push(catalogue::admission(name).ok_or("no such law")?.law(&classes));
    }
    println!("{:20}{:>14}{:>12}{:>14}", "simulated", "in time a s", "rejected", "90 % within");
    for law in laws {
        let name = law.name();
        let report = simulation.start(1).law("work", law)?.finish();
        let users = &report.classes[0];
        let (goodput, rejected) = (users.goodput(), 100.0 * users.rejected_share());
        let p90 = 1000.0 * users.response.quantile(0.9);
        println!("{name:20}{goodput:>14.0}{rejected:>10.0} %{p90:>11.0} ms");
    }

    // The same law and load, live.
    let stage =
        Stage::builder("work").classes(classes).law(HalfTarget::new(target)).workers(2).handler(
            async |(): (), _: Context| {
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(())
            },
        )?;
    let mut ticks = tokio::time::interval(Duration::from_micros(2500));
    for _ in 0..600 {
        ticks.tick().await;
        let stage = stage.clone();
        tokio::spawn(async move { stage.call(()).await });
    }
    stage.drain(Duration::from_secs(1)).await;
    let total = stage.observe().total();
    println!(
        "live: {} offered, {} completed, {} rejected",
        total.offered, total.completed, total.rejected
    );
    Ok(())
}
