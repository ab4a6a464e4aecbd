//! Work that is to end: its statement ends in the database too, and leaves the connection in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tamarisk::Shield;
use tamarisk_arashi::store::{
    FolderKind, IsEnded, NewMessage, Order, Store, StoreError, Untimed, UserId, Work,
};

use crate::store::{counts, folder, mail, user};
use crate::support::{Kind, TestDatabase};

crate::store::on_each_database! {
    a_search_ends_when_its_work_does,
    a_cancellation_hits_no_other_statement,
    a_change_is_made_whole_or_not_at_all,
    a_wait_for_another_transaction_ends,
}

/// Work that ends after some time.
struct Until(Instant);

impl Work for Until {
    fn is_ended(&self) -> IsEnded {
        let end = self.0;
        Arc::new(move || Instant::now() >= end)
    }

    fn time_left(&self) -> Option<Duration> {
        Some(self.0 - Instant::now())
    }

    fn shield(&self) -> Option<Shield> {
        None
    }
}

/// Work that ends when it has been asked about so many times.
struct Asked(Arc<AtomicU64>);

impl Asked {
    fn times(times: u64) -> Self {
        Self(Arc::new(AtomicU64::new(times)))
    }
}

impl Work for Asked {
    fn is_ended(&self) -> IsEnded {
        let left = Arc::clone(&self.0);
        Arc::new(move || {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_err()
        })
    }

    fn time_left(&self) -> Option<Duration> {
        None
    }

    fn shield(&self) -> Option<Shield> {
        None
    }
}

/// A user with messages through whose headers a search takes long.
fn user_with_mail(store: &mut Store, count: i64) -> UserId {
    let ann = user(store, "ann");
    add_mail(store, ann, count);
    ann
}

fn add_mail(store: &mut Store, ann: UserId, count: i64) {
    let inbox = folder(store, ann, FolderKind::Inbox);
    // What is searched for begins everywhere and is nowhere.
    let headers = "a".repeat(16 << 10);
    let new = |number: i64| NewMessage {
        headers: headers.clone(),
        ..mail("a@example.org", &format!("m{number}"), number)
    };
    store.deliver_all(&Untimed, ann, inbox, &mut (0..count).map(new)).unwrap();
}

const LONG_TEXT: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";

fn search(store: &mut Store, work: &dyn Work, user: UserId) -> Result<u64, StoreError> {
    let found = store.search(work, user, None, LONG_TEXT, None, Order::default(), 0, 10);
    found.map(|listing| listing.total)
}

/// How many statements of searches run in a database of a server.
fn running_searches(test: &TestDatabase) -> usize {
    let Some((server, name)) = test.server() else { return 0 };
    let sql = match server.kind() {
        Kind::Postgres => format!(
            "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND datname = '{name}' \
             AND query LIKE '%headers%' AND pid <> pg_backend_pid()"
        ),
        Kind::Mariadb => format!(
            "SELECT id FROM information_schema.processlist WHERE db = '{name}' \
             AND info LIKE '%headers%' AND id <> CONNECTION_ID()"
        ),
    };
    let database = if server.kind() == Kind::Postgres { "postgres" } else { "" };
    server.query(database, &sql).lines().count()
}

fn a_search_ends_when_its_work_does(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user_with_mail(&mut store, 4000);
    let mut ends_early = || {
        let start = Instant::now();
        assert_eq!(search(&mut store, &Untimed, ann).unwrap(), 0);
        let whole = start.elapsed();
        let start = Instant::now();
        let ended = search(&mut store, &Until(start + whole / 8), ann);
        let took = start.elapsed();
        assert_eq!(running_searches(test), 0);
        matches!(ended, Err(StoreError::Terminated))
            && took < whole * 3 / 4 + Duration::from_millis(50)
    };
    // Other programs hold up a search now and then, but not each time the one that is to end.
    assert!((0..20).any(|_| ends_early()));
    assert_eq!(counts(&mut store, ann)[0].1, 4000);
    // Work that has ended does not begin.
    let ended = store.folders(&Until(Instant::now()), ann);
    assert!(matches!(ended, Err(StoreError::Terminated)), "{ended:?}");
}

