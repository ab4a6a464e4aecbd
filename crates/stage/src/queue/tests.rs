use std::time::Duration;

use tamarisk_control::{Class, Priority, Target};

use super::*;
use crate::panics::contained;

fn classes(priorities: &[u8]) -> Classes {
    let target = Target::p90(Duration::from_millis(100)).unwrap();
    let class = |(index, &priority): (usize, &u8)| Class {
        name: index.to_string(),
        target,
        priority: Priority(priority),
    };
    Classes::new(priorities.iter().enumerate().map(class).collect()).unwrap()
}

/// An event named `item` that entered at instant `item`.
fn event(item: u64, class: usize, cost: u32, flow: u64) -> Queued<u64> {
    let meta = EventMetadata {
        class: ClassId::new(class),
        requested: Timestamp::from_nanos(item),
        entered: Timestamp::from_nanos(item),
        deadline: Timestamp::MAX,
        kind: 0,
        cost,
        flow,
    };
    Queued { meta, item }
}

/// Due as they entered, and nothing held back.
fn as_entered(meta: &EventMetadata) -> Option<Timestamp> {
    Some(meta.entered)
}

fn drain(queue: &mut Queue<u64>, order: Order) -> Vec<u64> {
    let mut out = Vec::new();
    while let Some(lease) = queue.lease() {
        out.extend(queue.pop(lease, order, as_entered).map(|queued| queued.item));
        queue.release(lease);
    }
    out
}

fn check(
    discipline: Discipline,
    priorities: &[u8],
    order: Order,
    events: impl IntoIterator<Item = Queued<u64>>,
    expected: &[u64],
) {
    let mut queue = Queue::new(discipline, &classes(priorities));
    for event in events {
        queue.push(event);
    }
    assert_eq!(queue.len(), expected.len());
    assert_eq!(drain(&mut queue, order), expected);
    assert_eq!(queue.len(), 0);
}

#[test]
fn fifo_ignores_class_and_order() {
    let events = [event(1, 1, 0, 0), event(2, 0, 0, 0), event(3, 1, 0, 0)];
    check(Discipline::Fifo, &[0, 1], Order::NewestFirst, events, &[1, 2, 3]);
}

#[test]
fn priority_serves_the_higher_class_first_and_in_order() {
    // Class 0 has priority 5, class 1 has priority 2: class 1 goes first.
    let events = [event(1, 0, 0, 0), event(2, 1, 0, 0), event(3, 0, 0, 0), event(4, 1, 0, 0)];
    check(Discipline::Priority, &[5, 2], Order::NewestFirst, events, &[2, 4, 1, 3]);
}

#[test]
fn adaptive_lifo_serves_the_newest_of_the_highest_class_when_told_to() {
    let events = || [event(1, 0, 0, 0), event(2, 1, 0, 0), event(3, 0, 0, 0), event(4, 1, 0, 0)];
    check(Discipline::AdaptiveLifo, &[0, 1], Order::NewestFirst, events(), &[3, 1, 4, 2]);
    check(Discipline::AdaptiveLifo, &[0, 1], Order::OldestFirst, events(), &[1, 3, 2, 4]);
}

#[test]
fn shortest_first_keeps_the_order_of_equals() {
    let events = [event(1, 0, 9, 0), event(2, 0, 3, 0), event(3, 0, 3, 0), event(4, 0, 1, 0)];
    check(Discipline::ShortestFirst, &[0], Order::OldestFirst, events, &[4, 2, 3, 1]);
}

#[test]
fn a_burst_of_one_flow_does_not_delay_another() {
    // Flow 7 sends four at once, then flow 8 sends two: they alternate.
    let events = [
        event(1, 0, 1, 7),
        event(2, 0, 1, 7),
        event(3, 0, 1, 7),
        event(4, 0, 1, 7),
        event(5, 0, 1, 8),
        event(6, 0, 1, 8),
    ];
    check(Discipline::FairByFlow, &[0], Order::OldestFirst, events, &[1, 5, 2, 6, 3, 4]);
}

