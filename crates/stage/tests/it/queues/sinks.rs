//! Sinks: what is taken, what comes back, and who waits.

use std::sync::Arc;
use std::time::Duration;

use tamarisk_control::{ClassId, Concurrency, Decision, Reason, Rejection};
use tamarisk_stage::{AdmissionContext, Entry, Envelope, Sink, Stage};
use tokio::time::Instant;

use crate::rig::{self, Law, Seen, accounts, at_desk, described, settle};

const RETRY: Duration = Duration::from_millis(250);

/// A stage whose only worker is busy and whose queue of one place is full.
async fn full() -> (Stage<u32>, rig::Desk, rig::Case) {
    let (stage, mut desk) = at_desk(described("full").queue_capacity(1));
    stage.sink().try_send(1).unwrap();
    let running = desk.next().await;
    stage.sink().try_send(2).unwrap();
    (stage, desk, running)
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_taken_is_handled_once() {
    let seen = Seen::new();
    let stage = described("notes").tasks(seen.notes()).unwrap();
    for event in 0..10 {
        stage.sink().try_send(event).unwrap();
    }
    settle().await;
    assert_eq!(seen.all(), (0..10).collect::<Vec<_>>());
    let accounts = accounts(&stage);
    assert_eq!((accounts.offered, accounts.completed), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_gives_the_event_back() {
    let (stage, _desk, _running) = full().await;
    let rejected = stage.sink().try_send(3).unwrap_err();
    assert_eq!(rejected.event, 3);
    assert_eq!(rejected.rejection, Rejection::new(Reason::QueueFull));
    assert_eq!(stage.sink().len(), 1);
    let accounts = accounts(&stage);
    assert_eq!((accounts.rejected, accounts.queued, accounts.running), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_of_the_law_says_why_and_when_to_retry() {
    let law = Law::default();
    let (stage, _desk) = at_desk(described("strict").law(law.clone()));
    let rejection = Rejection::new(Reason::RateExceeded).retry_after(RETRY);
    law.script().rejects = Some(rejection);
    let rejected = stage.sink().try_send(7).unwrap_err();
    assert_eq!((rejected.event, rejected.rejection), (7, rejection));
    assert_eq!(rejected.to_string(), "rejected: admission rate exceeded");
    assert_eq!(stage.sink().reserve(Entry::new()).err(), Some(rejection));
    assert_eq!(stage.observe().rejections[&Reason::RateExceeded], 2);
}

#[tokio::test(start_paused = true)]
async fn send_goes_on_the_moment_that_there_is_room() {
    let (stage, mut desk, running) = full().await;
    let sink = stage.sink();
    let sending = tokio::spawn(async move { sink.send(3).await });
    settle().await;
    assert!(!sending.is_finished());
    assert_eq!(accounts(&stage).offered, 2, "an event that waits outside is not offered yet");

    let start = Instant::now();
    running.complete();
    desk.next().await.complete();
    assert_eq!(sending.await.unwrap(), Ok(()));
    assert_eq!(desk.next().await.event, 3);
    assert_eq!(start.elapsed(), Duration::ZERO, "it waited for no clock");
}

#[tokio::test(start_paused = true)]
async fn each_place_that_is_freed_lets_one_waiting_sender_in() {
    let (stage, mut desk, running) = full().await;
    for event in 3..8 {
        let sink = stage.sink();
        tokio::spawn(async move { sink.send(event).await });
    }
    settle().await;
    let start = Instant::now();
    running.complete();
    let mut events = Vec::new();
    for _ in 2..8 {
        let case = desk.next().await;
        events.push(case.event);
        case.complete();
    }
    settle().await;
    assert_eq!(events, [2, 3, 4, 5, 6, 7], "in the order in which they came to wait");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn send_tries_again_when_the_law_said_it_may() {
    let law = Law::default();
    let (stage, mut desk) = at_desk(described("strict").law(law.clone()));
    let retry = Duration::from_millis(30);
    law.script().rejects = Some(Rejection::new(Reason::RateExceeded).retry_after(retry));
    let sink = stage.sink();
    let start = Instant::now();
    let sending = tokio::spawn(async move { sink.send(1).await });
    settle().await;
    law.script().rejects = None;
    assert_eq!(desk.next().await.event, 1);
    assert_eq!(start.elapsed(), retry);
    assert_eq!(sending.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn send_gives_up_at_the_deadline_of_its_event_and_was_offered_once() {
    let (stage, _desk, _running) = full().await;
    let (start, patience) = (Instant::now(), Duration::from_millis(30));
    let rejected = stage.sink().send(Envelope::new(3, Entry::new().timeout(patience))).await;
    assert_eq!(rejected.unwrap_err().event, 3);
    assert_eq!(start.elapsed(), patience);
    let accounts = accounts(&stage);
    assert_eq!((accounts.offered, accounts.rejected), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_sender_hears_at_once_that_the_stage_is_closed() {
    let (stage, _desk, _running) = full().await;
    let (sink, start) = (stage.sink(), Instant::now());
    let sending = tokio::spawn(async move { sink.send(3).await });
    settle().await;
    drop(stage);
    let rejected = sending.await.unwrap().unwrap_err();
    assert_eq!((rejected.event, rejected.rejection.reason), (3, Reason::Closed));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_sender_hears_at_once_that_the_stage_drains() {
    let (stage, _desk, _running) = full().await;
    let (sink, start) = (stage.sink(), Instant::now());
    let sending = tokio::spawn(async move { sink.send(3).await });
    settle().await;
    let draining = tokio::spawn(async move { stage.drain(Duration::from_secs(1)).await });
    assert_eq!(sending.await.unwrap().unwrap_err().rejection.reason, Reason::Draining);
    assert_eq!(start.elapsed(), Duration::ZERO);
    draining.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_leaves_takes_nobody_s_wake_up_along() {
    let (stage, mut desk, running) = full().await;
    let (first, second) = (stage.sink(), stage.sink());
    let leaving = tokio::spawn(async move { first.send(3).await });
    settle().await;
    let staying = tokio::spawn(async move { second.send(4).await });
    settle().await;
    let start = Instant::now();
    leaving.abort();
    running.complete();
    assert_eq!(staying.await.unwrap(), Ok(()));
    assert_eq!(start.elapsed(), Duration::ZERO);
    desk.next().await.complete();
    assert_eq!(desk.next().await.event, 4);
    assert_eq!(accounts(&stage).offered, 3, "what was never admitted nor rejected was not offered");
}

#[tokio::test(start_paused = true)]
async fn a_lossy_send_says_whether_the_event_was_taken() {
    let (stage, _desk) = at_desk(described("small").queue_capacity(1));
    assert!(stage.sink().send_lossy(1));
    assert!(!stage.sink().send_lossy(2));
    assert_eq!(accounts(&stage).rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn many_are_taken_as_far_as_there_is_room_and_the_rest_come_back_in_order() {
    let seen = Seen::new();
    let stage = described("small").queue_capacity(3).tasks(seen.notes()).unwrap();
    let rejected = stage.sink().send_many(0..5);
    let rejected: Vec<_> = rejected.iter().map(|r| (r.event, r.rejection.reason)).collect();
    assert_eq!(rejected, [(3, Reason::QueueFull), (4, Reason::QueueFull)]);
    settle().await;
    assert_eq!(seen.all(), [0, 1, 2]);
    let accounts = accounts(&stage);
    assert_eq!((accounts.offered, accounts.rejected, accounts.completed), (5, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn an_iterator_that_panics_offers_nothing_and_harms_nobody() {
    let seen = Seen::new();
    let stage = described("notes").tasks(seen.notes()).unwrap();
    let sink = stage.sink();
    let sending = tokio::spawn(async move {
        sink.send_many((0..10).map(|event| if event < 5 { event } else { panic!("bad luck") }))
    });
    assert!(sending.await.unwrap_err().is_panic());
    assert_eq!(accounts(&stage).offered, 0);
    stage.sink().try_send(1).unwrap();
    settle().await;
    assert_eq!(seen.all(), [1]);
}

#[tokio::test(start_paused = true)]
async fn an_iterator_may_use_the_sink_that_it_is_sent_to() {
    let seen = Seen::new();
    let stage = described("notes").tasks(seen.notes()).unwrap();
    let sink = stage.sink();
    let rejected = sink.send_many((1..4).inspect(|event| sink.try_send(event * 10).unwrap()));
    assert!(rejected.is_empty());
    settle().await;
    assert_eq!(seen.all(), [10, 20, 30, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_predicate_is_told_what_is_asked_and_rejects_with_its_own_reason() {
    let (stage, mut desk) = at_desk(described("guarded").workers(2).classes(rig::classes(&[0, 1])));
    stage.sink().try_send(0).unwrap();
    let _running = desk.next().await;
    let asked = Seen::new();
    let asking = asked.clone();
    stage.sink().set_predicate(Some(Arc::new(
        move |ask: &AdmissionContext, event: Option<&u32>| {
            asking.push((*ask, event.copied()));
            match event {
                Some(13) => Decision::Reject(Rejection::new(Reason::Predicate).retry_after(RETRY)),
                _ => Decision::Admit,
            }
        },
    )));

    let entry = Entry::new().class(ClassId::new(1)).cost(5);
    let rejected = stage.sink().try_send(Envelope::new(13, entry)).unwrap_err();
    assert_eq!((rejected.event, rejected.rejection.retry_after), (13, Some(RETRY)));
    stage.sink().try_send(14).unwrap();
    let _place = stage.sink().reserve(entry).unwrap();

    let all = asked.all();
    let ask = |class: usize, cost, queued| AdmissionContext {
        class: ClassId::new(class),
        cost,
        flow: 0,
        queued,
        workers: Concurrency::new(2),
    };
    assert_eq!(all[0], (ask(1, 5, 0), Some(13)));
    assert_eq!(all[1], (ask(0, 1, 0), Some(14)));
    assert_eq!(all[2], (ask(1, 5, 1), None), "the event of a reservation is yet to be made");
    assert_eq!(accounts(&stage).rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn a_predicate_holds_for_every_sink_until_it_is_taken_away() {
    let (stage, _desk) = at_desk(described("guarded"));
    let (one, other): (Sink<u32>, Sink<u32>) = (stage.sink(), stage.sink());
    one.set_predicate(Some(Arc::new(|_, _| Decision::Reject(Rejection::new(Reason::Predicate)))));
    assert_eq!(other.try_send(1).unwrap_err().rejection.reason, Reason::Predicate);
    assert_eq!(other.send_many([1, 2]).len(), 2);
    assert!(!other.send_lossy(1));
    let predicate = other.predicate();
    other.set_predicate(None);
    assert_eq!(one.try_send(1), Ok(()));
    one.set_predicate(predicate);
    assert!(one.try_send(1).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_predicate_may_look_at_its_stage_and_take_itself_away() {
    let (stage, _desk) = at_desk(described("guarded"));
    let sink = stage.sink();
    let own = sink.clone();
    sink.set_predicate(Some(Arc::new(move |_, _| {
        assert_eq!(own.len(), 0);
        own.set_predicate(None);
        Decision::Reject(Rejection::new(Reason::Predicate))
    })));
    assert!(sink.try_send(1).is_err());
    assert!(sink.try_send(1).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_predicate_that_panics_leaves_what_was_taken_before_to_be_handled() {
    let seen = Seen::new();
    let stage = described("guarded").tasks(seen.notes()).unwrap();
    settle().await;
    stage.sink().set_predicate(Some(Arc::new(|_, event| match event {
        Some(3) => panic!("cannot decide"),
        _ => Decision::Admit,
    })));
    let sink = stage.sink();
    let sending = tokio::spawn(async move { sink.send_many(1..6) });
    assert!(sending.await.unwrap_err().is_panic());
    settle().await;
    assert_eq!(seen.all(), [1, 2]);
    assert_eq!(accounts(&stage).offered, 2);
}

#[tokio::test(start_paused = true)]
async fn a_destroyed_stage_answers_closed_to_every_way_in() {
    let (stage, _desk) = at_desk(described("gone"));
    let sink = stage.sink();
    drop(stage);
    let closed = Rejection::new(Reason::Closed);
    assert!(sink.is_closed());
    assert_eq!(sink.try_send(1).unwrap_err().rejection, closed);
    assert_eq!(sink.send(1).await.unwrap_err().rejection, closed);
    assert!(!sink.send_lossy(1));
    assert_eq!(sink.send_many([1, 2]).iter().filter(|r| r.rejection == closed).count(), 2);
    assert_eq!(sink.reserve(Entry::new()).err(), Some(closed));
}

#[tokio::test(start_paused = true)]
async fn no_predicate_hides_that_the_stage_is_gone() {
    let (stage, _desk) = at_desk(described("guarded"));
    let sink = stage.sink();
    sink.set_predicate(Some(Arc::new(|_, _| Decision::Reject(Rejection::new(Reason::Predicate)))));
    let waits = sink.clone();
    let sending = tokio::spawn(async move { waits.send(1).await });
    settle().await;
    stage.close();
    assert_eq!(sending.await.unwrap().unwrap_err().rejection.reason, Reason::Closed);
    assert_eq!(sink.try_send(2).unwrap_err().rejection.reason, Reason::Closed);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_overdue_already_is_rejected() {
    let (stage, _desk) = at_desk(described("punctual"));
    let overdue = Envelope::new(1, Entry::new().timeout(Duration::ZERO));
    let rejected = stage.sink().try_send(overdue).unwrap_err();
    assert_eq!(rejected.rejection.reason, Reason::PredictedLate);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_the_stage_has_not_counts_as_the_default_one() {
    let (stage, mut desk) = at_desk(described("one class"));
    let stray = Envelope::new(1, Entry::new().class(ClassId::new(9)));
    stage.sink().try_send(stray).unwrap();
    assert_eq!(desk.next().await.cx.class(), ClassId::DEFAULT);
    assert_eq!(accounts(&stage).running, 1);
}
