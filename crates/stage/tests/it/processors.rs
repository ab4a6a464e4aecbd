//! Stages that share processors: turns at them, and one law.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Class, Classes, Decision, Dequeue, Priority, Reason, Target,
    Timestamp, Waiting,
};
use tamarisk_laws::catalogue::Laws;
use tamarisk_stage::{
    BuildError, Clock, Context, Discipline, Entry, Envelope, Request, SharedProcessors, Stage,
    StageBuilder,
};

use crate::rig::{Case, Desk, Law, accounts, at_desk, settle, until};

const TARGET: Duration = Duration::from_secs(60);

fn described(name: &str, processors: &SharedProcessors) -> StageBuilder {
    StageBuilder::new(name)
        .clock(Clock::runtime())
        .classes(["gold", "bronze"])
        .p90(TARGET)
        .share(processors)
}

/// Stages that share so many processors.
fn stages<const N: usize>(processors: u32, names: [&str; N]) -> [(Stage<u32>, Desk); N] {
    let processors = SharedProcessors::new(processors);
    names.map(|name| at_desk(described(name, &processors)))
}

fn offer(stage: &Stage<u32>, class: &str, event: u32) -> Result<(), Reason> {
    let entry = Entry::new().class(stage.class(class).unwrap());
    let sent = stage.sink().try_send(Envelope::new(event, entry));
    sent.map_err(|error| error.rejection.reason)
}

/// What has begun, wherever.
async fn begun<const N: usize>(desks: [&mut Desk; N]) -> Vec<Case> {
    settle().await;
    desks.into_iter().flat_map(|desk| desk.begun()).collect()
}

/// The only one that has begun.
async fn only<const N: usize>(desks: [&mut Desk; N]) -> Case {
    let mut begun = begun(desks).await;
    assert_eq!(begun.len(), 1);
    begun.remove(0)
}

#[tokio::test(start_paused = true)]
async fn no_more_run_at_once_than_there_are_processors() {
    let [(list, mut lists), (message, mut messages)] = stages(2, ["list", "message"]);
    for event in 0..3 {
        offer(&list, "bronze", event).unwrap();
        offer(&message, "bronze", 10 + event).unwrap();
    }
    let mut running = begun([&mut lists, &mut messages]).await;
    for left in (0..6).rev() {
        assert_eq!(running.len(), 2.min(left + 1));
        running.remove(0).complete();
        running.extend(begun([&mut lists, &mut messages]).await);
    }
    assert_eq!(accounts(&list).completed + accounts(&message).completed, 6);
}

#[tokio::test(start_paused = true)]
async fn the_more_important_comes_first_whatever_stage_it_is_in() {
    let [(list, mut lists), (message, mut messages)] = stages(1, ["list", "message"]);
    offer(&list, "bronze", 0).unwrap();
    let first = only([&mut lists, &mut messages]).await;
    offer(&list, "bronze", 1).unwrap();
    offer(&message, "bronze", 2).unwrap();
    offer(&message, "gold", 3).unwrap();
    first.complete();
    let second = only([&mut lists, &mut messages]).await;
    assert_eq!(second.event, 3);
    offer(&list, "gold", 4).unwrap();
    second.complete();
    let third = only([&mut lists, &mut messages]).await;
    assert_eq!(third.event, 4);
    third.complete();
    for event in [1, 2] {
        let next = only([&mut lists, &mut messages]).await;
        assert_eq!(next.event, event, "who came first");
        next.complete();
    }
}

#[tokio::test(start_paused = true)]
async fn among_equals_who_is_due_earlier_comes_first() {
    let processors = SharedProcessors::new(1);
    let with_target =
        |name, seconds| at_desk(described(name, &processors).p90(Duration::from_secs(seconds)));
    let ((slow, mut slows), (quick, mut quicks)) =
        (with_target("slow", 60), with_target("quick", 30));
    offer(&slow, "gold", 0).unwrap();
    let first = only([&mut slows, &mut quicks]).await;
    offer(&slow, "gold", 1).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    offer(&quick, "gold", 2).unwrap();
    first.complete();
    let second = only([&mut slows, &mut quicks]).await;
    assert_eq!(second.event, 2);
}