#[test]
fn a_flow_of_costly_events_gets_fewer_of_them_served() {
    // Flow 7's events cost three times as much as flow 8's.
    let events = [
        event(1, 0, 3, 7),
        event(2, 0, 3, 7),
        event(3, 0, 1, 8),
        event(4, 0, 1, 8),
        event(5, 0, 1, 8),
        event(6, 0, 1, 8),
    ];
    // Start tags: 7 → 0, 3; 8 → 0, 1, 2, 3.
    check(Discipline::FairByFlow, &[0], Order::OldestFirst, events, &[1, 3, 4, 5, 2, 6]);
}

#[test]
fn a_flow_that_was_away_has_saved_nothing_up() {
    let mut queue = Queue::new(Discipline::FairByFlow, &classes(&[0]));
    for item in 1..=100 {
        queue.push(event(item, 0, 1, 7));
    }
    for _ in 0..50 {
        queue.pop(PartitionLease::WHOLE, Order::OldestFirst, as_entered);
    }
    // The virtual clock stands at 49: flow 8 starts there, next to flow 7's 50th.
    queue.push(event(201, 0, 1, 8));
    queue.push(event(202, 0, 1, 8));
    let next: Vec<_> = (0..4)
        .filter_map(|_| queue.pop(PartitionLease::WHOLE, Order::OldestFirst, as_entered))
        .map(|queued| queued.item)
        .collect();
    assert_eq!(next, [201, 51, 202, 52]);
}

#[test]
fn what_is_dropped_costs_its_flow_nothing() {
    let mut queue = Queue::new(Discipline::FairByFlow, &classes(&[0]));
    for item in 1..=100 {
        queue.push(event(item, 0, 1, 7));
    }
    for item in 201..=203 {
        queue.push(event(item, 0, 1, 8));
    }
    let next = |queue: &mut Queue<u64>, count| -> Vec<u64> {
        (0..count)
            .filter_map(|_| queue.pop(PartitionLease::WHOLE, Order::OldestFirst, as_entered))
            .map(|queued| queued.item)
            .collect()
    };
    assert_eq!(next(&mut queue, 1), [1]);
    // All that flow 7 has left is its last event, and that it was served one: it is flow 8's turn.
    assert_eq!(queue.extract(|queued| (2..100).contains(&queued.item)).len(), 98);
    queue.push(event(101, 0, 1, 7));
    assert_eq!(next(&mut queue, 5), [201, 100, 202, 203, 101]);
}

#[test]
fn a_flow_that_queues_one_event_at_a_time_gains_nothing_by_it() {
    let mut queue = Queue::new(Discipline::FairByFlow, &classes(&[0]));
    for item in 1..=8 {
        queue.push(event(item, 0, 1, 7));
    }
    // Flow 8 sends its next event, of cost 2, whenever the last one was served.
    let mut of_flow_8 = 0;
    queue.push(event(100, 0, 2, 8));
    for _ in 0..9 {
        let served = queue.pop(PartitionLease::WHOLE, Order::OldestFirst, as_entered).unwrap();
        if served.meta.flow == 8 {
            of_flow_8 += 1;
            queue.push(event(100, 0, 2, 8));
        }
    }
    assert_eq!(of_flow_8, 3, "a third of the events, half of the work");
}

