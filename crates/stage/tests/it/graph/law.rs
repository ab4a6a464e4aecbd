//! A law over a whole graph, live: which events enter, the targets of stages, its samples.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_catalogue::papers::GlobalController;
use tamarisk_catalogue::{ByName, global};
use tamarisk_control::global::{GlobalLaw, GraphSample, Share, StageSample};
use tamarisk_control::{ClassId, Classes, Decision, Reading, Reason, Rejection, Target, Timestamp};
use tamarisk_laws::Laws;
use tamarisk_stage::{
    Clock, Context, Graph, GraphError, GraphObservation, Node, Sink, StageBuilder, stage_fn,
};
use tokio::time::sleep;

const PROMISE: Duration = Duration::from_millis(300);

fn promise(response: Duration) -> Classes {
    Classes::single(Target::p90(response).unwrap())
}

/// A stage whose own law admits everything.
fn open(name: &str, workers: u32) -> StageBuilder {
    let laws = Laws::new().admission("open", &[]).unwrap();
    let target = Target::p90(PROMISE).unwrap();
    let builder = StageBuilder::new(name).target(target).laws(laws).workers(workers);
    builder.batch(32).clock(Clock::runtime())
}

/// Has each event take `work`, and go on by the sink that `next` names.
fn works(
    node: &Node<u32>,
    work: Duration,
    next: impl Fn(u32) -> Option<tamarisk_stage::TrySink<u32>> + Clone + Send + Sync + 'static,
) {
    node.tasks(stage_fn(move |event: u32, cx: Context| {
        let next = next(event);
        async move {
            sleep(work).await;
            if let Some(next) = next {
                next.send_lossy(cx.envelope(event));
            }
            Ok(())
        }
    }));
}

