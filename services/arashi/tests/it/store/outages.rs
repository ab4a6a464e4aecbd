//! Servers that are killed, and databases that are not there.

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tamarisk_arashi::store::{Database, FolderKind, MessageId, Order, StoreError, Untimed};

use crate::store::{counts, folder, mail, user};
use crate::support::{Kind, Server, TestDatabase};

/// What takes longer than this comes to no end.
const STUCK: Duration = Duration::from_secs(60);

#[test]
fn postgres_is_killed_in_the_middle_of_writes() {
    kill_in_the_middle_of_writes(Kind::Postgres);
}

#[test]
fn mariadb_is_killed_in_the_middle_of_writes() {
    kill_in_the_middle_of_writes(Kind::Mariadb);
}

fn kill_in_the_middle_of_writes(kind: Kind) {
    let server = Arc::new(Server::start(kind));
    let test = TestDatabase::on(&server);
    let mut store = test.connect();
    let users: Vec<_> = (0..4).map(|number| user(&mut store, &format!("user{number}"))).collect();
    let acknowledged: Mutex<HashSet<MessageId>> = Mutex::default();
    let is_over = AtomicBool::new(false);
    let (failures, successes_after) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_restarted = AtomicBool::new(false);
    let longest = Mutex::new(Duration::ZERO);
    std::thread::scope(|scope| {
        for &user in &users {
            let mut store = test.database.store();
            let inbox = folder(&mut store, user, FolderKind::Inbox);
            let shared =
                (&acknowledged, &is_over, &failures, &successes_after, &is_restarted, &longest);
            scope.spawn(move || {
                let (acknowledged, is_over, failures, successes_after, is_restarted, longest) =
                    shared;
                let mut number = 0;
                while !is_over.load(Ordering::Acquire) {
                    number += 1;
                    let start = Instant::now();
                    let result =
                        store.deliver(&Untimed, user, inbox, &mail("a@example.org", "m", number));
                    let mut longest = longest.lock().unwrap();
                    *longest = start.elapsed().max(*longest);
                    drop(longest);
                    match result {
                        Ok(id) => {
                            acknowledged.lock().unwrap().insert(id);
                            if is_restarted.load(Ordering::Acquire) {
                                successes_after.fetch_add(1, Ordering::AcqRel);
                            }
                        }
                        Err(StoreError::Unavailable(_) | StoreError::Unknown(_)) => {
                            failures.fetch_add(1, Ordering::AcqRel);
                            std::thread::yield_now();
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                }
            });
        }
        for _ in 0..2 {
            let before = acknowledged.lock().unwrap().len();
            poll("writes", || acknowledged.lock().unwrap().len() > before + 50);
            server.kill();
            let before = failures.load(Ordering::Acquire);
            poll("failures", || failures.load(Ordering::Acquire) > before + 50);
            server.restart();
        }
        is_restarted.store(true, Ordering::Release);
        poll("recovery", || successes_after.load(Ordering::Acquire) > 50);
        is_over.store(true, Ordering::Release);
    });
    // A call that met the kill ended at once, or in the limit for connecting.
    let longest = *longest.lock().unwrap();
    assert!(longest < STUCK, "{longest:?}");
    let acknowledged = acknowledged.into_inner().unwrap();
    let mut kept = HashSet::new();
    for &user in &users {
        let inbox = folder(&mut store, user, FolderKind::Inbox);
        let total = counts(&mut store, user)[0].1;
        let mut listed = HashSet::new();
        for first in (0..total).step_by(200) {
            let page =
                store.list(&Untimed, user, inbox, Order::default(), first, 200, false).unwrap();
            listed.extend(page.messages.into_iter().map(|message| message.id));
        }
        assert_eq!(listed.len() as u64, total, "counts are as true as before");
        kept.extend(listed);
    }
    let lost: Vec<_> = acknowledged.difference(&kept).collect();
    assert!(lost.is_empty(), "{} of {} lost", lost.len(), acknowledged.len());
}

fn poll(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < STUCK, "no {what} within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The process is killed, not the computer: this runs in a process of its own.
#[test]
fn sqlite_keeps_what_a_killed_process_has_been_told_is_kept() {
    let folder_of_test = crate::support::Folder::new();
    let url = format!("sqlite:{}", folder_of_test.path().join("mail.db").display());
    let mut store = Database::at(&url).unwrap().connect().unwrap();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let mut writer = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "store::outages::writes_until_it_is_killed",
            "--nocapture",
            "--include-ignored",
        ])
        .env("TAMARISK_ARASHI_WRITE_TO", &url)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(writer.stdout.take().unwrap()));
    let mut acknowledged = 0;
    while acknowledged < 300 {
        let line = lines.next().expect("the writer writes until it is killed").unwrap();
        acknowledged += u64::from(line == "kept");
    }
    writer.kill().unwrap();
    acknowledged += lines.map_while(Result::ok).filter(|line| line == "kept").count() as u64;
    writer.wait().unwrap();
    let counted = counts(&mut store, ann)[0].1;
    assert!((acknowledged..=acknowledged + 1).contains(&counted), "{counted} {acknowledged}");
    let found = store.search(&Untimed, ann, Some(inbox), "", None, Order::default(), 0, 1).unwrap();
    assert_eq!(found.total, counted);
}