#[test]
fn a_leased_partition_is_served_by_nobody_else() {
    let mut queue = Queue::partitioned(4);
    queue.push(event(1, 0, 0, 4)); // Partition 0.
    queue.push(event(2, 0, 0, 8)); // Partition 0 again.
    queue.push(event(3, 0, 0, 5)); // Partition 1.
    let first = queue.lease().unwrap();
    assert_eq!(queue.pop(first, Order::OldestFirst, as_entered).unwrap().item, 1);
    let second = queue.lease().unwrap();
    assert_eq!(queue.pop(second, Order::OldestFirst, as_entered).unwrap().item, 3);
    assert_eq!(queue.lease(), None, "partition 0 still has an event, but it is leased");
    assert!(!queue.is_ready());
    queue.release(first);
    assert!(queue.is_ready());
    assert_eq!(queue.lease(), Some(first));
    assert_eq!(queue.pop(first, Order::OldestFirst, as_entered).unwrap().item, 2);
}

#[test]
fn extraction_leaves_the_order_of_the_rest() {
    for discipline in [Discipline::Fifo, Discipline::ShortestFirst, Discipline::FairByFlow] {
        let mut queue = Queue::new(discipline, &classes(&[0]));
        for item in 1..=6 {
            queue.push(event(item, 0, 1, 0));
        }
        let even = queue.extract(|queued| queued.item % 2 == 0);
        assert_eq!(even.len(), 3);
        assert_eq!(drain(&mut queue, Order::OldestFirst), [1, 3, 5], "{discipline:?}");
    }
}

#[test]
fn a_verdict_that_panics_leaves_every_event_in_its_place() {
    let disciplines = [
        Discipline::Fifo,
        Discipline::Priority,
        Discipline::ShortestFirst,
        Discipline::FairByFlow,
        Discipline::EarliestDue,
    ];
    let classes = classes(&[1, 0]);
    let ordered = disciplines.map(|discipline| Queue::new(discipline, &classes));
    for mut queue in ordered.into_iter().chain([Queue::partitioned(3)]) {
        (1..=6).for_each(|item| queue.push(event(item, (item % 2) as usize, 1, item)));
        let extracted = contained(|| {
            let goes = |queued: &Queued<u64>| {
                assert_ne!(queued.item, 4, "no verdict");
                true
            };
            queue.extract(goes).len()
        });
        assert!(extracted.is_err());
        assert_eq!(queue.len(), 6);
        let mut rest = drain(&mut queue, Order::OldestFirst);
        rest.sort_unstable();
        assert_eq!(rest, [1, 2, 3, 4, 5, 6]);
    }
}

fn run(queue: &Queue<u64>, order: Order, most: usize) -> Option<(u32, u64)> {
    let run = queue.next_run(order, most, |&item| item != 13)?;
    Some((run.count, run.meta.entered.as_nanos()))
}