#[tokio::test(start_paused = true)]
async fn one_law_knows_what_waits_in_all_stages() {
    let processors = SharedProcessors::new(1);
    let builder = |name| {
        let laws = Laws::new().admission("threshold", &[("queued_count", 3.0)]).unwrap();
        described(name, &processors).laws(laws)
    };
    let ((list, mut lists), (message, mut messages)) =
        (at_desk(builder("list")), at_desk(builder("message")));
    offer(&list, "bronze", 0).unwrap();
    let first = only([&mut lists, &mut messages]).await;
    for event in 1..=3 {
        offer(&list, "bronze", event).unwrap();
    }
    assert_eq!(offer(&message, "bronze", 4), Err(Reason::QueueFull));
    assert_eq!(message.observe().law, "threshold");

    first.complete();
    let second = only([&mut lists, &mut messages]).await;
    offer(&message, "bronze", 5).unwrap();
    assert_eq!(offer(&list, "bronze", 6), Err(Reason::QueueFull));
    second.complete();
    drop(begun([&mut lists, &mut messages]).await);

    // What was in a stage that is gone does not count any more.
    drop(list);
    assert_eq!(messages.next().await.event, 5);
    for event in 7..=9 {
        offer(&message, "bronze", event).unwrap();
    }
    assert_eq!(offer(&message, "bronze", 10), Err(Reason::QueueFull));
}

