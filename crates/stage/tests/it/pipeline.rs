//! Requests that go through several stages: what comes of them in one of these reaches the
//! caller, and each stage accounts for its own event.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tamarisk_control::{ClassId, MeasuredFrom, Ratio, Reason, Rejection};
use tamarisk_stage::{
    BoxError, CallError, Clock, Context, Entry, Request, Stage, StageBuilder, StageObservation,
};
use tokio::time::Instant;

use crate::rig::{self, Law, accounts, described, settle};

type Doubling = Stage<Request<u32, u32>>;

/// Doubles; errs at 1, panics at 2, never ends at 3.
fn back(law: &Law) -> Doubling {
    let back = StageBuilder::new("back").workers(4).clock(Clock::runtime()).law(law.clone());
    back.handler(async |number: u32, _: Context| match number {
        1 => Err("it cannot".into()),
        2 => panic!("it must not"),
        3 => pending().await,
        _ => Ok(2 * number),
    })
    .unwrap()
}

/// Passes everything on to `back`, and takes the next.
fn forwards(back: &Doubling) -> Doubling {
    let back = back.clone();
    described("front")
        .event_handler(async move |Request { body, reply }: Request<u32, u32>, cx: Context| {
            cx.forward(&back, body, reply);
            Ok(())
        })
        .unwrap()
}

/// Asks `back`, and passes its answer on.
fn calls(back: &Doubling) -> Doubling {
    let back = back.clone();
    described("front")
        .handler(async move |number: u32, cx: Context| Ok(cx.call(&back, number).await?))
        .unwrap()
}

fn further(cause: CallError) -> Result<u32, CallError> {
    Err(CallError::Further { stage: "back".into(), cause: Box::new(cause) })
}