#[test]
fn a_run_is_what_comes_next_of_one_class() {
    let mut queue = Queue::new(Discipline::AdaptiveLifo, &classes(&[1, 0, 0]));
    queue.push_all(vec![event(10, 0, 0, 0), event(11, 0, 0, 0)]);
    assert_eq!(run(&queue, Order::OldestFirst, 8), Some((2, 10)));
    for urgent in [event(3, 1, 0, 0), event(2, 1, 0, 0), event(4, 1, 0, 0), event(5, 2, 0, 0)] {
        queue.push(urgent);
    }
    assert_eq!(run(&queue, Order::OldestFirst, 8), Some((3, 2)), "of the higher priority");
    assert_eq!(run(&queue, Order::NewestFirst, 8), None);
    assert_eq!(run(&queue, Order::OldestFirst, 2), Some((2, 2)));

    let mut taken = VecDeque::new();
    let meta = queue.next_run(Order::OldestFirst, 2, |_| true).unwrap();
    queue.pop_run(meta, &mut taken);
    assert_eq!(taken.iter().map(|queued| queued.item).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(run(&queue, Order::OldestFirst, 8), None, "one is no run");
    assert_eq!(queue.len(), 4);
    assert_eq!(drain(&mut queue, Order::OldestFirst), [4, 5, 10, 11]);
}

#[test]
fn a_run_ends_before_what_is_gone_and_knows_the_first_deadline() {
    let mut queue = Queue::new(Discipline::Fifo, &classes(&[0]));
    let due = |item: u64, deadline| {
        let mut event = event(item, 0, 0, 0);
        event.meta.deadline = Timestamp::from_nanos(deadline);
        event
    };
    queue.push_all(vec![due(10, 90), due(11, 70), due(12, 80), due(13, 50), due(14, 60)]);
    let next = queue.next_run(Order::NewestFirst, 8, |&item| item != 13).unwrap();
    assert_eq!((next.count, next.meta.deadline.as_nanos()), (3, 70));

    let mut taken = VecDeque::new();
    queue.pop_run(next, &mut taken);
    assert_eq!((taken.len(), queue.len()), (3, 2));
    let all = queue.next_run(Order::OldestFirst, 8, |_| true).unwrap();
    queue.pop_run(all, &mut taken);
    assert_eq!(taken.iter().map(|queued| queued.item).collect::<Vec<_>>(), [10, 11, 12, 13, 14]);
    assert_eq!((queue.len(), queue.is_ready()), (0, false));
}

#[test]
fn disciplines_that_sort_have_no_runs_and_take_many_one_by_one() {
    for discipline in [Discipline::ShortestFirst, Discipline::FairByFlow] {
        let mut queue = Queue::new(discipline, &classes(&[0]));
        queue.push_all(vec![event(1, 0, 9, 1), event(2, 0, 1, 1), event(3, 0, 5, 1)]);
        assert_eq!(run(&queue, Order::OldestFirst, 8), None);
        assert_eq!(drain(&mut queue, Order::OldestFirst).len(), 3);
    }
}

/// An event of a kind, named by when it entered.
fn of_kind(item: u64, class: usize, kind: u64) -> Queued<u64> {
    let Queued { mut meta, item } = event(item, class, 1, 0);
    meta.kind = kind;
    Queued { meta, item }
}

#[test]
fn the_earliest_due_head_among_those_that_may_start_is_next() {
    let mut queue = Queue::new(Discipline::EarliestDue, &classes(&[1, 0]));
    for (item, class, kind) in [(1, 0, 7), (2, 0, 8), (3, 1, 9), (4, 0, 8), (5, 0, 7)] {
        queue.push(of_kind(item, class, kind));
    }
    // Kind 7 is due 10 after it entered, the others at once; 9 may not start.
    let due = |meta: &EventMetadata| {
        let after = if meta.kind == 7 { 10 } else { 0 };
        let due = Timestamp::from_nanos(meta.entered.as_nanos() + after);
        (meta.kind != 9).then_some(due)
    };
    assert_eq!(queue.oldest(), Some(Timestamp::from_nanos(1)));
    let mut next = |order| queue.pop(PartitionLease::WHOLE, order, due).map(|queued| queued.item);
    let old = Order::OldestFirst;
    assert_eq!([next(old), next(Order::NewestFirst), next(old)], [Some(2), Some(5), Some(4)]);
    assert_eq!([next(old), next(old)], [Some(1), None]);
    // The higher priority goes first as soon as it may.
    queue.push(of_kind(6, 0, 7));
    assert_eq!(queue.len(), 2);
    let order = [3, 6].map(Some);
    assert_eq!(
        [0; 2].map(|_| queue.pop(PartitionLease::WHOLE, old, as_entered).map(|q| q.item)),
        order
    );
}

#[test]
fn more_kinds_than_lines_share_them_and_none_is_lost() {
    let mut queue = Queue::new(Discipline::EarliestDue, &classes(&[0]));
    (0..1000).for_each(|item| queue.push(of_kind(item, 0, item)));
    assert_eq!(queue.extract(|queued| queued.item % 2 == 0).len(), 500);
    assert_eq!(queue.len(), 500);
    let mut rest = drain(&mut queue, Order::OldestFirst);
    rest.sort_unstable();
    assert!(rest.into_iter().eq((0..1000).filter(|item| item % 2 == 1)));
}