fn a_cancellation_hits_no_other_statement(test: &TestDatabase) {
    let mut store = test.connect();
    // MariaDB searches the least quickly, and SQLite the most. A server is asked every 10 ms: a
    // search that takes less is never ended.
    let (mut count, least) = match test.server().map(|(server, _)| server.kind()) {
        Some(Kind::Mariadb) => (20, Duration::from_millis(15)),
        Some(Kind::Postgres) => (400, Duration::from_millis(15)),
        None => (4000, Duration::from_millis(1)),
    };
    let ann = user_with_mail(&mut store, count);
    let whole = loop {
        let mut timed = || {
            let start = Instant::now();
            search(&mut store, &Untimed, ann).unwrap();
            start.elapsed()
        };
        // The first one is slower than those to come.
        let whole = [timed(), timed(), timed()].into_iter().min().unwrap_or_default();
        if whole >= least {
            break whole;
        }
        add_mail(&mut store, ann, count);
        count *= 2;
    };
    let (mut ended, mut finished) = (0, 0);
    // The ends of the work lie around the end of the search.
    for race in 0..200 {
        let limit = whole * (race % 40 + 10) / 40;
        match search(&mut store, &Until(Instant::now() + limit), ann) {
            Ok(total) => {
                finished += 1;
                assert_eq!(total, 0);
            }
            Err(StoreError::Terminated) => ended += 1,
            other => panic!("{other:?}"),
        }
        assert_eq!(
            counts(&mut store, ann)[0],
            ("Inbox".into(), count as u64, count as u64),
            "race {race}"
        );
    }
    assert_eq!(ended + finished, 200);
    assert!(ended > 0, "no search was ended of {whole:?}");
    assert_eq!(running_searches(test), 0);
}

fn a_change_is_made_whole_or_not_at_all(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let mut is_made = false;
    for times in 0..3000 {
        if is_made {
            break;
        }
        let before = counts(&mut store, ann)[0].1;
        let mut mails = (0..100).map(|number| mail("a@example.org", "m", number));
        let result = store.deliver_all(&Asked::times(times), ann, inbox, &mut mails);
        let after = counts(&mut store, ann)[0].1;
        let listed = store.list(&Untimed, ann, inbox, Order::default(), 0, 200, false).unwrap();
        assert_eq!(listed.messages.len() as u64, after);
        match result {
            Ok(100) => {
                is_made = true;
                assert_eq!(after, before + 100);
            }
            Err(StoreError::Terminated) => assert_eq!(after, before, "{times}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(is_made);
}

fn a_wait_for_another_transaction_ends(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user_with_mail(&mut store, 10);
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let mut other = test.connect();
    let is_held = AtomicBool::new(false);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The mails come while the transaction is open only if the first has been delivered.
            let hold = |number: i64| {
                is_held.store(true, Ordering::Release);
                mail("a@example.org", "m", number)
            };
            while !is_over.load(Ordering::Acquire) {
                other.deliver_all(&Untimed, ann, inbox, &mut (0..200).map(hold)).unwrap();
            }
        });
        while !is_held.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        // Both change the same user's mail, and each gets its turn or its end.
        for _ in 0..20 {
            let end = Instant::now() + Duration::from_millis(5);
            match store.deliver(&Until(end), ann, inbox, &mail("a@example.org", "m", 1)) {
                Ok(_) | Err(StoreError::Terminated) => {}
                other => panic!("{other:?}"),
            }
            assert!(end.elapsed() < Duration::from_secs(60), "{:?}", end.elapsed());
        }
        is_over.store(true, Ordering::Release);
    });
    let counted = counts(&mut store, ann)[0].1;
    let found = store.search(&Untimed, ann, Some(inbox), "", None, Order::default(), 0, 1).unwrap();
    assert_eq!(found.total, counted);
}
