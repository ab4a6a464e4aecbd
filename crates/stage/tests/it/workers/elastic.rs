//! The default number of workers: what a runtime with a task for each event serves, a stage serves; and
//! what waits for a few places does not end with a thousand workers that wait for them.

use std::sync::Arc;
use std::time::Duration;

use tamarisk_catalogue::papers::PoolSizing;
use tamarisk_control::Concurrency;
use tamarisk_stage::{Clock, Context, Stage, StageBuilder};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

const MS: Duration = Duration::from_millis(1);

/// A load that begins all at once.
#[derive(Clone, Copy, Debug)]
struct Load {
    per_second: f64,
    target: Duration,
    length: Duration,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Answers {
    asked: u32,
    answered: u32,
    in_time: u32,
}

impl Load {
    fn stage(self) -> StageBuilder {
        StageBuilder::new("work").p90(self.target).clock(Clock::runtime())
    }

    /// Calls at random times: `call` answers whether it was served.
    async fn offer<F>(self, call: impl Fn() -> F) -> Answers
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let (began, mut at) = (Instant::now(), Duration::ZERO);
        let (mut calls, mut answers) = (JoinSet::new(), Answers::default());
        let mut random = 1_u64;
        while at < self.length {
            sleep_until(began + at).await;
            let call = call();
            calls.spawn(async move {
                let asked = Instant::now();
                call.await.then(|| asked.elapsed())
            });
            answers.asked += 1;
            // The gaps of a Poisson process, by the generator of Knuth's MMIX.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let uniform = ((random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
            at += Duration::from_secs_f64(-uniform.ln() / self.per_second);
        }
        while let Some(took) = calls.join_next().await {
            let Some(took) = took.unwrap() else { continue };
            answers.answered += 1;
            answers.in_time += u32::from(took <= self.target);
        }
        answers
    }

    async fn call(self, stage: &Stage<Job>) -> Answers {
        self.offer(|| {
            let stage = stage.clone();
            async move { stage.call(()).await.is_ok() }
        })
        .await
    }
}

type Job = tamarisk_stage::Request<(), ()>;

/// Of `work`, with the default number of workers.
fn stage<F>(load: Load, work: impl Fn() -> F + Clone + Send + Sync + 'static) -> Stage<Job>
where
    F: Future<Output = ()> + Send,
{
    load.stage()
        .handler(async move |(): (), _: Context| {
            work().await;
            Ok(())
        })
        .unwrap()
}

async fn serves_what_a_task_for_each_serves(per_second: f64, service: Duration, target: Duration) {
    let load = Load { per_second, target, length: 3 * 1000 * MS };
    let with_tasks = load
        .offer(|| async move {
            sleep(service).await;
            true
        })
        .await;
    let stage = stage(load, move || sleep(service));
    let served = load.call(&stage).await;
    assert_eq!(served.asked, with_tasks.asked);
    let of = format!("{served:?}, beside {with_tasks:?}, of {service:?} at {load:?}");
    assert!(served.answered * 1000 >= with_tasks.answered * 999, "{of}");
    // Where service leaves a fifth of the target, what waits for the first answer may be late.
    assert!(served.in_time * 100 >= with_tasks.in_time * 99, "{of}");
}

#[tokio::test(start_paused = true)]
async fn waiting_work_is_served_from_cold() {
    for (per_second, service) in [
        (100.0, 1),
        (100.0, 200),
        (800.0, 50),
        (4000.0, 50),
        (1000.0, 20),
        (5000.0, 1),
        (5000.0, 200),
    ] {
        serves_what_a_task_for_each_serves(per_second, service * MS, 500 * MS).await;
    }
    serves_what_a_task_for_each_serves(2000.0, 200 * MS, 250 * MS).await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_waiting_work_is_served() {
    let load = Load { per_second: 1e6, target: 250 * MS, length: 2 * MS };
    let stage = stage(load, || sleep(200 * MS));
    for _ in 0..3 {
        let served = load.call(&stage).await;
        assert_eq!(served.in_time, served.asked, "{served:?}");
        sleep(60 * 1000 * MS).await;
    }
    // Those that were idle for seconds have gone.
    assert_eq!(stage.observe().workers, 16);
}

#[tokio::test(start_paused = true)]
async fn waiting_work_that_becomes_slow_is_served() {
    let load = Load { per_second: 1000.0, target: 1000 * MS, length: 4 * 1000 * MS };
    let began = Instant::now();
    let stage =
        stage(load, move || sleep(if began.elapsed() < 2000 * MS { 20 * MS } else { 100 * MS }));
    let served = load.call(&stage).await;
    assert!(served.in_time * 1000 >= served.asked * 999, "{served:?}");
}

/// Compares with a pool that adds a worker a second, ten times overloaded.
async fn does_as_much_as_few_workers<F>(
    load: Load,
    share: f64,
    work: impl Fn() -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send,
{
    let least = Concurrency::new(16);
    let few = work.clone();
    let sized = load
        .stage()
        .workers_law(PoolSizing::new(least..=Concurrency::new(1024), 1))
        .handler(async move |(): (), _: Context| {
            few().await;
            Ok(())
        })
        .unwrap();
    let before = load.call(&sized).await;
    let stage = stage(load, work);
    let now = load.call(&stage).await;
    let workers = stage.observe().workers;
    assert!(workers <= 64, "{workers} workers: {now:?}, beside {before:?}");
    assert!(
        f64::from(now.in_time) >= share * f64::from(before.in_time),
        "{now:?}, beside {before:?}, {workers} workers"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shared_lock_does_not_end_with_many_workers() {
    for target in [100, 1000] {
        let load = Load { per_second: 4000.0, target: target * MS, length: 20 * 1000 * MS };
        let places = Arc::new(Semaphore::new(4));
        does_as_much_as_few_workers(load, 0.95, move || {
            let places = Arc::clone(&places);
            async move {
                let _place = places.acquire_owned().await.unwrap();
                sleep(10 * MS).await;
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_processor_does_not_end_with_many_workers() {
    let load = Load { per_second: 2000.0, target: 200 * MS, length: 20 * 1000 * MS };
    let processors = Arc::new(Semaphore::new(2));
    // Cold, it takes a second until the first events have had their ten turns.
    does_as_much_as_few_workers(load, 0.9, move || {
        let processors = Arc::clone(&processors);
        async move {
            // In turns with all others that run.
            for _ in 0..10 {
                let _turn = processors.acquire().await.unwrap();
                sleep(MS).await;
            }
        }
    })
    .await;
}

/// On threads and in real time: 200/s that wait for 50 ms need ten, of which a core has one at first.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn blocking_work_that_waits_is_served_from_cold() {
    let load = Load { per_second: 200.0, target: 3000 * MS, length: 3000 * MS };
    let builder = StageBuilder::new("work").p90(load.target);
    let stage = builder
        .blocking_handler(|(): (), _: Context| {
            std::thread::sleep(50 * MS);
            Ok(())
        })
        .unwrap();
    let served = load.call(&stage).await;
    assert_eq!(served.answered, served.asked, "{served:?}");
    let workers = stage.observe().workers;
    assert!((8..=128).contains(&workers), "{workers} threads");
}
