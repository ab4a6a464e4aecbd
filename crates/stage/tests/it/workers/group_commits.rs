//! Events that a worker works on together, as in a group commit: a burst of them is served if its batches fit
//! into the target.

use std::time::Duration;

use rusqlite::Connection;
use tamarisk_stage::{
    Batch, BlockingHandler, BoxError, Clock, Handler, Request, Stage, StageBuilder,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

/// Commits all that it is given at once.
struct Committer;

impl Handler<Request<(), ()>> for Committer {
    async fn handle(&mut self, batch: &mut Batch<Request<(), ()>>) -> Result<(), BoxError> {
        let requests: Vec<_> = batch.drain().collect();
        // A commit, and what each adds to it.
        sleep(3 * MS + requests.len() as u32 * MS / 32).await;
        for request in requests {
            let _ = request.into_event().reply.send(());
        }
        Ok(())
    }
}

async fn burst(stage: &Stage<Request<(), ()>>, calls: u32) -> u32 {
    let mut all = JoinSet::new();
    for _ in 0..calls {
        let stage = stage.clone();
        all.spawn(async move { stage.call(()).await.is_ok() });
    }
    all.join_all().await.into_iter().map(u32::from).sum()
}

/// In batches of 32 a burst of 2,000 takes 63 · 4 ms = 0.25 s.
#[tokio::test(start_paused = true)]
async fn bursts_that_fit_into_the_target_are_served() {
    for workers in [Some(1), None] {
        let builder = StageBuilder::new("commits").p90(500 * MS).clock(Clock::runtime());
        let builder = match workers {
            Some(workers) => builder.workers(workers),
            None => builder,
        };
        let stage = builder.tasks(|| Committer).unwrap();
        // Single ones teach it what a commit takes, and not what it saves.
        for _ in 0..300 {
            assert_eq!(burst(&stage, 1).await, 1);
        }
        for _ in 0..10 {
            assert_eq!(burst(&stage, 2000).await, 2000, "with {workers:?} workers");
            sleep(1000 * MS).await;
        }
    }
}

/// What does not fit is rejected: 10,000 take 1.25 s.
#[tokio::test(start_paused = true)]
async fn bursts_beyond_the_target_are_cut() {
    let builder = StageBuilder::new("commits").p90(500 * MS).clock(Clock::runtime());
    let stage = builder.workers(1).tasks(|| Committer).unwrap();
    burst(&stage, 2000).await;
    let served = burst(&stage, 9000).await;
    assert!((2000..=4500).contains(&served), "{served}");
}

/// Writes all that it is given in one transaction.
struct Writer(Connection);

impl BlockingHandler<Request<(), ()>> for Writer {
    fn handle(&mut self, batch: &mut Batch<Request<(), ()>>) -> Result<(), BoxError> {
        let requests: Vec<_> = batch.drain().collect();
        let transaction = self.0.transaction()?;
        for _ in &requests {
            transaction.execute("INSERT INTO calls DEFAULT VALUES", ())?;
        }
        transaction.commit()?;
        for request in requests {
            let _ = request.into_event().reply.send(());
        }
        Ok(())
    }
}

/// In real time, with a target that any disk keeps.
#[tokio::test]
async fn group_commits_of_a_database_are_served() {
    let file = std::env::temp_dir().join(format!("tamarisk-commits-{}.db", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let open = {
        let file = file.clone();
        move || Connection::open(&file).unwrap()
    };
    open().execute("CREATE TABLE calls (id INTEGER PRIMARY KEY)", ()).unwrap();
    let writer = open.clone();
    let stage = StageBuilder::new("commits")
        .p90(10_000 * MS)
        .workers(1)
        .threads(move || Writer(writer()))
        .unwrap();
    for _ in 0..20 {
        assert_eq!(burst(&stage, 1).await, 1);
    }
    for _ in 0..3 {
        assert_eq!(burst(&stage, 2000).await, 2000);
    }
    let count = |row: &rusqlite::Row<'_>| row.get::<_, u32>(0);
    assert_eq!(open().query_row("SELECT count(*) FROM calls", (), count).unwrap(), 6020);
    std::fs::remove_file(&file).unwrap();
}
