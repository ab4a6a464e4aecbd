//! Graphs: what is checked before they run, and how they change while they do.

mod changes;
mod law;
mod random;

use std::sync::Arc;
use std::time::Duration;

use tamarisk_stage::{
    Clock, Context, Entry, Envelope, Graph, GraphError, Node, Signal, Signals, StageBuilder,
    blocking_fn, stage_fn,
};
use tokio::sync::mpsc;

fn described(name: &str) -> StageBuilder {
    StageBuilder::new(name).workers(1).workers(1).clock(Clock::runtime())
}

fn declare(graph: &Graph, name: &str) -> Node<u32> {
    graph.declare(described(name)).unwrap()
}

/// Handlers that do nothing with their events.
fn ignore(node: &Node<u32>) {
    node.tasks(stage_fn(|_event: u32, _cx: Context| async { Ok(()) }));
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_nobody_reads_is_named_with_its_senders() {
    let graph = Graph::new();
    let (parse, store) = (declare(&graph, "parse"), declare(&graph, "store"));
    let _to_store = graph.edge(&parse, &store).unwrap();
    ignore(&parse);
    let error = graph.start().unwrap_err();
    assert_eq!(error, GraphError::NoHandler { stage: "store".into(), from: vec!["parse".into()] });
    assert_eq!(
        error.to_string(),
        "stage \"store\" has no handler and receives from parse: attach one with `tasks` or `threads`"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stage_without_workers_is_rejected_by_name() {
    let rejected = Graph::new().declare::<u32>(described("idle").workers(0));
    let error = rejected.err().expect("it has no workers");
    assert!(error.to_string().starts_with("stage \"idle\" has no workers"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn two_stages_of_one_name_are_rejected() {
    let graph = Graph::new();
    let _first = declare(&graph, "same");
    let second = graph.declare::<u32>(described("same"));
    assert_eq!(second.err(), Some(GraphError::Duplicate { stage: "same".into() }));
}

#[tokio::test(start_paused = true)]
async fn a_cycle_of_blocking_sends_is_rejected_and_shown() {
    let graph = Graph::new();
    let (a, b, c) = (declare(&graph, "a"), declare(&graph, "b"), declare(&graph, "c"));
    let _ab = graph.blocking_edge(&a, &b).unwrap();
    let _bc = graph.blocking_edge(&b, &c).unwrap();
    let stages = ["b", "c", "b"].map(str::to_owned).to_vec();
    assert_eq!(graph.blocking_edge(&c, &b).err(), Some(GraphError::BlockingCycle { stages }));
    // The edge that would have closed it is not there.
    for node in [&a, &b, &c] {
        ignore(node);
    }
    assert_eq!(graph.start(), Ok(()));
    assert_eq!(graph.observe().edges.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_may_wait_for_itself_is_a_cycle() {
    let graph = Graph::new();
    let a = declare(&graph, "a");
    let stages = vec!["a".to_owned(), "a".to_owned()];
    assert_eq!(graph.blocking_edge(&a, &a).err(), Some(GraphError::BlockingCycle { stages }));
}

#[tokio::test(start_paused = true)]
async fn a_cycle_with_an_edge_that_does_not_wait_is_allowed() {
    let graph = Graph::new();
    let (a, b) = (declare(&graph, "a"), declare(&graph, "b"));
    let _ab = graph.blocking_edge(&a, &b).unwrap();
    let _ba = graph.edge(&b, &a).unwrap();
    ignore(&a);
    ignore(&b);
    assert_eq!(graph.start(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn two_ways_to_one_stage_are_no_cycle() {
    let graph = Graph::new();
    let nodes = ["a", "b", "c", "d"].map(|name| declare(&graph, name));
    for (from, to) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
        let _edge = graph.blocking_edge(&nodes[from], &nodes[to]).unwrap();
    }
    nodes.iter().for_each(ignore);
    assert_eq!(graph.start(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_if_the_graph_is_rejected() {
    let graph = Graph::new();
    let (a, _unread) = (declare(&graph, "a"), declare(&graph, "unread"));
    ignore(&a);
    assert!(graph.start().is_err());
    assert!(a.stage().is_none());
    a.sink().try_send(1).unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(a.sink().len(), 1, "nobody serves it");
}

#[tokio::test(start_paused = true)]
async fn edges_count_what_crosses_them_and_no_more() {
    let graph = Graph::new();
    let source = declare(&graph, "source");
    let target = graph.declare::<u32>(described("target").queue_capacity(2)).unwrap();
    let edge = graph.edge(&source, &target).unwrap();
    ignore(&source);
    target.threads(blocking_fn(|_event: u32, _cx: Context| Ok(())));
    // The target has no worker yet: two fit, the third is rejected.
    assert!(edge.try_send(1).is_ok());
    assert_eq!(edge.send_many([2, 3]).len(), 1);
    target.sink().try_send(4).unwrap_err();
    let seen = graph.observe();
    assert_eq!((seen.edges[0].from.as_str(), seen.edges[0].to.as_str()), ("source", "target"));
    assert_eq!(seen.edges[0].crossed, 2);
    assert_eq!(seen.stages[1].total().rejected, 2);
}

#[tokio::test(start_paused = true)]
async fn a_stage_is_added_to_a_running_graph() {
    let graph = Graph::new();
    let first = declare(&graph, "first");
    ignore(&first);
    graph.start().unwrap();

    let (seen, mut seeing) = mpsc::unbounded_channel();
    let second = declare(&graph, "second");
    let edge = graph.edge(&first, &second).unwrap();
    second.tasks(stage_fn(move |event: u32, _cx: Context| {
        let sent = seen.send(event);
        async move { Ok(sent?) }
    }));
    graph.start().unwrap();
    edge.try_send(7).unwrap();
    assert_eq!(seeing.recv().await, Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_stage_is_replaced_in_a_running_graph_and_no_event_is_lost() {
    let graph = Graph::new();
    let (seen, mut seeing) = mpsc::unbounded_channel();
    let node: Node<u32> = graph.declare(described("node").batch(32)).unwrap();
    let old = seen.clone();
    node.tasks(stage_fn(move |event: u32, _cx: Context| {
        let old = old.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(old.send(("old", event))?)
        }
    }));
    graph.start().unwrap();
    for event in 0..100 {
        node.sink().try_send(event).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let stage = node.stage().unwrap();
    stage
        .replace_with_tasks(stage_fn(move |event: u32, _cx: Context| {
            let sent = seen.send(("new", event));
            async move { Ok(sent?) }
        }))
        .unwrap();
    let mut events = Vec::new();
    let mut handlers = Vec::new();
    for _ in 0..100 {
        let (handler, event) = seeing.recv().await.unwrap();
        events.push(event);
        handlers.push(handler);
    }
    events.sort_unstable();
    assert_eq!(events, (0..100).collect::<Vec<_>>());
    // The old worker finishes the batch that it holds; the new one does the rest.
    let by_old = handlers.iter().filter(|&&handler| handler == "old").count();
    assert_eq!(by_old, 32);
    assert!(seeing.try_recv().is_err(), "nothing is handled twice");
}

#[tokio::test(start_paused = true)]
async fn a_drain_signals_and_lets_senders_finish_before_their_receivers() {
    let graph = Graph::new();
    // Declared receiver first: the order of the drain must come from the edges.
    let back = declare(&graph, "back");
    let front = declare(&graph, "front");
    let edge = graph.edge(&front, &back).unwrap();
    front.tasks(stage_fn(move |event: u32, _cx: Context| {
        let edge = edge.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            edge.try_send(event).map_err(|rejected| rejected.into())
        }
    }));
    ignore(&back);
    graph.start().unwrap();
    let mut signals = graph.signals().subscribe();
    for event in 0..10 {
        front.sink().try_send(event).unwrap();
    }
    let reports = graph.drain(Duration::from_secs(1)).await;
    assert_eq!(signals.try_recv(), Ok(Signal::Draining));
    assert_eq!(reports.iter().map(|report| &*report.stage).collect::<Vec<_>>(), ["front", "back"]);
    assert!(reports.iter().all(|report| report.is_clean()), "{reports:?}");
    let stages = graph.observe().stages;
    assert!(stages.iter().all(|stage| stage.total().completed == 10), "{stages:?}");
}

/// A stage that passes its signals on, in a graph that delivers them.
fn signalled(graph: &Graph) -> (Node<Signal>, mpsc::UnboundedReceiver<Signal>) {
    let (seen, seeing) = mpsc::unbounded_channel();
    let node = graph.declare::<Signal>(described("signalled")).unwrap();
    node.tasks(stage_fn(move |signal: Signal, _cx: Context| {
        let sent = seen.send(signal);
        async move { Ok(sent?) }
    }));
    graph.signals().deliver((*node.sink()).clone(), Into::into);
    (node, seeing)
}

#[tokio::test(start_paused = true)]
async fn a_stage_hears_of_the_drain_before_it_takes_nothing_more() {
    let graph = Graph::new();
    let (node, mut seeing) = signalled(&graph);
    graph.start().unwrap();
    assert!(graph.drain(Duration::from_secs(1)).await[0].is_clean());
    assert_eq!(seeing.try_recv(), Ok(Signal::Started));
    assert_eq!(seeing.try_recv(), Ok(Signal::Draining));
    assert_eq!(node.stage().unwrap().observe().total().rejected, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_is_gone_is_sent_no_more_signals_and_a_panic_concerns_no_other() {
    let (graph, signals) = (Graph::new(), Signals::new());
    let (node, mut seeing) = signalled(&graph);
    graph.start().unwrap();
    assert_eq!(seeing.recv().await, Some(Signal::Started));
    let held = Arc::new(());
    let make = Arc::clone(&held);
    signals.deliver((*node.sink()).clone(), |_| panic!("as the test told it"));
    signals.deliver((*node.sink()).clone(), move |signal| {
        let _held = &make;
        Envelope::new(signal, Entry::new())
    });
    signals.send(Signal::Draining);
    assert_eq!(seeing.recv().await, Some(Signal::Draining));

    graph.remove("signalled", Duration::from_secs(1)).await.unwrap();
    signals.send(Signal::Draining);
    assert_eq!(Arc::strong_count(&held), 1, "what makes events for it is destroyed");
    assert_eq!(node.stage().unwrap().observe().total().offered, 2);
}

#[tokio::test(start_paused = true)]
async fn where_the_handlers_of_a_declared_stage_run_says_how_many_workers_it_has() {
    let graph = Graph::new();
    let declare = |name: &str| graph.declare::<u32>(StageBuilder::new(name)).unwrap();
    let (tasks, threads) = (declare("tasks"), declare("threads"));
    ignore(&tasks);
    threads.threads(blocking_fn(|_event: u32, _cx: Context| Ok(())));
    graph.start().unwrap();
    let [tasks, threads] = [&tasks, &threads].map(|node| node.stage().unwrap());
    let cores = std::thread::available_parallelism().unwrap().get() as u32;
    assert_eq!((tasks.observe().workers, threads.observe().workers), (16, cores));
    // What a law may set is what an operator may.
    assert_eq!(tasks.set_workers(u32::MAX), Ok(16_384));
    let found = tasks.observe().laws.iter().any(|law| law.name == "elastic-pool");
    assert!(found, "{:?}", tasks.observe().laws);
}

#[tokio::test(start_paused = true)]
async fn a_drain_may_take_for_ever() {
    let graph = Graph::new();
    ignore(&declare(&graph, "only"));
    graph.start().unwrap();
    assert!(graph.drain(Duration::MAX).await.iter().all(|report| report.is_clean()));
}

#[tokio::test(start_paused = true)]
async fn starting_signals_that_all_stages_run() {
    let graph = Graph::new();
    let mut signals = graph.signals().subscribe();
    ignore(&declare(&graph, "only"));
    graph.start().unwrap();
    assert_eq!(signals.try_recv(), Ok(Signal::Started));
}
