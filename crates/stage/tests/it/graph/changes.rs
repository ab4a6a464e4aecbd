//! Stages of a running graph: looked up, added, replaced and removed, and what their senders see.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_catalogue::ByName;
use tamarisk_control::global::{GlobalLaw, GraphSample, Share, StageSample};
use tamarisk_control::{ClassId, Classes, Decision, Ratio, Reading, Reason, Target, Timestamp};
use tamarisk_laws::ResourceBounds;
use tamarisk_stage::{
    CallError, Clock, Context, Discipline, Graph, GraphError, Phase, ReplaceError, Request, Stage,
    StageBuilder, stage_fn,
};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(60);

type Ask = Request<u32, u32>;

fn described(name: &str) -> StageBuilder {
    let target = Target::p90(Duration::from_secs(600)).unwrap();
    StageBuilder::new(name).workers(1).target(target).clock(Clock::runtime()).batch(1)
}

/// Answers with `add` more than it is asked, after `takes` milliseconds.
fn adder(builder: StageBuilder, add: u32, takes: u64) -> Stage<Ask> {
    let handler = async move |number: u32, _: Context| {
        sleep(ms(takes)).await;
        Ok(number + add)
    };
    builder.handler(handler).unwrap()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn graph_of(stages: &[&Stage<Ask>]) -> Graph {
    let graph = Graph::new();
    for stage in stages {
        graph.add(stage).unwrap();
    }
    graph
}

#[tokio::test(start_paused = true)]
async fn a_stage_is_found_by_its_name_and_the_type_of_its_events() {
    let graph = graph_of(&[&adder(described("one"), 1, 0), &adder(described("two"), 2, 0)]);
    let two = graph.stage::<Ask>("two").unwrap();
    assert_eq!((two.name(), two.sink().call(40).await), ("two", Ok(42)));
    assert_eq!(
        graph.stage::<Ask>("tow").err().unwrap().to_string(),
        "the graph has no stage \"tow\": it has one, two"
    );
    assert_eq!(
        graph.stage::<u32>("two").err().unwrap().to_string(),
        "stage \"two\" takes events of type `tamarisk_stage::call::Request<u32, u32>`, not `u32`: \
         look it up with its own type"
    );
    assert_eq!(
        Graph::new().remove("one", PATIENCE).await.unwrap_err().to_string(),
        "the graph has no stage \"one\": it has no stages"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_until_its_stage_is_gone() {
    let first = adder(described("one"), 1, 0);
    let graph = graph_of(&[&first]);
    let again = graph.add(&adder(described("one"), 2, 0)).err().unwrap();
    assert_eq!(again, GraphError::Duplicate { stage: "one".into() });
    assert!(graph.remove("one", PATIENCE).await.unwrap().is_clean());
    assert_eq!(first.observe().phase, Phase::Closed);
    graph.add(&adder(described("one"), 2, 0)).unwrap();
    assert_eq!(graph.stage::<Ask>("one").unwrap().sink().call(1).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn a_removed_stage_finishes_what_is_inside_and_rejects_its_senders() {
    let slow = adder(described("slow").queue_capacity(2), 1, 1000);
    let graph = Arc::new(graph_of(&[&slow]));
    let sink = graph.stage::<Ask>("slow").unwrap().sink();
    let call = |number| {
        let sink = sink.clone();
        tokio::spawn(async move { sink.call(number).await })
    };
    let running = call(1);
    sleep(ms(1)).await;
    let queued = [call(2), call(3)];
    sleep(ms(1)).await;
    // The queue is full: this one waits for room.
    let (reply, waiting) = {
        let notes = Arc::new(Mutex::new(None));
        let (sink, noted) = (sink.clone(), Arc::clone(&notes));
        let request = async move {
            let narrow = described("caller").handler(async move |number: u32, cx: Context| {
                let answer = cx.call(&sink, number).await;
                *noted.lock() = Some(answer.clone());
                Ok(answer?)
            });
            narrow.unwrap().call(4).await
        };
        (notes, tokio::spawn(request))
    };
    let removal = tokio::spawn({
        let graph = Arc::clone(&graph);
        async move { graph.remove("slow", PATIENCE).await }
    });
    sleep(ms(1)).await;
    assert_eq!(
        graph.stage::<Ask>("slow").unwrap().stage().unwrap().observe().phase,
        Phase::Draining
    );
    let rejected = sink.call(5).await.unwrap_err();
    assert_eq!(rejected.rejection().unwrap().reason, Reason::Draining);

    let report = removal.await.unwrap().unwrap();
    assert!(report.is_clean() && report.finished == 3, "{report:?}");
    assert_eq!(running.await.unwrap(), Ok(2));
    for (call, number) in queued.into_iter().zip([3, 4]) {
        assert_eq!(call.await.unwrap(), Ok(number));
    }
    // A handler that called it has the stage and the reason, and so has its own caller.
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(Some(Err(error.clone())), *reply.lock());
    assert_eq!(error.stage(), Some("slow"));
    assert_eq!(sink.call(6).await.unwrap_err().rejection().unwrap().reason, Reason::Closed);
    assert!(slow.observe().total().balance());
    assert!(graph.observe().stages.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_waits_for_room_is_rejected_by_the_removal() {
    let graph = Graph::new();
    let node = graph.declare::<u32>(described("full").queue_capacity(1)).unwrap();
    let sink = node.sink();
    sink.try_send(1).unwrap();
    let waiting = tokio::spawn({
        let sink = sink.clone();
        async move { sink.send(2).await }
    });
    sleep(ms(10)).await;
    assert!(!waiting.is_finished());
    // It has no handler, so what is queued would wait indefinitely: it is dropped at once.
    let report = graph.remove("full", Duration::MAX).await.unwrap();
    assert_eq!((report.dropped, report.left), (1, 0));
    let rejected = waiting.await.unwrap().unwrap_err();
    assert_eq!((rejected.event, rejected.rejection.reason), (2, Reason::Closed));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_finished_in_time_is_cut_and_its_callers_are_told() {
    let graph = graph_of(&[&adder(described("slow"), 1, 60_000)]);
    let sink = graph.stage::<Ask>("slow").unwrap().sink();
    let calls: Vec<_> = (0..2)
        .map(|number| {
            let sink = sink.clone();
            tokio::spawn(async move { sink.call(number).await })
        })
        .collect();
    sleep(ms(1)).await;
    let report = graph.remove("slow", ms(100)).await.unwrap();
    assert_eq!((report.dropped, report.terminated, report.left), (1, 1, 0));
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    assert_eq!(answers, [Err(CallError::Terminated), Err(CallError::Closed)]);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_was_given_up_is_gone_on_with() {
    let graph = graph_of(&[&adder(described("slow"), 1, 1000)]);
    let sink = graph.stage::<Ask>("slow").unwrap().sink();
    let call = tokio::spawn(async move { sink.call(1).await });
    sleep(ms(1)).await;
    assert!(tokio::time::timeout(ms(10), graph.remove("slow", PATIENCE)).await.is_err());
    assert_eq!(graph.observe().stages[0].phase, Phase::Draining);
    assert!(graph.remove("slow", PATIENCE).await.unwrap().is_clean());
    assert_eq!(call.await.unwrap(), Ok(2));
    assert!(graph.observe().stages.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_edges_of_a_removed_stage_go_with_it_and_those_of_others_stay() {
    let stages = ["a", "b", "c"].map(|name| adder(described(name), 0, 0));
    let graph = graph_of(&stages.each_ref());
    let [a, b, c] = ["a", "b", "c"].map(|name| graph.stage::<Ask>(name).unwrap());
    let (_ab, _bc) = (graph.edge(&a, &b).unwrap(), graph.blocking_edge(&b, &c).unwrap());
    let ac = graph.blocking_edge(&a, &c).unwrap();
    ac.call(1).await.unwrap();
    graph.remove("b", PATIENCE).await.unwrap();
    let edges = graph.observe().edges;
    assert_eq!(edges.len(), 1);
    assert_eq!((&*edges[0].from, &*edges[0].to, edges[0].crossed), ("a", "c", 1));
    let gone = graph.edge(&a, &b).err().unwrap();
    assert_eq!(gone, GraphError::NotMember { stage: "b".into() });
    // That closes no circle: the edge from the removed `b` to `c` is gone.
    graph.add(&adder(described("b"), 0, 0)).unwrap();
    graph.blocking_edge(&c, &graph.stage::<Ask>("b").unwrap()).unwrap();
    // Asked for again, an edge goes on counting.
    graph.blocking_edge(&a, &c).unwrap().call(1).await.unwrap();
    assert_eq!(graph.observe().edges[0].crossed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_replacement_serves_what_is_queued_and_sinks_lead_to_it() {
    let old = adder(described("work").queue_capacity(10), 100, 1000);
    let graph = graph_of(&[&old]);
    let sink = graph.stage::<Ask>("work").unwrap().sink();
    let calls: Vec<_> = (0..3)
        .map(|number| {
            let sink = sink.clone();
            tokio::spawn(async move { sink.call(number).await })
        })
        .collect();
    sleep(ms(1)).await;
    let laws = tamarisk_laws::Laws::new().admission("open", &[]).unwrap();
    let target = Target::p90(ms(70)).unwrap();
    let new = described("work").workers_between(2..=5).queue_capacity(7).batch(9).laws(laws);
    let new = adder(new.target(target), 200, 10);
    new.set_workers(3).unwrap();
    graph.replace(new.clone()).unwrap();

    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap().unwrap());
    }
    assert_eq!(answers, [100, 201, 202], "the first was running, and ends where it began");
    assert_eq!(sink.call(1).await, Ok(201));
    let seen = old.observe();
    assert_eq!((seen.queue_capacity, seen.workers, seen.law), (7, 3, "open"));
    assert_eq!(seen.classes[0].target, ms(70));
    assert_eq!(old.set_workers(9), Ok(5));
    let total = seen.total();
    assert!(total.balance() && (total.offered, total.completed) == (4, 4), "{total:?}");
    assert_eq!(new.observe().phase, Phase::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_differs_too_much_is_no_replacement() {
    let graph = graph_of(&[&adder(described("work"), 1, 0)]);
    let check = |new: Stage<Ask>, expected: ReplaceError| {
        let error = graph.replace(new).unwrap_err();
        assert_eq!(error, GraphError::Replace { stage: "work".into(), reason: expected });
    };
    check(adder(described("work").classes(["x"]), 2, 0), ReplaceError::OtherClasses);
    check(adder(described("work").discipline(Discipline::Fifo), 2, 0), ReplaceError::OtherOrder);
    check(adder(described("work").partitioned(), 2, 0), ReplaceError::OtherOrder);
    check(adder(described("work").clock(Clock::monotonic()), 2, 0), ReplaceError::OtherClock);
    let bounds = ResourceBounds::new().cpu(Ratio::ONE);
    let bounded = adder(described("work").resources(bounds), 2, 0);
    check(bounded.clone(), ReplaceError::OtherResources);
    assert_eq!(bounded.call(1).await, Ok(3), "it is as it was, too");
    let itself = graph.stage::<Ask>("work").unwrap().stage().unwrap().clone();
    check(itself, ReplaceError::InUse);
    let closed = adder(described("work"), 2, 0);
    closed.close();
    check(closed.clone(), ReplaceError::InUse);
    let error = Graph::new().add(&closed).err().unwrap();
    assert_eq!(error, GraphError::Closed { stage: "work".into() });
    let used = adder(described("work"), 2, 0);
    used.call(1).await.unwrap();
    check(used, ReplaceError::InUse);
    graph.declare::<Ask>(described("later")).unwrap();
    let error = graph.replace(adder(described("later"), 2, 0)).unwrap_err().to_string();
    assert_eq!(
        error,
        "stage \"later\" cannot be replaced: it has not been started: start the graph, or attach \
         another handler to it"
    );
    assert_eq!(graph.stage::<Ask>("work").unwrap().sink().call(1).await, Ok(2), "it is as it was");
    graph.drain(ms(1)).await;
    check(adder(described("work"), 2, 0), ReplaceError::Closed);
}

/// Lets everybody in, and keeps what it is told.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<(usize, Vec<Vec<StageSample>>)>>);

impl GlobalLaw for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn on_entry(&mut self, _: Timestamp) -> Decision {
        Decision::Admit
    }

    fn on_tick(&mut self, _: Timestamp, _: u64) {}

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn on_sample(&mut self, sample: &GraphSample<'_>) {
        self.0.lock().1.push(sample.stages.to_vec());
    }

    fn stages_changed(&mut self) {
        self.0.lock().0 += 1;
    }

    fn share(&self, _: usize) -> Option<Share> {
        None
    }

    fn target(&self, _: usize, _: ClassId) -> Option<Target> {
        None
    }

    fn set_targets(&mut self, _: &Classes) {}

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

#[tokio::test(start_paused = true)]
async fn a_law_over_the_graph_follows_its_changes() {
    let law = Told::default();
    let graph = Graph::new().law(law.clone());
    let declared = graph.declare::<u32>(described("first")).unwrap();
    declared.tasks(stage_fn(|_: u32, _: Context| async { Ok(()) }));
    graph.start().unwrap();
    let second = adder(described("second"), 1, 0);
    for _ in 0..5 {
        second.call(1).await.unwrap();
    }
    sleep(ms(1100)).await;
    let second_node = graph.add(&second).unwrap();
    let edge = graph.edge(&declared, &second_node).unwrap();
    second.call(1).await.unwrap();
    edge.try_send(Request { body: 1, reply: reply_of_nobody().await }).unwrap();
    sleep(ms(1000)).await;
    let sample = law.0.lock().1.last().unwrap().clone();
    assert_eq!(sample.len(), 2);
    // What happened before it came into the graph does not count, nor what came by an edge.
    assert_eq!((sample[1].entered, sample[1].processed), (1, 2));
    assert_eq!(law.0.lock().0, 0, "positions are as they were");

    // What crossed the edge since the last sample is still from within when the edge is gone.
    edge.try_send(Request { body: 1, reply: reply_of_nobody().await }).unwrap();
    graph.remove("first", PATIENCE).await.unwrap();
    assert!(law.0.lock().0 > 0);
    sleep(ms(1000)).await;
    let sample = law.0.lock().1.last().unwrap().clone();
    assert_eq!(sample.len(), 1);
    assert_eq!((sample[0].entered, sample[0].processed), (0, 1));
}

/// A reply whose caller has left.
async fn reply_of_nobody() -> tamarisk_stage::Reply<u32> {
    let (given, giving) = tokio::sync::oneshot::channel();
    let given = Arc::new(Mutex::new(Some(given)));
    let stage =
        StageBuilder::new("replies").event_handler(async move |request: Ask, _: Context| {
            let _ = given.lock().take().unwrap().send(request.reply);
            Ok(())
        });
    let stage = stage.unwrap();
    let _ = tokio::time::timeout(ms(1), stage.call(0)).await;
    giving.await.unwrap()
}
