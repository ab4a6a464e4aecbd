//! Random schedules: whatever is done to a stage in whatever order, its accounts
//! are the truth after every step, and every caller hears exactly once.

mod book;
mod gates;
mod strategy;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tamarisk_control::{Decision, Reason, Rejection};
use tamarisk_laws::PredictGateTrim;
use tamarisk_stage::{
    Batch, BoxError, CallError, Envelope, Handler, Permit, Predicate, Reply, Request, Stage,
    stage_fn,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::rig::{self, Law, described, settle};
use book::{Book, Work};
use strategy::{End, Knob, Line, Making, Ruler, Step, Way, making, steps};

type Ask = Request<Work, usize>;

/// Takes at most so many events at a call, and leaves the rest to be offered again.
struct Obedient(usize);

impl Handler<Ask> for Obedient {
    async fn handle(&mut self, batch: &mut Batch<Ask>) -> Result<(), BoxError> {
        for _ in 0..self.0 {
            let Some((request, cx)) = batch.next() else { break };
            book::obey(request, cx).await?;
        }
        Ok(())
    }
}

/// A stage under test, and all that the test knows of it.
struct Trial {
    stage: Arc<Stage<Ask>>,
    law: Law,
    book: Book,
    capacity: usize,
    is_partitioned: bool,
    /// Replies that wait for their requests, and where their answers come out.
    mint: Mint,
    answers: Vec<(usize, JoinHandle<Result<usize, CallError>>)>,
    places: VecDeque<(Way, Permit<Ask>)>,
    senders: Vec<JoinHandle<()>>,
}

/// Makes replies, as only a call can.
struct Mint {
    stage: Stage<Request<(), usize>>,
    minted: mpsc::UnboundedReceiver<Reply<usize>>,
}

impl Mint {
    fn new() -> Self {
        let (mint, minted) = mpsc::unbounded_channel();
        let stage = described("mint")
            .tasks(stage_fn(move |request: Request<(), usize>, _cx| {
                mint.send(request.reply).ok();
                async { Ok(()) }
            }))
            .unwrap();
        Self { stage, minted }
    }

    async fn reply(&mut self) -> (Reply<usize>, JoinHandle<Result<usize, CallError>>) {
        let sink = self.stage.sink();
        let answer = tokio::spawn(async move { sink.call(()).await });
        (self.minted.recv().await.expect("the mint works"), answer)
    }
}

impl Trial {
    fn new(making: &Making) -> Self {
        let (law, classes) = (Law::default(), rig::classes(&[1, 0, 1]));
        let builder = described("tried");
        let builder = match making.law {
            Ruler::Script => builder.law(law.clone()),
            Ruler::PredictGateTrim => builder.law(PredictGateTrim::new(&classes)),
        };
        let builder = builder
            .classes(classes)
            .workers_between(1..=making.workers)
            .queue_capacity(making.capacity)
            .batch(making.batch);
        let builder = match making.line {
            Line::Ordered(discipline) => builder.discipline(discipline),
            Line::Partitioned => builder.partitioned(),
            Line::SingleThreaded => builder.single_threaded(),
        };
        let is_partitioned = !matches!(making.line, Line::Ordered(_));
        let appetite = making.appetite;
        let stage = Arc::new(builder.tasks(move || Obedient(appetite)).unwrap());
        stage.set_workers(making.workers).unwrap();
        Self {
            stage,
            law,
            book: Book::new(is_partitioned),
            capacity: making.capacity,
            is_partitioned,
            mint: Mint::new(),
            answers: Vec::new(),
            places: VecDeque::new(),
            senders: Vec::new(),
        }
    }

    async fn request(&mut self, way: &Way) -> (usize, Envelope<Ask>) {
        let body = self.book.write(way.class, way.key, way.fate);
        let (reply, answer) = self.mint.reply().await;
        let id = body.id;
        self.answers.push((id, answer));
        (id, Envelope::new(Request { body, reply }, way.entry()))
    }

    async fn step(&mut self, step: &Step) {
        let sink = self.stage.sink();
        match step {
            Step::TrySend(way) => {
                let (id, event) = self.request(way).await;
                self.sent(id, way.class, sink.try_send(event).map_err(|r| r.rejection));
            }
            Step::Lossy(way) => {
                let (id, event) = self.request(way).await;
                let taken = sink.send_lossy(event);
                let lost = Rejection::new(Reason::Predicate);
                self.sent(id, way.class, if taken { Ok(()) } else { Err(lost) });
            }
            Step::Many(ways) => {
                let (mut ids, mut events) = (Vec::new(), Vec::new());
                for way in ways {
                    let (id, event) = self.request(way).await;
                    ids.push((id, way.class));
                    events.push(event);
                }
                let rejected = sink.send_many(events);
                let back: Vec<_> = rejected.iter().map(|rejected| rejected.event.body.id).collect();
                assert!(back.is_sorted(), "what comes back is in order");
                for (id, class) in ids {
                    let rejected = rejected.iter().find(|rejected| rejected.event.body.id == id);
                    self.sent(
                        id,
                        class,
                        rejected.map_or(Ok(()), |rejected| Err(rejected.rejection)),
                    );
                }
            }
            Step::Send(way) => {
                let (id, event) = self.request(way).await;
                let (book, class) = (self.book.clone(), way.class);
                self.senders.push(tokio::spawn(async move {
                    match sink.send(event).await {
                        Ok(()) => book.took(id),
                        Err(_) => book.rejected(class),
                    }
                }));
            }
            Step::LeaveSender(which) => {
                if !self.senders.is_empty() {
                    self.senders.swap_remove(which % self.senders.len()).abort();
                }
            }
            Step::LeaveCaller(which) => {
                if !self.answers.is_empty() {
                    self.answers.swap_remove(which % self.answers.len()).1.abort();
                }
            }
            Step::Reserve(way) => match sink.reserve(way.entry()) {
                Ok(place) => self.places.push_back((way.clone(), place)),
                Err(_) => self.book.rejected(way.class),
            },
            Step::Commit => {
                if let Some((way, place)) = self.places.pop_front() {
                    let class = way.class;
                    let (id, event) = self.request(&way).await;
                    let sent = place.send(event.into_event());
                    let sent = sent.map_err(|rejected| rejected.rejection);
                    assert!(sent.is_ok() || sent == Err(Rejection::new(Reason::Closed)));
                    self.sent(id, class, sent);
                }
            }
            Step::Abort => drop(self.places.pop_front()),
            Step::Terminate(which) => {
                let running = self.stage.running();
                if !running.is_empty() {
                    let running = running[which % running.len()];
                    assert!(self.stage.terminate(running.id));
                }
            }
            Step::Turn(knob) => self.turn(knob),
            Step::Pass(millis) => sleep(Duration::from_millis(*millis)).await,
            Step::Settle => self.settle().await,
        }
    }

    /// Once all workers have done what they can, none of them is idle while there
    /// is something for it.
    async fn settle(&self) {
        settle().await;
        let observation = self.stage.observe();
        let total = observation.total();
        let busy = if self.is_partitioned { 1 } else { u64::from(observation.workers) };
        assert!(total.queued == 0 || total.running >= busy, "{total:?}, {busy} might run");
    }

    fn turn(&self, knob: &Knob) {
        let stage = &self.stage;
        match *knob {
            Knob::Workers(workers) => drop(stage.set_workers(workers).unwrap()),
            Knob::Batch(events) => stage.set_batch(events),
            Knob::Handlers(appetite) => {
                stage.replace_with_tasks(move || Obedient(appetite)).unwrap();
            }
            Knob::Reject(rejects) => {
                let retry = Duration::from_millis(20);
                let rejection = Rejection::new(Reason::RateExceeded).retry_after(retry);
                self.law.script().rejects = rejects.then_some(rejection);
            }
            Knob::Drop(drops) => self.law.script().drops = drops,
            Knob::NewestFirst(newest) => self.law.script().newest_first = newest,
            Knob::Patience(millis) => {
                self.law.script().patience = millis.map(Duration::from_millis);
            }
            Knob::Guard(guards) => {
                let predicate: Predicate<Ask> = Arc::new(|asking, _| match asking.class.index() {
                    2 => Decision::Reject(Rejection::new(Reason::Predicate)),
                    _ => Decision::Admit,
                });
                stage.sink().set_predicate(guards.then_some(predicate));
            }
        }
    }

    fn sent(&self, id: usize, class: usize, sent: Result<(), Rejection>) {
        match sent {
            Ok(()) => self.book.took(id),
            Err(_) => self.book.rejected(class),
        }
    }

    /// The accounts are what the events themselves have noted.
    fn check(&self, after: &dyn std::fmt::Debug) {
        assert_eq!(self.book.wrongs(), [""; 0], "after {after:?}");
        let observation = self.stage.observe();
        for (class, observed) in observation.classes.iter().enumerate() {
            let accounts = observed.accounts;
            assert!(accounts.balance(), "{accounts:?} after {after:?}");
            let told =
                tamarisk_stage::Accounts { queued: accounts.inside(), running: 0, ..accounts };
            assert_eq!(told, self.book.truth(class), "class {class} after {after:?}");
        }
        let total = observation.total();
        assert!(total.running >= self.book.running(), "after {after:?}");
        assert_eq!(observation.rejections.values().sum::<u64>(), total.rejected);
        let places = self.places.len() as u64;
        assert_eq!(self.stage.sink().len() as u64, total.queued + places, "after {after:?}");
        assert!(self.stage.sink().len() <= self.capacity);
    }

    async fn end(mut self, end: &End) {
        let mut draining = None;
        match end {
            End::Close => self.stage.close(),
            End::Drain(millis) => {
                let (stage, patience) = (Arc::clone(&self.stage), Duration::from_millis(*millis));
                draining = Some(tokio::spawn(async move { stage.drain(patience).await }));
                settle().await;
            }
        }
        self.check(end);
        if self.places.len() > 1 {
            self.step(&Step::Commit).await;
            self.check(&"a commit while it ends");
        }
        self.places.clear();
        // Longer than any drain, any fate and any wait for room.
        sleep(Duration::from_secs(20)).await;
        self.check(end);
        assert_eq!(self.stage.observe().total().inside(), 0);
        assert!(self.stage.running().is_empty());
        for sender in self.senders.drain(..) {
            sender.await.unwrap();
        }
        for (id, answer) in self.answers.drain(..) {
            assert!(answer.is_finished(), "nobody told the sender of event {id}");
            let answer = answer.await.unwrap();
            assert!(self.book.is_right(id, &answer), "the sender of event {id} heard {answer:?}");
        }
        if let Some(draining) = draining {
            let report = draining.await.unwrap();
            assert_eq!(report.left, 0);
            let total = self.stage.observe().total();
            assert!(report.finished <= total.completed + total.failed);
            assert!(report.dropped <= total.dropped && report.terminated <= total.terminated);
        }
    }
}

fn paused(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 2000, ..Default::default() })]

    #[test]
    fn every_event_has_one_outcome_and_every_caller_one_answer(
        making in making(),
        steps in steps(),
        end in End::any(),
    ) {
        paused(async {
            let mut trial = Trial::new(&making);
            for step in &steps {
                trial.step(step).await;
                trial.check(step);
            }
            trial.end(&end).await;
        });
    }
}
