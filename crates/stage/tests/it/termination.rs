//! Ending a running event early: where it can end, what puts that off, and that
//! nobody else is ever hit.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarisk_control::ClassId;
use tamarisk_stage::{Context, Entry, Envelope, Shield, Stage, Terminated, blocking_fn, stage_fn};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::rig::{self, Seen, accounts, at_desk, described, settle, until};

fn due(event: u32, millis: u64) -> Envelope<u32> {
    Envelope::new(event, Entry::new().timeout(Duration::from_millis(millis)))
}

#[tokio::test(start_paused = true)]
async fn async_work_ends_at_its_await_and_releases_what_it_held() {
    struct Held(Seen<&'static str>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.push("released");
        }
    }
    let seen = Seen::new();
    let noted = seen.clone();
    let stage = described("held")
        .tasks(stage_fn(move |_event: u32, _cx: Context| {
            let noted = noted.clone();
            async move {
                let held = Held(noted.clone());
                sleep(Duration::from_secs(1)).await;
                noted.push("past the await");
                drop(held);
                Ok(())
            }
        }))
        .unwrap();
    stage.sink().send_many([1, 2]);
    settle().await;
    assert!(stage.terminate(stage.running()[0].id));
    settle().await;
    assert_eq!(seen.all(), ["released"]);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(seen.all(), ["released", "past the await", "released"]);
    assert_eq!((accounts(&stage).terminated, accounts(&stage).completed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_awaits_nothing_completes_in_spite_of_a_request() {
    let own = Arc::new(OnceLock::<Stage<u32>>::new());
    let known = Arc::clone(&own);
    let handlers = stage_fn(move |_event: u32, cx: Context| {
        assert!(known.get().unwrap().terminate(cx.id()));
        async { Ok(()) }
    });
    let stage = own.get_or_init(|| described("steady").tasks(handlers).unwrap());
    stage.sink().send_many([1, 2]);
    settle().await;
    assert_eq!(accounts(stage).completed, 2);
}

#[tokio::test]
async fn blocking_work_ends_at_a_checkpoint() {
    let seen = Seen::new();
    let noted = seen.clone();
    let stage = described("loop")
        .threads(blocking_fn(move |event: u32, cx: Context| {
            noted.push(event);
            loop {
                cx.checkpoint()?;
                if event == 1 {
                    return Ok(());
                }
                std::thread::yield_now();
            }
        }))
        .unwrap();
    stage.sink().send_many([0, 1]);
    until(|| stage.running().first().is_some_and(|running| stage.terminate(running.id))).await;
    until(|| accounts(&stage).inside() == 0).await;
    assert_eq!(seen.all(), [0, 1]);
    assert_eq!((accounts(&stage).terminated, accounts(&stage).completed), (1, 1));
}

#[tokio::test]
async fn blocking_work_that_passes_no_checkpoint_goes_on() {
    let (go, going) = std::sync::mpsc::channel::<()>();
    let going = Arc::new(parking_lot::Mutex::new(going));
    let stage = described("deaf")
        .threads(blocking_fn(move |_event: u32, _cx: Context| Ok(going.lock().recv()?)))
        .unwrap();
    stage.sink().try_send(1).unwrap();
    until(|| !stage.running().is_empty()).await;
    assert!(stage.terminate(stage.running()[0].id));
    go.send(()).unwrap();
    until(|| accounts(&stage).completed == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_returns_terminated_has_its_event_counted_so() {
    let stage = described("resigned")
        .tasks(stage_fn(|_event: u32, _cx: Context| async { Err(Terminated.into()) }))
        .unwrap();
    stage.sink().try_send(1).unwrap();
    settle().await;
    assert_eq!(accounts(&stage).terminated, 1);
    assert_eq!(stage.observe().last_failure, None);
}

#[tokio::test(start_paused = true)]
async fn a_shield_puts_termination_off_until_it_is_lowered() {
    let seen = Seen::new();
    let noted = seen.clone();
    let stage = described("shielded")
        .tasks(stage_fn(move |_event: u32, cx: Context| {
            let noted = noted.clone();
            async move {
                let outer = cx.shield();
                {
                    let _inner = cx.shield();
                    sleep(Duration::from_millis(100)).await;
                    noted.push("inner");
                }
                sleep(Duration::from_millis(100)).await;
                noted.push("outer");
                drop(outer);
                sleep(Duration::from_millis(100)).await;
                noted.push("beyond");
                Ok(())
            }
        }))
        .unwrap();
    stage.sink().try_send(due(1, 50)).unwrap();
    sleep(Duration::from_millis(10)).await;
    assert!(stage.terminate(stage.running()[0].id));
    sleep(Duration::from_millis(500)).await;
    assert_eq!(seen.all(), ["inner", "outer"]);
    assert_eq!(accounts(&stage).terminated, 1);
}

#[tokio::test(start_paused = true)]
async fn a_shield_lowered_elsewhere_ends_the_event_at_once() {
    let (give, mut given) = mpsc::unbounded_channel::<Shield>();
    let stage = described("shielded")
        .tasks(stage_fn(move |_event: u32, cx: Context| {
            give.send(cx.shield()).ok();
            std::future::pending()
        }))
        .unwrap();
    stage.sink().try_send(1).unwrap();
    let shield = given.recv().await.unwrap();
    let start = Instant::now();
    assert!(stage.terminate(stage.running()[0].id));
    settle().await;
    assert_eq!(accounts(&stage).running, 1);
    drop(shield);
    settle().await;
    assert_eq!(accounts(&stage).terminated, 1);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_shield_masks_checkpoints_too() {
    let (passed, mut passing) = mpsc::unbounded_channel();
    let (go, going) = std::sync::mpsc::channel::<()>();
    let going = Arc::new(parking_lot::Mutex::new(going));
    let stage = described("shielded")
        .threads(blocking_fn(move |_event: u32, cx: Context| {
            let shield = cx.shield();
            passed.send(cx.checkpoint())?;
            going.lock().recv()?;
            passed.send(cx.checkpoint())?;
            drop(shield);
            passed.send(cx.checkpoint())?;
            cx.checkpoint()?;
            Ok(())
        }))
        .unwrap();
    stage.sink().try_send(1).unwrap();
    assert_eq!(passing.recv().await, Some(Ok(())));
    assert!(stage.terminate(stage.running()[0].id));
    go.send(()).unwrap();
    assert_eq!(passing.recv().await, Some(Ok(())));
    assert_eq!(passing.recv().await, Some(Err(Terminated)));
    until(|| accounts(&stage).terminated == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_late_hits_nobody() {
    let (stage, mut desk) = at_desk(described("late"));
    stage.sink().send_many([1, 2]);
    let first = desk.next().await;
    let id = first.cx.id();
    assert_eq!(stage.running()[0].id, id);
    first.complete();
    let second = desk.next().await;
    assert_ne!(second.cx.id(), id);
    assert!(!stage.terminate(id));
    settle().await;
    assert!(!second.is_over());
    second.complete();
    settle().await;
    assert!(!stage.terminate(stage.running().first().map_or(id, |running| running.id)));
    assert_eq!(accounts(&stage).completed, 2);
}

#[tokio::test(start_paused = true)]
async fn asking_twice_ends_it_once() {
    let (stage, mut desk) = at_desk(described("twice"));
    stage.sink().send_many([1, 2]);
    let id = desk.next().await.cx.id();
    assert!(stage.terminate(id));
    assert!(stage.terminate(id));
    let second = desk.next().await;
    assert!(!second.is_over());
    assert_eq!(accounts(&stage).terminated, 1);
}

#[tokio::test(start_paused = true)]
async fn a_context_that_outlives_its_event_has_no_hold_on_the_next_one() {
    let (stage, mut desk) = at_desk(described("stale"));
    stage.sink().send_many([1, 2]);
    let first = desk.next().await;
    let stale = first.cx.clone();
    let kept = stale.shield();
    first.complete();
    let second = desk.next().await;
    let raised_late = stale.shield();
    assert_eq!(stale.checkpoint(), Err(Terminated));
    assert!(stage.terminate(second.cx.id()));
    settle().await;
    assert!(second.is_over(), "no stale shield protects it");
    drop((kept, raised_late));

    stage.sink().try_send(3).unwrap();
    let third = desk.next().await;
    let shield = third.cx.shield();
    drop(stale.shield());
    assert!(stage.terminate(third.cx.id()));
    settle().await;
    assert!(!third.is_over(), "and none lowers its own");
    drop(shield);
    settle().await;
    assert!(third.is_over());
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_shown_with_class_and_age() {
    let (stage, mut desk) = at_desk(described("seen").workers(2).classes(rig::classes(&[0, 0])));
    let second_class = Entry::new().class(ClassId::new(1));
    stage.sink().try_send(Envelope::new(1, second_class)).unwrap();
    let case = desk.next().await;
    tokio::time::advance(Duration::from_secs(3)).await;
    let running = stage.running();
    assert_eq!(running.len(), 1, "one of two workers is idle");
    assert_eq!(running[0].class, ClassId::new(1));
    assert_eq!(running[0].age, Duration::from_secs(3));
    assert_eq!(running[0].id, case.cx.id());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_running_event_when_it_passes() {
    let (stage, mut desk) = at_desk(described("due"));
    stage.sink().send_many([due(1, 70), due(2, 500)]);
    let (start, case) = (Instant::now(), desk.next().await);
    let second = desk.next().await;
    assert_eq!(start.elapsed(), Duration::from_millis(70));
    assert!(case.is_over());
    second.complete();
    settle().await;
    assert_eq!((accounts(&stage).terminated, accounts(&stage).completed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_alarm_of_an_event_that_is_done_does_not_ring_for_the_next() {
    let (stage, mut desk) = at_desk(described("due"));
    stage.sink().send_many([due(1, 70), Envelope::new(2, Entry::new()), due(3, 200)]);
    desk.next().await.complete();
    let second = desk.next().await;
    sleep(Duration::from_millis(150)).await;
    assert!(!second.is_over());
    second.complete();
    let third = desk.next().await;
    sleep(Duration::from_millis(40)).await;
    assert!(!third.is_over());
    sleep(Duration::from_millis(20)).await;
    assert!(third.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_waits_for_the_shield() {
    let (stage, mut desk) = at_desk(described("due"));
    stage.sink().try_send(due(1, 50)).unwrap();
    let case = desk.next().await;
    let shield = case.cx.shield();
    sleep(Duration::from_millis(200)).await;
    assert!(!case.is_over());
    drop(shield);
    settle().await;
    assert!(case.is_over());
    assert_eq!(accounts(&stage).terminated, 1);
}

#[tokio::test(start_paused = true)]
async fn a_blocking_event_that_is_overdue_ends_at_its_checkpoint() {
    let (passed, mut passing) = mpsc::unbounded_channel();
    let stage = described("due")
        .threads(blocking_fn(move |_event: u32, cx: Context| {
            let shield = cx.shield();
            passed.send(cx.checkpoint())?;
            while cx.time_left() != Some(Duration::ZERO) {
                std::thread::yield_now();
            }
            passed.send(cx.checkpoint())?;
            drop(shield);
            passed.send(cx.checkpoint())?;
            Ok(cx.checkpoint()?)
        }))
        .unwrap();
    stage.sink().try_send(due(1, 5)).unwrap();
    until(|| !stage.running().is_empty()).await;
    tokio::time::advance(Duration::from_millis(5)).await;
    until(|| accounts(&stage).terminated == 1).await;
    let passed: Vec<_> = std::iter::from_fn(|| passing.try_recv().ok()).collect();
    assert_eq!(passed, [Ok(()), Ok(()), Err(Terminated)]);
}

#[tokio::test(start_paused = true)]
async fn closing_a_stage_takes_the_rest_of_a_batch_from_its_workers() {
    let (stage, mut desk) = at_desk(described("closing"));
    stage.sink().send_many(0..5);
    let first = desk.next().await;
    assert_eq!(accounts(&stage).running, 5);
    stage.close();
    settle().await;
    assert!(first.is_over());
    assert!(desk.begun().is_empty(), "nothing begins in a closed stage");
    let accounts = accounts(&stage);
    assert_eq!((accounts.terminated, accounts.dropped, accounts.inside()), (1, 4, 0));
}

#[tokio::test]
async fn closing_a_stage_of_threads_takes_the_rest_of_a_batch_too() {
    let (stage, mut desk) = {
        let (handlers, desk) = rig::desk();
        (described("closing").threads(handlers).unwrap(), desk)
    };
    stage.sink().send_many(0..5);
    let first = desk.next().await;
    stage.close();
    assert!(!first.is_over(), "it has not come to a checkpoint");
    assert_eq!(first.cx.checkpoint(), Err(Terminated));
    first.complete();
    until(|| accounts(&stage).inside() == 0).await;
    assert!(desk.begun().is_empty());
    assert_eq!((accounts(&stage).completed, accounts(&stage).dropped), (1, 4));
}
