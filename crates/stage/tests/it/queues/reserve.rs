//! Reservations: a place in the queue is promised before the event exists.

use std::time::Duration;

use tamarisk_control::{Reason, Rejection};
use tamarisk_stage::{Entry, Reserve, Sink};
use tokio::time::Instant;

use crate::rig::{accounts, at_desk, described, settle};

#[tokio::test(start_paused = true)]
async fn a_reserved_place_is_taken_but_nothing_is_offered_yet() {
    let (stage, mut desk) = at_desk(described("small").queue_capacity(2));
    let place = stage.sink().reserve(Entry::new()).unwrap();
    assert_eq!(stage.sink().len(), 1);
    assert_eq!((accounts(&stage).offered, accounts(&stage).inside()), (0, 0));
    let second = stage.sink().reserve(Entry::new()).unwrap();
    assert_eq!(stage.sink().try_send(9).unwrap_err().rejection.reason, Reason::QueueFull);

    place.send(1).unwrap();
    assert_eq!(desk.next().await.event, 1);
    drop(second);
    assert!(stage.sink().is_empty());
    let accounts = accounts(&stage);
    assert_eq!((accounts.offered, accounts.rejected, accounts.running), (2, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_place_given_back_lets_a_waiting_sender_in_at_once() {
    let (stage, mut desk) = at_desk(described("small").queue_capacity(1));
    let place = stage.sink().reserve(Entry::new()).unwrap();
    let (sink, start) = (stage.sink(), Instant::now());
    let sending = tokio::spawn(async move { sink.send(5).await });
    settle().await;
    drop(place);
    assert_eq!(sending.await.unwrap(), Ok(()));
    assert_eq!(desk.next().await.event, 5);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_place_promised_before_the_drain_is_kept_and_waited_for() {
    let (stage, mut desk) = at_desk(described("promised"));
    let place = stage.sink().reserve(Entry::new()).unwrap();
    let draining = tokio::spawn(async move { stage.drain(Duration::from_secs(60)).await });
    settle().await;
    assert!(!draining.is_finished());
    place.send(1).unwrap();
    desk.next().await.complete();
    let report = draining.await.unwrap();
    assert_eq!((report.finished, report.is_clean()), (1, true));
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_the_last_reserved_place_is_given_back() {
    let (stage, _desk) = at_desk(described("promised"));
    let (place, start) = (stage.sink().reserve(Entry::new()).unwrap(), Instant::now());
    let draining = tokio::spawn(async move { stage.drain(Duration::from_secs(60)).await });
    settle().await;
    drop(place);
    assert!(draining.await.unwrap().is_clean());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_event_for_a_stage_destroyed_meanwhile_comes_back() {
    let (stage, _desk) = at_desk(described("gone"));
    let (sink, place) = (stage.sink(), stage.sink().reserve(Entry::new()).unwrap());
    let observed = stage.sink();
    stage.close();
    let rejected = place.send(7).unwrap_err();
    assert_eq!((rejected.event, rejected.rejection), (7, Rejection::new(Reason::Closed)));
    assert!(sink.is_empty() && observed.is_empty(), "the place is not kept");
    let accounts = accounts(&stage);
    assert_eq!((accounts.offered, accounts.rejected), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_reserved_place_has_the_deadline_that_it_was_asked_for_with() {
    let (stage, mut desk) = at_desk(described("punctual"));
    let entry = Entry::new().timeout(Duration::from_millis(10));
    let place = stage.sink().reserve(entry).unwrap();
    tokio::time::advance(Duration::from_millis(11)).await;
    place.send(1).unwrap();
    settle().await;
    assert!(desk.begun().is_empty());
    assert_eq!(accounts(&stage).dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn of_several_sinks_all_take_the_event_or_none() {
    let (wide, mut wide_desk) = at_desk(described("wide").queue_capacity(2));
    let (narrow, mut narrow_desk) = at_desk(described("narrow").queue_capacity(1));
    let (a, b) = (wide.sink(), narrow.sink());

    let (to_a, to_b) = (&a, &b).reserve_all(Entry::new()).unwrap();
    let rejected = (&a, &b).reserve_all(Entry::new()).err();
    assert_eq!(rejected, Some(Rejection::new(Reason::QueueFull)));
    assert_eq!((a.len(), b.len()), (1, 1), "the place in the wide one was given back");

    to_a.send(1).unwrap();
    to_b.send(1).unwrap();
    assert_eq!((wide_desk.next().await.event, narrow_desk.next().await.event), (1, 1));
    assert_eq!((accounts(&wide).offered, accounts(&narrow).offered), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn of_a_list_of_sinks_all_take_the_event_or_none() {
    let stages: Vec<_> =
        (1..4).map(|places| at_desk(described("part").queue_capacity(places))).collect();
    let sinks: Vec<Sink<u32>> = stages.iter().rev().map(|(stage, _)| stage.sink()).collect();
    let places = sinks[..].reserve_all(Entry::new()).unwrap();
    assert_eq!(places.len(), 3);
    assert!(sinks[..].reserve_all(Entry::new()).is_err());
    assert!(sinks.iter().all(|sink| sink.len() == 1));
    drop(places);
    assert!(sinks.iter().all(|sink| sink.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_transaction_may_span_stages_of_different_events() {
    let seen = crate::rig::Seen::new();
    let words = described("words").tasks(seen.notes()).unwrap();
    let numbers = described("numbers").tasks(crate::rig::Seen::<u64>::new().notes()).unwrap();
    let (words_in, numbers_in) = (words.sink(), numbers.sink());
    let (word, number) = (&*words_in, &numbers_in).reserve_all(Entry::new()).unwrap();
    word.send("seven").unwrap();
    number.send(7).unwrap();
    settle().await;
    assert_eq!(seen.all(), ["seven"]);
    assert_eq!(accounts(&numbers).completed, 1);
}