#[tokio::test(start_paused = true)]
async fn bronze_of_one_stage_is_rejected_where_gold_of_another_needs_the_time() {
    let processors = SharedProcessors::new(1);
    let builder = |name| described(name, &processors).p90(Duration::from_secs(10));
    let ((list, mut lists), (message, mut messages)) =
        (at_desk(builder("list")), at_desk(builder("message")));
    // Events take 2 s, as the law has seen.
    for event in 0..200 {
        for (stage, desk, class) in
            [(&list, &mut lists, "gold"), (&message, &mut messages, "bronze")]
        {
            offer(stage, class, event).unwrap();
            let case = desk.next().await;
            tokio::time::advance(Duration::from_secs(2)).await;
            case.complete();
            settle().await;
        }
    }
    let admits = |stage, class, event| offer(stage, class, event).is_ok();
    let gold = (0..10).filter(|&event| admits(&list, "gold", event)).count();
    assert!((2..=5).contains(&gold), "{gold} of gold in 10 s");
    assert_eq!(offer(&message, "bronze", 0), Err(Reason::PredictedLate));
    assert_eq!(message.observe().total().queued, 0);
    let named: Vec<_> = message.observe().readings.into_iter().map(|its| its.class).collect();
    let of = |class: &str| named.iter().flatten().filter(|named| *named == class).count();
    assert_eq!(of("gold"), of("bronze"), "{named:?}");
    assert_eq!(of("gold") * 2, named.iter().flatten().count(), "of no other stage: {named:?}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_something_else_lets_another_stage_go_on() {
    let [(list, mut lists), (message, mut messages)] = stages(1, ["list", "message"]);
    offer(&list, "bronze", 0).unwrap();
    let waits = only([&mut lists, &mut messages]).await;
    offer(&message, "bronze", 1).unwrap();
    offer(&message, "bronze", 2).unwrap();
    assert!(begun([&mut lists, &mut messages]).await.is_empty());
    waits.cx.release_processor();
    waits.cx.release_processor();
    let second = only([&mut lists, &mut messages]).await;
    assert_eq!(second.event, 1);

    // It has no turn that it could give to anybody.
    waits.complete();
    assert!(begun([&mut lists, &mut messages]).await.is_empty());
    second.complete();
    assert_eq!(only([&mut lists, &mut messages]).await.event, 2);
}

#[tokio::test(start_paused = true)]
async fn a_turn_comes_back_however_an_event_ends() {
    let [(list, mut lists), (message, mut messages)] = stages(1, ["list", "message"]);
    let ends: [fn(&Stage<u32>, Case); 4] = [
        |_, case| case.complete(),
        |_, case| case.fail(),
        |_, case| case.panic(),
        |stage, case| assert!(stage.terminate(case.cx.id())),
    ];
    for end in ends {
        offer(&list, "bronze", 0).unwrap();
        let first = only([&mut lists, &mut messages]).await;
        offer(&message, "bronze", 1).unwrap();
        end(&list, first);
        let second = only([&mut lists, &mut messages]).await;
        assert_eq!(second.event, 1);
        second.complete();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_is_gone_has_no_turn() {
    let [(list, mut lists), (message, mut messages)] = stages(1, ["list", "message"]);
    offer(&list, "bronze", 0).unwrap();
    let first = only([&mut lists, &mut messages]).await;
    offer(&list, "bronze", 1).unwrap();
    offer(&message, "bronze", 2).unwrap();
    // Its worker ends with what it runs.
    drop(list);
    first.complete();
    assert_eq!(only([&mut lists, &mut messages]).await.event, 2);
}

#[tokio::test(start_paused = true)]
async fn workers_that_come_and_go_lose_no_turn() {
    let processors = SharedProcessors::new(2);
    let (list, mut lists) = at_desk(described("list", &processors).workers_between(1..=4));
    let (message, mut messages) = at_desk(described("message", &processors));
    for round in 0..20 {
        list.set_workers(1 + round % 4).unwrap();
        for event in 0..4 {
            offer(&list, "bronze", event).unwrap();
            offer(&message, "gold", event).unwrap();
        }
        let inside = || accounts(&list).inside() + accounts(&message).inside();
        while inside() > 0 {
            let running = begun([&mut lists, &mut messages]).await;
            assert!(!running.is_empty(), "a turn is lost in round {round}, {} left", inside());
            assert!(running.len() <= 2);
            list.set_workers(1 + (round + inside() as u32) % 4).unwrap();
            running.into_iter().for_each(Case::complete);
            settle().await;
        }
    }
    for event in 0..8 {
        offer(&list, "bronze", event).unwrap();
    }
    assert_eq!(begun([&mut lists, &mut messages]).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_said() {
    let processors = SharedProcessors::new(1);
    let build = |builder: StageBuilder| {
        builder.handler(async |event: u32, _: Context| Ok(event)).map(drop).err()
    };
    let named = |law| Laws::new().admission(law, &[]).unwrap();
    let list = at_desk(described("list", &processors).laws(named("open")));
    let shared_laws = Some(BuildError::SharedLaws { stage: "message".into() });
    let message = || described("message", &processors);
    assert_eq!(build(message()), shared_laws);
    assert_eq!(build(message().laws(named("threshold"))), shared_laws);
    assert_eq!(build(message().law(Law::default())), shared_laws);
    assert_eq!(build(message().laws(named("open"))), None);
    drop(list);
    settle().await;
    assert_eq!(build(message()), None, "nobody is left whose law is another");

    let gate = message().gate().map(drop).err();
    assert_eq!(gate, Some(BuildError::SharedWithoutWorkers { stage: "message".into() }));
    let inline = message().inline(|event: u32| event).map(drop).err();
    assert_eq!(inline, Some(BuildError::SharedWithoutWorkers { stage: "message".into() }));
    settle().await;
    let for_gates = message().laws(named("work-limit"));
    assert_eq!(build(for_gates), Some(BuildError::GateLaw { stage: "message".into() }));

    let other_clock = message().laws(named("open")).clock(Clock::monotonic());
    let list = at_desk(described("list", &processors).laws(named("open")));
    assert_eq!(build(other_clock), Some(BuildError::SharedClock { stage: "message".into() }));
    drop(list);
    settle().await;

    let class = |index: usize| Class {
        name: index.to_string(),
        target: Target::p90(TARGET).unwrap(),
        priority: Priority(0),
    };
    let many = || Classes::new((0..40).map(class).collect()).unwrap();
    let _first =
        message().classes(many()).handler(async |event: u32, _: Context| Ok(event)).unwrap();
    let error = build(described("list", &processors).classes(many())).unwrap();
    assert!(error.to_string().contains("between 1 and 64 classes, not 80"), "{error}");
}

/// What is left of a closed stage does nothing to the one that has joined since.
#[tokio::test(start_paused = true)]
async fn a_stage_that_joins_later_is_not_disturbed_by_one_that_has_gone() {
    let processors = SharedProcessors::new(1);
    let join = |name| at_desk(described(name, &processors).workers(2));
    let ((old, mut olds), (other, mut others)) = (join("old"), join("other"));
    offer(&old, "bronze", 0).unwrap();
    let waits = only([&mut olds, &mut others]).await;
    waits.cx.release_processor();
    drop(old);
    offer(&other, "bronze", 1).unwrap();
    let runs = only([&mut olds, &mut others]).await;

    let (new, mut news) = join("new");
    offer(&new, "bronze", 2).unwrap();
    assert!(begun([&mut news]).await.is_empty());
    waits.complete();
    settle().await;
    runs.complete();
    assert_eq!(only([&mut news, &mut others]).await.event, 2);
    assert_eq!(new.observe().total().running, 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_calls_another_stage_gives_it_its_turn() {
    let processors = SharedProcessors::new(1);
    let double = described("double", &processors).handler(async |n: u32, _: Context| Ok(2 * n));
    let double = double.unwrap();
    let next = described("next", &processors)
        .handler(async move |n: u32, cx: Context| Ok(1 + cx.call(&double, n).await?))
        .unwrap();
    let answers = async { (next.call(1).await, next.call(2).await) };
    let answers = tokio::time::timeout(Duration::from_secs(1), answers).await;
    assert!(matches!(answers, Ok((Ok(3), Ok(5)))), "{answers:?}");
}

/// Panics over each event that is to leave the queue.
struct Faltering;

impl AdmissionLaw for Faltering {
    fn name(&self) -> &'static str {
        "faltering"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        Decision::Admit
    }

    fn on_dequeue(&mut self, _: Timestamp, _: &Waiting, _: &Backlog<'_>) -> Dequeue {
        panic!("a mistake in a law")
    }
}

#[tokio::test(start_paused = true)]
async fn a_law_that_panics_takes_no_turn_with_it() {
    let [(list, _lists), (message, mut messages)] = stages(1, ["list", "message"]);
    // It is ruled alone from here on.
    list.set_law(Box::new(Faltering));
    offer(&list, "bronze", 0).unwrap();
    settle().await;
    offer(&message, "bronze", 1).unwrap();
    assert_eq!(only([&mut messages]).await.event, 1);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_law_is_no_more_than_there_are_processors() {
    let processors = SharedProcessors::new(2);
    let laws = || Laws::new().admission("gradient2", &[]).unwrap();
    let builder = |name| described(name, &processors).laws(laws());
    let ((list, mut lists), (message, mut messages)) =
        (at_desk(builder("list")), at_desk(builder("message")));
    for event in 0..4 {
        for stage in [&list, &message] {
            offer(stage, "bronze", event).ok();
        }
        for case in begun([&mut lists, &mut messages]).await {
            case.complete();
        }
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    for event in 0..4 {
        offer(&list, "bronze", event).ok();
        offer(&message, "bronze", event).ok();
    }
    assert!((1..=2).contains(&begun([&mut lists, &mut messages]).await.len()));
}

#[tokio::test(start_paused = true)]
async fn a_stage_whose_queue_has_another_order_does_not_always_come_first() {
    for order in 0..3 {
        let processors = SharedProcessors::new(1);
        let odd = described("odd", &processors);
        let odd = match order {
            0 => odd.partitioned(),
            1 => odd.discipline(Discipline::ShortestFirst),
            _ => odd.discipline(Discipline::FairByFlow),
        };
        let ((odd, mut odds), (even, mut evens)) =
            (at_desk(odd), at_desk(described("even", &processors)));
        offer(&odd, "bronze", 1).unwrap();
        let first = only([&mut odds, &mut evens]).await;
        tokio::time::advance(Duration::from_secs(1)).await;
        offer(&even, "bronze", 2).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        offer(&odd, "bronze", 3).unwrap();
        first.complete();
        assert_eq!(only([&mut odds, &mut evens]).await.event, 2, "order {order}");
    }
}

#[tokio::test(start_paused = true)]
async fn targets_and_abandoned_reservations_are_told_to_the_law_of_all() {
    let processors = SharedProcessors::new(1);
    let builder = |name| {
        let laws = Laws::new().admission("threshold", &[("queued_count", 1.0)]).unwrap();
        described(name, &processors).laws(laws)
    };
    let ((list, mut lists), (message, mut messages)) =
        (at_desk(builder("list")), at_desk(builder("message")));
    offer(&list, "bronze", 0).unwrap();
    let _runs = only([&mut lists, &mut messages]).await;
    let permit = message.sink().reserve(Entry::new()).unwrap();
    assert_eq!(offer(&list, "bronze", 1), Err(Reason::QueueFull));
    drop(permit);
    offer(&list, "bronze", 2).unwrap();
    assert_eq!(offer(&message, "bronze", 3), Err(Reason::QueueFull));

    let gold = message.class("gold").unwrap();
    let target = Target::p90(Duration::from_secs(5)).unwrap();
    message.set_targets(&[(gold, target)]);
    assert_eq!(message.classes().at(gold).target, target);
    assert_ne!(list.classes().at(gold).target, target);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_takes_several_at_once_has_one_turn_for_them() {
    let processors = SharedProcessors::new(1);
    let (list, mut lists) = at_desk(described("list", &processors).batch(8));
    let (message, mut messages) = at_desk(described("message", &processors));
    offer(&message, "bronze", 0).unwrap();
    let first = only([&mut lists, &mut messages]).await;
    for event in 1..=3 {
        offer(&list, "bronze", event).unwrap();
    }
    first.complete();
    offer(&message, "gold", 4).unwrap();
    let mut order = Vec::new();
    for _ in 0..4 {
        let next = only([&mut lists, &mut messages]).await;
        order.push(next.event);
        next.complete();
    }
    assert_eq!(order, [4, 1, 2, 3]);
}

/// Threads of three stages, with processors of their own and locks to wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_no_turn_is_lost_and_none_is_too_much() {
    const EACH: u32 = 2_000;
    let (processors, running) = (SharedProcessors::new(2), Arc::new(AtomicU32::new(0)));
    let most = Arc::new(AtomicU32::new(0));
    let stage = |name: &str| -> Stage<Request<u32, u32>> {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        let laws = Laws::new().admission("open", &[]).unwrap();
        let builder = Stage::builder(name).classes(["gold", "bronze"]).laws(laws);
        let handler = move |number: u32, cx: Context| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::hint::black_box((0..number % 1_000).sum::<u32>());
            running.fetch_sub(1, Ordering::SeqCst);
            if number.is_multiple_of(7) {
                cx.release_processor();
                std::thread::yield_now();
            }
            if number.is_multiple_of(11) { Err("a multiple of eleven".into()) } else { Ok(number) }
        };
        builder.share(&processors).blocking_handler(handler).unwrap()
    };
    let all = ["list", "message", "folders"].map(stage);
    let calls: Vec<_> = all
        .iter()
        .flat_map(|stage| (0..EACH).map(move |number| (stage.clone(), number)))
        .map(|(stage, number)| {
            tokio::spawn(async move {
                let class = stage.class(["gold", "bronze"][number as usize % 2]).unwrap();
                let answer = stage.call_as(number, Entry::new().class(class)).await;
                assert_eq!(answer.is_ok(), !number.is_multiple_of(11), "{answer:?}");
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    for stage in &all {
        until(|| accounts(stage).inside() == 0).await;
        let accounts = accounts(stage);
        assert_eq!(accounts.completed + accounts.failed, u64::from(EACH), "{accounts:?}");
    }
    assert!(most.load(Ordering::SeqCst) <= 2, "{most:?} at once");
}
