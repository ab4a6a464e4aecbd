//! In which order a stage serves its queue.

use std::time::Duration;

use tamarisk_control::ClassId;
use tamarisk_stage::{Discipline, Entry, Envelope};

use crate::rig::{self, Law, described};

/// Sends `queued` while the only worker is busy with event 0, and returns the
/// order in which they are then served.
async fn served(
    discipline: Discipline,
    law: Law,
    queued: impl IntoIterator<Item = Envelope<u32>>,
) -> Vec<u32> {
    // Class 0 has the lowest priority, class 2 the highest.
    let (handlers, mut desk) = rig::desk();
    let stage = described("ordered")
        .classes(rig::classes(&[2, 1, 0]))
        .discipline(discipline)
        .law(law)
        .batch(1)
        .tasks(handlers)
        .unwrap();
    stage.sink().try_send(0).unwrap();
    let first = desk.next().await;
    assert!(stage.sink().send_many(queued).is_empty());
    let queued = stage.sink().len();
    first.complete();
    let mut order = Vec::new();
    for _ in 0..queued {
        let case = desk.next().await;
        order.push(case.event);
        case.complete();
    }
    order
}

fn of_class(event: u32, class: usize) -> Envelope<u32> {
    Envelope::new(event, Entry::new().class(ClassId::new(class)))
}

fn mixed() -> [Envelope<u32>; 6] {
    [of_class(1, 0), of_class(2, 1), of_class(3, 2), of_class(4, 0), of_class(5, 1), of_class(6, 2)]
}

#[tokio::test(start_paused = true)]
async fn fifo_serves_in_order_of_arrival() {
    let law = Law::default();
    law.script().newest_first = true;
    assert_eq!(served(Discipline::Fifo, law, mixed()).await, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test(start_paused = true)]
async fn priority_serves_the_higher_class_first() {
    let law = Law::default();
    law.script().newest_first = true;
    assert_eq!(served(Discipline::Priority, law, mixed()).await, [3, 6, 2, 5, 1, 4]);
}

#[tokio::test(start_paused = true)]
async fn adaptive_lifo_does_as_the_law_says_within_a_priority() {
    let law = Law::default();
    assert_eq!(served(Discipline::AdaptiveLifo, law.clone(), mixed()).await, [3, 6, 2, 5, 1, 4]);
    law.script().newest_first = true;
    assert_eq!(served(Discipline::AdaptiveLifo, law, mixed()).await, [6, 3, 5, 2, 4, 1]);
}

#[tokio::test(start_paused = true)]
async fn shortest_first_serves_the_cheapest_and_equals_in_order() {
    let of_cost = |event, cost| Envelope::new(event, Entry::new().cost(cost));
    let queued = [of_cost(1, 30), of_cost(2, 5), of_cost(3, 5), of_cost(4, 20)];
    assert_eq!(served(Discipline::ShortestFirst, Law::default(), queued).await, [2, 3, 4, 1]);
}

#[tokio::test(start_paused = true)]
async fn fair_serving_gives_a_quiet_flow_its_turn_before_a_burst_is_over() {
    let of_flow = |event, flow: &str| Envelope::new(event, Entry::new().flow(flow));
    let burst = (1..=4).map(|event| of_flow(event, "greedy"));
    let queued = burst.chain([of_flow(5, "modest"), of_flow(6, "modest")]);
    let order = served(Discipline::FairByFlow, Law::default(), queued).await;
    assert_eq!(order, [1, 5, 2, 6, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn workers_take_the_earliest_due_whatever_the_law_holds_back_at_a_gate() {
    let law = Law::default();
    law.script().held_back = vec![0];
    assert_eq!(served(Discipline::EarliestDue, law, mixed()).await, [3, 6, 2, 5, 1, 4]);
}

#[tokio::test(start_paused = true)]
async fn no_discipline_forgets_an_event_that_others_overtake_or_outlive() {
    for discipline in [
        Discipline::Fifo,
        Discipline::Priority,
        Discipline::AdaptiveLifo,
        Discipline::ShortestFirst,
        Discipline::FairByFlow,
        Discipline::EarliestDue,
    ] {
        let entry = |event: u32| {
            let entry = Entry::new()
                .class(ClassId::new(event as usize % 3))
                .cost(event * 7 % 5)
                .flow(event % 4);
            // Every third is overdue before the worker comes to it.
            let due = Duration::from_millis(10);
            Envelope::new(event, if event.is_multiple_of(3) { entry.timeout(due) } else { entry })
        };
        let (handlers, mut desk) = rig::desk();
        let stage = described("all")
            .classes(rig::classes(&[2, 1, 0]))
            .discipline(discipline)
            .tasks(handlers)
            .unwrap();
        stage.sink().try_send(99).unwrap();
        let first = desk.next().await;
        stage.sink().send_many((0..30).map(entry));
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert_eq!(stage.sink().len(), 20, "{discipline:?}: the overdue were dropped by a tick");
        first.complete();
        let mut events = Vec::new();
        for _ in 0..20 {
            let case = desk.next().await;
            events.push(case.event);
            case.complete();
        }
        events.sort_unstable();
        assert_eq!(events, (0..30).filter(|event| event % 3 != 0).collect::<Vec<_>>());
        assert_eq!(rig::accounts(&stage).dropped, 10);
    }
}