/// Sends `count` events, one each `gap`; how many were rejected.
async fn feed(sink: &Sink<u32>, count: u32, gap: Duration) -> u32 {
    let mut rejected = 0;
    for event in 0..count {
        rejected += u32::from(!sink.send_lossy(event));
        sleep(gap).await;
    }
    rejected
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The door, and two ways on from it; of ten events so many go left as `left` says.
fn fork(left: &Arc<AtomicU32>) -> (Graph, Node<u32>) {
    let law = global("global-controller", &[]).unwrap();
    let graph = Graph::new().named_law(&law, &promise(PROMISE)).unwrap();
    let door = graph.declare::<u32>(open("door", 2)).unwrap();
    let (a, b) = (graph.declare(open("a", 4)).unwrap(), graph.declare(open("b", 4)).unwrap());
    let (to_a, to_b) = (graph.edge(&door, &a).unwrap(), graph.edge(&door, &b).unwrap());
    let left = Arc::clone(left);
    works(&door, ms(5), move |event| {
        let is_left = event % 10 < left.load(Ordering::Relaxed);
        Some(if is_left { to_a.clone() } else { to_b.clone() })
    });
    works(&a, ms(20), |_| None);
    works(&b, ms(20), |_| None);
    graph.start().unwrap();
    (graph, door)
}

fn shares(observation: &GraphObservation) -> Vec<Share> {
    let shares = &observation.global.as_ref().unwrap().shares;
    shares.iter().map(|share| share.unwrap()).collect()
}

fn targets(observation: &GraphObservation) -> Vec<f64> {
    observation.stages.iter().map(|stage| stage.classes[0].target.as_secs_f64()).collect()
}

#[tokio::test(start_paused = true)]
async fn shares_and_targets_follow_the_flow() {
    let left = Arc::new(AtomicU32::new(8));
    let (graph, door) = fork(&left);
    feed(&door.sink(), 800, ms(10)).await;
    let before = graph.observe();
    let [of_door, of_a, of_b] = shares(&before)[..] else { panic!("three stages") };
    assert!((of_door.visits - 1.0).abs() < 0.02, "{of_door:?}");
    assert!((of_a.visits - 0.8).abs() < 0.04 && (of_b.visits - 0.2).abs() < 0.04);
    // `a` does 200 a second, which is four fifths of 250.
    assert!((of_a.throughput.get() - 200.0).abs() < 6.0, "{of_a:?}");
    assert!((of_b.throughput.get() - 50.0).abs() < 10.0, "{of_b:?}");
    let [t_door, t_a, t_b] = targets(&before)[..] else { panic!("three stages") };
    assert!(t_a > 2.0 * t_b, "{t_a} {t_b}");
    // Times do not vary here, so the parts add up to the whole.
    assert!((t_door + 0.8 * t_a + 0.2 * t_b - 0.3).abs() < 0.02, "{t_door} {t_a} {t_b}");

    left.store(2, Ordering::Relaxed);
    feed(&door.sink(), 800, ms(10)).await;
    let after = graph.observe();
    let [_, of_a, of_b] = shares(&after)[..] else { panic!("three stages") };
    assert!((of_a.visits - 0.2).abs() < 0.04 && (of_b.visits - 0.8).abs() < 0.04);
    let [_, t_a, t_b] = targets(&after)[..] else { panic!("three stages") };
    assert!(t_b > 2.0 * t_a, "{t_a} {t_b}");
    let crossed: Vec<_> = after.edges.iter().map(|edge| (edge.crossed, edge.rejected)).collect();
    assert_eq!(crossed, [(800, 0), (800, 0)]);
}

/// Three stages in a line, the last of which does 100 a second, offered 250.
async fn overload(graph: Graph) -> (GraphObservation, u32) {
    let [a, b, c] = [("a", 3), ("b", 6), ("c", 2)]
        .map(|(name, workers)| graph.declare::<u32>(open(name, workers)).unwrap());
    let (to_b, to_c) = (graph.edge(&a, &b).unwrap(), graph.edge(&b, &c).unwrap());
    works(&a, ms(10), move |_| Some(to_b.clone()));
    works(&b, ms(40), move |_| Some(to_c.clone()));
    works(&c, ms(20), |_| None);
    graph.start().unwrap();
    let rejected = feed(&a.sink(), 5000, ms(4)).await;
    (graph.observe(), rejected)
}

fn way(observation: &GraphObservation) -> Duration {
    let p90 = |stage: &tamarisk_stage::StageObservation| stage.classes[0].response.unwrap().p90;
    observation.stages.iter().map(p90).sum()
}

#[tokio::test(start_paused = true)]
async fn overload_is_rejected_at_the_door_alone_and_the_promise_is_kept() {
    let (seen, rejected) =
        overload(Graph::new().law(GlobalController::new(&promise(PROMISE)))).await;
    assert!(way(&seen) < PROMISE, "{:?}", way(&seen));
    let [first, second, last] = &seen.stages[..] else { panic!("three stages") };
    assert_eq!(first.rejections.get(&Reason::RateExceeded), Some(&u64::from(rejected)));
    assert_eq!((second.total().rejected, last.total().rejected), (0, 0));
    // In the 20 s it can do 2000, and it admitted all in the first.
    assert!(last.total().completed > 1850, "{:?}", last.total());
    for stage in &seen.stages {
        assert!(stage.total().balance(), "{stage:?}");
    }
    assert_eq!(first.total().offered, 5000);

    let (alone, rejected) = overload(Graph::new()).await;
    assert!(rejected == 0 && way(&alone) > 5 * PROMISE, "{:?}", way(&alone));
    assert!(alone.global.is_none());
}

/// Lets nobody in if it is told so, and keeps what it is told.
#[derive(Clone, Debug, Default)]
struct Scripted(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    closed: bool,
    let_in: u32,
    target: Option<Target>,
    insides: Vec<u64>,
    samples: Vec<Sample>,
    promised: Option<Classes>,
}

#[derive(Clone, Debug)]
struct Sample {
    lasted: Duration,
    stages: Vec<StageSample>,
    edges: Vec<(usize, usize, f64)>,
}

impl GlobalLaw for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn on_entry(&mut self, _: Timestamp) -> Decision {
        let mut script = self.0.lock();
        if script.closed {
            Decision::Reject(Rejection::new(Reason::RateExceeded))
        } else {
            script.let_in += 1;
            Decision::Admit
        }
    }

    fn on_tick(&mut self, _: Timestamp, inside: u64) {
        self.0.lock().insides.push(inside);
    }

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn on_sample(&mut self, sample: &GraphSample<'_>) {
        let GraphSample { lasted, stages, edges } = *sample;
        let (stages, edges) = (stages.to_vec(), edges.to_vec());
        self.0.lock().samples.push(Sample { lasted, stages, edges });
    }

    fn share(&self, _: usize) -> Option<Share> {
        None
    }

    fn target(&self, stage: usize, _: ClassId) -> Option<Target> {
        self.0.lock().target.filter(|_| stage == 1)
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.0.lock().promised = Some(classes.clone());
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        visit(Reading { name: "wish_count", class: None, value: 7.0 });
    }
}

/// `a` sends everything on to `b`, which has room for three.
fn pair(law: &Scripted) -> (Graph, Node<u32>, Node<u32>) {
    let graph = Graph::new().law(law.clone());
    let a = graph.declare::<u32>(open("a", 10)).unwrap();
    let b = graph.declare::<u32>(open("b", 1).queue_capacity(3)).unwrap();
    let to_b = graph.edge(&a, &b).unwrap();
    works(&a, ms(1), move |_| Some(to_b.clone()));
    works(&b, ms(300), |_| None);
    graph.start().unwrap();
    (graph, a, b)
}

#[tokio::test(start_paused = true)]
async fn what_a_full_stage_rejects_takes_no_part_of_what_the_law_lets_in() {
    let law = Scripted::default();
    let (_graph, _, b) = pair(&law);
    sleep(ms(50)).await;
    b.sink().try_send(1).unwrap();
    sleep(ms(1)).await;
    (2..5).for_each(|event| b.sink().try_send(event).unwrap());
    for event in 5..25 {
        let error = b.sink().try_send(event).unwrap_err();
        assert_eq!(error.rejection.reason, Reason::QueueFull);
    }
    // Who waits for room asks again and again.
    let waiting = tokio::spawn(async move { b.sink().send(25).await.is_ok() });
    sleep(ms(200)).await;
    assert_eq!(law.0.lock().let_in, 4);
    assert!(waiting.await.unwrap());
    assert_eq!(law.0.lock().let_in, 5);
}