/// [Welsh03 §3.2] tags requests as they enter the service.
#[tokio::test(start_paused = true)]
async fn a_law_is_told_the_time_since_its_stage_was_entered_or_since_the_service_was() {
    for (from, expected) in [(MeasuredFrom::Stage, 30), (MeasuredFrom::Service, 80)] {
        let law = Law::default();
        let last = StageBuilder::new("last").workers(4).clock(Clock::runtime()).law(law.clone());
        let last = last.measured_from(from).handler(async |number: u32, _: Context| {
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok(number)
        });
        let next = last.unwrap();
        let first = described("first").handler(async move |number: u32, cx: Context| {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(cx.call(&next, number).await?)
        });
        assert_eq!(first.unwrap().call(7).await, Ok(7));
        settle().await;
        let [service, response] = law.script().services[0].map(|time| time.as_millis());
        // Timers of the paused clock are in whole milliseconds.
        assert!((30..32).contains(&service), "{from:?}: {service} ms");
        assert!((expected..expected + 3).contains(&response), "{from:?}: {response} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_further_on_reaches_the_caller_with_the_stage_it_happened_in() {
    let law = Law::default();
    let back = back(&law);
    for front in [forwards(&back), calls(&back)] {
        assert_eq!(front.call(4).await, Ok(8));
        assert_eq!(front.call(1).await, further(CallError::Failed("it cannot".into())));
        assert_eq!(front.call(2).await, further(CallError::Panicked));
        let entry = Entry::new().timeout(Duration::from_secs(1));
        let started = Instant::now();
        let overdue = front.call_as(3, entry).await.unwrap_err();
        assert_eq!(overdue.cause(), &CallError::Terminated);
        assert_eq!(started.elapsed(), Duration::from_secs(1), "the deadline went along");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_further_on_keeps_its_reason_and_says_when_to_retry() {
    let law = Law::default();
    let back = back(&law);
    let after = Duration::from_secs(7);
    let rejection = Rejection::new(Reason::RateExceeded).retry_after(after);
    law.script().rejects = Some(rejection);

    let front = forwards(&back);
    let error = front.call(4).await.unwrap_err();
    assert_eq!((error.rejection(), error.stage()), (Some(&rejection), Some("back")));
    assert_eq!(error.to_string(), "stage \"back\": rejected: admission rate exceeded");
    settle().await;
    assert_eq!(accounts(&front).completed, 1, "it has done its part");

    let front = calls(&back);
    let error = front.call(4).await.unwrap_err();
    assert_eq!((error.rejection(), error.stage()), (Some(&rejection), Some("back")));
    settle().await;
    assert_eq!(accounts(&front).failed, 1, "its handler returned the error");
    assert_eq!((accounts(&back).offered, accounts(&back).rejected), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_error_three_stages_on_names_the_stage_it_happened_in() {
    let law = Law::default();
    let back = back(&law);
    let middle = calls(&back);
    for front in [forwards(&middle), calls(&middle)] {
        assert_eq!(front.call(1).await, further(CallError::Failed("it cannot".into())));
    }
}

#[tokio::test(start_paused = true)]
async fn class_and_flow_go_along() {
    let law = Law::default();
    let back = StageBuilder::new("back")
        .workers(1)
        .classes(["gold", "bronze"])
        .law(law.clone())
        .handler(async |number: u32, cx: Context| Ok(number + cx.class().index() as u32))
        .unwrap();
    for cross in [forwards, calls] {
        let front = cross(&back);
        let (gold, flow) = (back.class("gold").unwrap(), Entry::new().flow("client"));
        assert_eq!(front.call_as(10, flow).await, Ok(10));
        // The front stage has no such class of its own.
        assert_eq!(front.class("gold"), None);
        assert_eq!(gold, ClassId::new(1));
    }
    let flows = law.script().flows.clone();
    assert!(flows.len() == 2 && flows[0] != 0 && flows[0] == flows[1], "{flows:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_blocking_handler_arrives_with_its_text() {
    let stage = described("parse")
        .blocking_handler(|text: &'static str, _: Context| Ok(text.parse::<u32>()?))
        .unwrap();
    assert_eq!(stage.call("12").await, Ok(12));
    let failed = CallError::Failed("invalid digit found in string".into());
    assert_eq!(stage.call("many").await, Err(failed));
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_has_left_is_abandoned_where_it_is() {
    let law = Law::default();
    let back = back(&law);
    for front in [forwards(&back), calls(&back)] {
        let calling = tokio::spawn({
            let front = front.clone();
            async move { front.call_as(3, Entry::new().timeout(Duration::from_secs(1))).await }
        });
        settle().await;
        calling.abort();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(accounts(&front).inside(), 0);
    }
    let accounts = accounts(&back);
    assert_eq!((accounts.abandoned, accounts.inside()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_drain_in_the_middle_is_told_to_callers() {
    let law = Law::default();
    let back = back(&law);
    let front = forwards(&back);
    let running = tokio::spawn({
        let front = front.clone();
        async move { front.call(3).await }
    });
    settle().await;
    let report = back.drain(Duration::from_secs(1)).await;
    assert!(!report.is_clean());
    assert_eq!(running.await.unwrap(), further(CallError::Terminated));
    let error = front.call(4).await.unwrap_err();
    assert_eq!(error.rejection().map(|rejection| rejection.reason), Some(Reason::Closed));
    assert_eq!(accounts(&front).completed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_stage_ends_with_the_last_of_its_clones() {
    let law = Law::default();
    let back = back(&law);
    let sink = back.sink();
    let front = forwards(&back);
    drop(back);
    assert_eq!(front.call(4).await, Ok(8));
    drop(front);
    settle().await;
    assert!(sink.is_closed());
}

#[tokio::test(start_paused = true)]
async fn targets_and_classes_that_cannot_be_are_told() {
    let built = described("two").classes(["gold", "gold"]).blocking_handler(same).err().unwrap();
    assert_eq!(built.to_string(), "stage \"two\": invalid classes: two classes are named \"gold\"");
    let built = described("late").p90(Duration::ZERO).blocking_handler(same).err().unwrap();
    assert!(built.to_string().starts_with("stage \"late\": invalid target: "), "{built}");
    let full = Ratio::ONE;
    let built = described("two").least_quality("tin", full).blocking_handler(same).err().unwrap();
    assert!(built.to_string().starts_with("stage \"two\" has no class \"tin\""), "{built}");
}

fn same(number: u32, _: Context) -> Result<u32, BoxError> {
    Ok(number)
}

#[tokio::test(start_paused = true)]
async fn a_stage_and_a_gate_find_their_workers_unless_these_are_stated() {
    let workers_law = |observed: StageObservation| {
        observed.laws.iter().find(|law| law.rules == "workers").map(|law| law.name)
    };
    let found = StageBuilder::new("found").blocking_handler(same).unwrap();
    assert_eq!(workers_law(found.observe()), Some("elastic-pool"));
    let stated = StageBuilder::new("stated").workers(3).blocking_handler(same).unwrap();
    assert_eq!((workers_law(stated.observe()), stated.observe().workers), (None, 3));

    let found = StageBuilder::new("found").gate().unwrap();
    assert_eq!(found.observe().law, "work-limit");
    assert!(found.observe().workers > 1);
    let stated = StageBuilder::new("stated").workers(3).gate().unwrap();
    assert_eq!((stated.observe().law, stated.observe().workers), ("predict-gate-trim", 3));
}

/// What the handlers of a pipeline did.
#[derive(Default)]
struct Did {
    forwarded: AtomicU64,
    called: AtomicU64,
    returned: AtomicU64,
}

/// Real threads: requests are forwarded, sent by calls, answered, rejected, cut and left alone,
/// all at once, and every stage accounts for each of its own.
#[test]
fn a_pipeline_accounts_for_every_call_under_stress() {
    const CALLERS: u64 = 16;
    const CALLS: u64 = 4_000;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap();
    let entered = runtime.enter();
    let described = |name| {
        StageBuilder::new(name).classes(rig::classes(&[0, 1])).law(Law::default()).workers(4)
    };
    let back = described("back")
        .queue_capacity(6)
        .blocking_handler(|number: u64, cx: Context| {
            match number % 5 {
                0 => return Err("as asked".into()),
                1 => std::panic::resume_unwind(Box::new("as asked")),
                _ => cx.checkpoint()?,
            }
            Ok(number)
        })
        .unwrap();
    let did = Arc::<Did>::default();
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let front = described("front")
        .queue_capacity(12)
        .event_handler({
            let (back, did) = (back.clone(), Arc::clone(&did));
            async move |Request { body, reply }: Request<u64, u64>, cx: Context| {
                let one_more = |count: &AtomicU64| count.fetch_add(1, Ordering::Relaxed);
                match body % 7 {
                    0..3 => {
                        one_more(&did.forwarded);
                        cx.forward(&back, body, reply);
                    }
                    3 | 4 => {
                        one_more(&did.called);
                        let answer = cx.call(&back, body).await?;
                        let _ = reply.send(answer);
                    }
                    5 => return Err("as asked".into()),
                    _ => drop(reply.send(body)),
                }
                one_more(&did.returned);
                Ok(())
            }
        })
        .unwrap();
    drop(entered);

    let stop = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for observed in [front.observe(), back.observe()] {
                    for class in &observed.classes {
                        assert!(class.accounts.balance(), "{:?}", class.accounts);
                    }
                }
            }
        });
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| runtime.spawn(callers_way(front.clone(), caller, CALLS)))
            .collect();
        let answered = runtime.block_on(async {
            let mut answered = 0;
            for caller in callers {
                answered += caller.await.unwrap();
            }
            answered
        });
        stop.store(true, Ordering::Relaxed);
        answered
    });
    let drained = runtime.block_on(async {
        let patience = Duration::from_secs(10);
        let is_empty =
            || [&front.observe(), &back.observe()].iter().all(|it| it.total().inside() == 0);
        // What its caller has left may still wait, and is dropped when its time is over.
        let empty = async {
            while !is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(patience, empty).await.expect("both stages go on to the end");
        [front.drain(patience).await, back.drain(patience).await]
    });
    assert!(drained.iter().all(tamarisk_stage::DrainReport::is_clean), "{drained:?}");
    let (front, back) = (front.observe().total(), back.observe().total());
    assert!(front.balance() && back.balance());
    assert_eq!(front.offered, CALLERS * CALLS);
    assert_eq!(front.completed, count(&did.returned));
    assert_eq!(back.offered, count(&did.forwarded) + count(&did.called));
    assert!(back.rejected > 0 && back.failed > 0 && back.completed > 0, "{back:?}");
    assert!(answered > 0 && answered <= CALLERS * CALLS);
}

/// Calls again and again, and leaves some calls before they are answered; returns how many
/// were, in whatever way.
async fn callers_way(front: Stage<Request<u64, u64>>, caller: u64, calls: u64) -> u64 {
    let mut answered = 0;
    for call in 0..calls {
        let number = caller.wrapping_mul(7919).wrapping_add(call.wrapping_mul(104_729));
        let mut entry = Entry::new().class(ClassId::new((number % 2) as usize));
        if number.is_multiple_of(11) {
            entry = entry.timeout(Duration::from_micros(number % 3000));
        }
        let calling = front.call_as(number, entry);
        if number.is_multiple_of(13) {
            // One poll sends it.
            tokio::select! { biased; _ = calling => {}, () = std::future::ready(()) => {} }
            continue;
        }
        let answer = calling.await;
        answered += 1;
        match answer {
            Ok(answer) => assert_eq!(answer, number, "the answer to another request"),
            Err(error) if error.rejection().is_some() => tokio::task::yield_now().await,
            Err(error) => {
                let stage = error.stage();
                let panicked = *error.cause() == CallError::Panicked;
                assert!(!panicked || stage == Some("back"), "{error:?}");
            }
        }
    }
    answered
}
