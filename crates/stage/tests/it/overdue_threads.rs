//! Blocking handlers that do not come back in time: their callers are answered, and their threads
//! count as busy until they do.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::Ending;
use tamarisk_stage::{BoxError, CallError, Context, Entry, Request};
use tokio::time::Instant;

use crate::rig::{Law, accounts, described, settle, until};

const MS: Duration = Duration::from_millis(1);

/// Threads that block, whatever is asked of them, until the test lets one of them go.
struct Stuck {
    release: Sender<()>,
    threads: Arc<Mutex<HashSet<ThreadId>>>,
    held: Arc<Mutex<Receiver<()>>>,
}

impl Stuck {
    fn new() -> Self {
        let (release, held) = channel();
        Self { release, threads: Arc::default(), held: Arc::new(Mutex::new(held)) }
    }

    fn handle(
        &self,
    ) -> impl Fn(u32, Context) -> Result<u32, BoxError> + Clone + Send + Sync + use<> {
        let (threads, held) = (Arc::clone(&self.threads), Arc::clone(&self.held));
        move |number, _| {
            threads.lock().insert(std::thread::current().id());
            held.lock().recv()?;
            Ok(number)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn callers_are_answered_at_the_deadline_and_threads_count_until_they_are_back() {
    let (law, stuck) = (Law::default(), Stuck::new());
    let builder = described("stuck").law(law.clone()).workers(2);
    let stage = builder.blocking_handler(stuck.handle()).unwrap();
    let start = Instant::now();
    let call = |timeout: Duration| {
        let stage = stage.clone();
        tokio::spawn(async move { stage.call_as(1, Entry::new().timeout(timeout)).await })
    };
    let running = [call(200 * MS), call(200 * MS)];
    until(|| accounts(&stage).running == 2).await;
    for call in running {
        assert_eq!(call.await.unwrap(), Err(CallError::Terminated));
    }
    let waited = start.elapsed();
    assert!(waited >= 200 * MS && waited < 210 * MS, "{waited:?}");

    // No other threads come in their stead, and the law is told nothing yet.
    for _ in 0..20 {
        assert_eq!(call(50 * MS).await.unwrap(), Err(CallError::Dropped));
    }
    let now = accounts(&stage);
    assert_eq!((now.running, now.dropped, now.terminated), (2, 20, 0));
    assert_eq!((stage.observe().workers, stuck.threads.lock().len()), (2, 2));
    assert!(law.script().endings.is_empty());

    (0..2).for_each(|_| stuck.release.send(()).unwrap());
    until(|| accounts(&stage).inside() == 0).await;
    assert_eq!(accounts(&stage).terminated, 2);
    assert_eq!(law.script().endings, [Ending::Terminated; 2]);
    stuck.release.send(()).unwrap();
    assert_eq!(stage.call(7).await, Ok(7));
    until(|| accounts(&stage).completed == 1).await;
    assert_eq!(stuck.threads.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_learns_in_which_later_stage_it_was() {
    let stuck = Stuck::new();
    let later = described("later").blocking_handler(stuck.handle()).unwrap();
    let onward = later.clone();
    let front = described("front")
        .event_handler(async move |Request { body, reply }: Request<u32, u32>, cx: Context| {
            cx.forward(&onward, body, reply);
            Ok(())
        })
        .unwrap();
    let called = front.clone();
    let call = tokio::spawn(async move { called.call_as(1, Entry::new().timeout(200 * MS)).await });
    until(|| accounts(&later).running == 1).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.stage(), error.cause()), (Some("later"), &CallError::Terminated));
    stuck.release.send(()).unwrap();
    until(|| accounts(&later).terminated == 1).await;
    assert_eq!(accounts(&front).completed, 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_before_the_deadline_counts_however_long_the_handler_tidies_up() {
    let stuck = Stuck::new();
    let held = Arc::clone(&stuck.held);
    let stage = described("tidies")
        .threads(tamarisk_stage::blocking_fn(move |request: Request<u32, u32>, _: Context| {
            let _ = request.reply.send(request.body);
            held.lock().recv()?;
            Ok(())
        }))
        .unwrap();
    let called = stage.clone();
    let call = tokio::spawn(async move { called.call_as(1, Entry::new().timeout(200 * MS)).await });
    until(|| call.is_finished()).await;
    assert_eq!(call.await.unwrap(), Ok(1));
    tokio::time::sleep(500 * MS).await;
    settle().await;
    stuck.release.send(()).unwrap();
    until(|| accounts(&stage).inside() == 0).await;
    assert_eq!(accounts(&stage).completed, 1);
}