#[tokio::test(start_paused = true)]
async fn the_law_is_told_what_has_happened() {
    let law = Scripted::default();
    let (graph, a, b) = pair(&law);
    sleep(ms(50)).await;
    assert_eq!(a.sink().send_many(0..10_u32).len(), 0);
    b.sink().try_send(99).unwrap();
    sleep(ms(1000)).await;
    let (insides, Sample { lasted, stages, edges }) = {
        let script = law.0.lock();
        (script.insides.clone(), script.samples[0].clone())
    };
    assert_eq!(lasted, Duration::from_secs(1));
    assert_eq!((stages[0].entered, stages[0].processed, stages[0].workers.get()), (10, 10, 10));
    // One from outside was at work and three could wait; seven more were sent.
    assert_eq!((stages[1].entered, stages[1].processed), (1, 3));
    assert_eq!(edges, [(0, 1, 10.0)]);
    assert_eq!((graph.observe().edges[0].crossed, graph.observe().edges[0].rejected), (3, 7));
    let service = stages[0].service.unwrap();
    assert!(service.mean.abs_diff(ms(1)) < ms(1) / 20 && service.percentile < ms(2), "{service:?}");
    assert_eq!(insides[1], 4);
    sleep(ms(1000)).await;
    let Sample { stages, edges, .. } = law.0.lock().samples[1].clone();
    assert_eq!((stages[0].entered, stages[1].entered, stages[1].processed), (0, 0, 1));
    assert_eq!(edges, [(0, 1, 0.0)]);
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_from_outside_is_asked_about_and_nobody_else() {
    let law = Scripted::default();
    let (_graph, a, b) = pair(&law);
    a.sink().try_send(1).unwrap();
    law.0.lock().closed = true;
    let rejected = a.sink().try_send(2).unwrap_err();
    assert_eq!((rejected.event, rejected.rejection.reason), (2, Reason::RateExceeded));
    assert_eq!(a.sink().send_many([3, 4]).len(), 2);
    assert!(a.sink().reserve(tamarisk_stage::Entry::new()).is_err());
    // The same by the sink of the running stage.
    assert!(a.stage().unwrap().sink().try_send(5).is_err());
    sleep(ms(400)).await;
    let (first, second) =
        (a.stage().unwrap().observe().total(), b.stage().unwrap().observe().total());
    assert_eq!((first.offered, first.rejected, first.completed), (6, 5, 1));
    assert_eq!((second.offered, second.completed), (1, 1));
    assert!(first.balance() && second.balance());
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_may_wait_waits_for_the_law() {
    let law = Scripted::default();
    let (_graph, a, _b) = pair(&law);
    law.0.lock().closed = true;
    let waiting = tokio::spawn({
        let sink = a.sink();
        async move { sink.send(1).await }
    });
    sleep(ms(500)).await;
    assert!(!waiting.is_finished());
    law.0.lock().closed = false;
    waiting.await.unwrap().unwrap();
    assert_eq!(a.stage().unwrap().observe().total().rejected, 0);
}

#[tokio::test(start_paused = true)]
async fn stages_promise_what_the_law_finds() {
    let law = Scripted::default();
    let (graph, _a, _b) = pair(&law);
    law.0.lock().target = Some(Target::p90(ms(70)).unwrap());
    sleep(ms(1100)).await;
    let seen = graph.observe();
    assert_eq!(seen.stages[1].classes[0].target, ms(70));
    assert_eq!(seen.stages[0].classes[0].target, PROMISE);
    let global = seen.global.unwrap();
    assert_eq!((global.law, global.readings[0].value, global.shares.len()), ("scripted", 7.0, 2));
    graph.set_promise(&promise(ms(80)));
    assert_eq!(law.0.lock().promised, Some(promise(ms(80))));
}

#[tokio::test(start_paused = true)]
async fn the_governor_ends_with_its_graph() {
    let law = Scripted::default();
    let (graph, _a, _b) = pair(&law);
    sleep(ms(350)).await;
    drop(graph);
    let told = law.0.lock().insides.len();
    sleep(ms(1000)).await;
    assert!(told >= 3 && law.0.lock().insides.len() == told);
}

#[tokio::test(start_paused = true)]
async fn a_graph_that_is_too_large_is_rejected() {
    let graph = Graph::new().law(Scripted::default());
    for index in 0..65 {
        works(&graph.declare(open(&index.to_string(), 1)).unwrap(), ms(1), |_| None);
    }
    let error = graph.start().unwrap_err();
    assert!(matches!(error, GraphError::Law { .. }));
    assert_eq!(
        error.to_string(),
        "invalid law of the graph: a graph of 65 stages is not between 1 and 64"
    );
}

#[test]
fn a_graph_under_a_law_is_started_within_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let graph = Graph::new().law(Scripted::default());
    {
        let _entered = runtime.enter();
        works(&graph.declare(open("a", 1)).unwrap(), ms(1), |_| None);
    }
    assert_eq!(graph.start(), Err(GraphError::NoRuntime));
}
