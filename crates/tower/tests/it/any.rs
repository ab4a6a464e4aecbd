//! Services of no protocol behind a gate.
use std::future::{pending, poll_fn};
use std::time::Duration;

use tamarisk_stage::{BoxError, Clock, EnterError, Entry, Gate, RunError, StageBuilder};
use tamarisk_tower::GateLayer;
use tower::{Layer, Service};

/// What a service does with a number.
async fn halve(number: u32) -> Result<u32, BoxError> {
    match number {
        0 => pending().await,
        odd if odd % 2 == 1 => Err("odd".into()),
        even => Ok(even / 2),
    }
}

fn gate() -> Gate {
    StageBuilder::new("halves").workers(1).clock(Clock::runtime()).gate().unwrap()
}

async fn ask(gate: &Gate, number: u32) -> Result<u32, BoxError> {
    let entry = |_: &u32| Entry::new().timeout(Duration::from_secs(1));
    let mut service = GateLayer::new(gate.clone(), entry).layer(tower::service_fn(halve));
    poll_fn(|cx| service.poll_ready(cx)).await?;
    service.call(number).await
}

#[tokio::test(start_paused = true)]
async fn answers_errors_and_rejections_are_told_apart_and_accounted_for() {
    let gate = gate();
    assert_eq!(ask(&gate, 8).await.unwrap(), 4);
    assert_eq!(ask(&gate, 3).await.unwrap_err().to_string(), "odd");
    let overdue = ask(&gate, 0).await.unwrap_err();
    assert_eq!(overdue.downcast_ref(), Some(&RunError::Terminated));
    let total = gate.observe().total();
    assert_eq!((total.completed, total.failed, total.terminated), (1, 1, 1));
    gate.close();
    let rejected = ask(&gate, 8).await.unwrap_err();
    let Some(RunError::NotEntered(EnterError::Rejected(_))) = rejected.downcast_ref() else {
        panic!("{rejected}");
    };
    assert!(gate.observe().total().balance());
}