#[test]
#[ignore = "the other process of the test before"]
fn writes_until_it_is_killed() {
    let Ok(url) = std::env::var("TAMARISK_ARASHI_WRITE_TO") else { return };
    let mut store = Database::at(&url).unwrap().connect().unwrap();
    let ann = store.account(&Untimed, "ann").unwrap().unwrap().id;
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    for number in 0.. {
        store.deliver(&Untimed, ann, inbox, &mail("a@example.org", "m", number)).unwrap();
        println!("kept");
    }
}

#[test]
fn a_database_that_is_down_is_not_tried_by_every_call() {
    // Whoever connects is turned away.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let tries = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                drop(listener.accept().unwrap());
                tries.fetch_add(1, Ordering::AcqRel);
            }
        });
        let _end = EndOfTries { is_over: &is_over, port };
        for scheme in ["postgres", "mariadb"] {
            let url = format!("{scheme}://u:secret@127.0.0.1:{port}/mail");
            let database = Database::at(&url).unwrap();
            let mut stores = [database.store(), database.clone().store()];
            let before = tries.load(Ordering::Acquire);
            let tried = || tries.load(Ordering::Acquire) - before;
            let start = Instant::now();
            while tried() < 3 {
                assert!(start.elapsed() < STUCK, "{scheme}: {}", tried());
                for store in &mut stores {
                    let answer = store.account(&Untimed, "ann");
                    let Err(StoreError::Unavailable(text)) = answer else { panic!("{answer:?}") };
                    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
                    assert!(!text.contains("secret"), "{text}");
                }
            }
            // At 0, 50, 150, 350, 750 ms, and then each second.
            let tried = tried();
            let pauses = [50, 100, 200, 400].into_iter().chain(std::iter::repeat(1000));
            let least = Duration::from_millis(pauses.take(tried as usize - 1).sum());
            assert!(start.elapsed() >= least, "{scheme}: {tried} in {:?}", start.elapsed());
            assert!(!format!("{database:?}").contains("secret"));
        }
    });
}

/// Ends the thread that accepts connections, if the test fails too.
struct EndOfTries<'a> {
    is_over: &'a AtomicBool,
    port: u16,
}

impl Drop for EndOfTries<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        let _ = std::net::TcpStream::connect(("127.0.0.1", self.port));
    }
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    // Connections are accepted by the kernel, and nobody speaks.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let connections = || std::iter::from_fn(|| silent.accept().ok()).count();
    let port = silent.local_addr().unwrap().port();
    for scheme in ["postgres", "mariadb"] {
        let database = Database::at(&format!("{scheme}://u:p@127.0.0.1:{port}/mail")).unwrap();
        let mut store = database.store();
        let start = Instant::now();
        let answer = store.account(&Untimed, "ann");
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        assert!(start.elapsed() < STUCK, "{:?}", start.elapsed());
        assert!(connections() > 0);
        // The next call is told at once, unless this thread was held up until it is time to try
        // again; that pause doubles.
        let is_told_at_once = || {
            assert!(matches!(store.account(&Untimed, "ann"), Err(StoreError::Unavailable(_))));
            connections() == 0
        };
        assert!(std::iter::repeat_with(is_told_at_once).take(10).any(|told| told), "{scheme}");
    }
}

/// SQLite takes a file of a newer format for read-only, as it takes one on a read-only disk.
#[test]
fn what_need_not_be_written_is_left_out_where_sqlite_is_read_only() {
    const WRITE_VERSION_AT: u64 = 18;
    let test = TestDatabase::sqlite();
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let message = store.deliver(&Untimed, ann, inbox, &mail("a@example.org", "m", 1)).unwrap();
    let (_, key) = store.log_in(&Untimed, "ann", crate::store::PASSWORD).unwrap().unwrap();
    drop(store);
    let path = test.database.file().unwrap();
    let log = rusqlite::Connection::open(path).unwrap();
    log.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(log);
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[3], WRITE_VERSION_AT).unwrap();
    drop(file);

    // From then on the use of the session would be noted.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 100;
    let database = test.database.clone().with_clock(move || i64::try_from(now).unwrap());
    let mut store = database.store();
    let denied = store.deliver(&Untimed, ann, inbox, &mail("a@example.org", "m", 2));
    let Err(StoreError::Unavailable(cause)) = denied else { panic!("{denied:?}") };
    assert!(cause.contains("readonly"), "{cause}");
    assert!(store.session(&Untimed, &key).unwrap().is_some());
    let shown = store.message(&Untimed, ann, message).unwrap();
    assert_eq!(shown.summary.subject, "m");
    assert_eq!(counts(&mut store, ann)[0], ("Inbox".into(), 1, 1), "it stays unread");
}
