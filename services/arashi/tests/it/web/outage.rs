//! A database that is away: pages say so, and are back when it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tamarisk_arashi::store::{AccountClass, Database, FolderKind};

use crate::support::{Folder, Kind, Server, TestDatabase};
use crate::web::served::{PASSWORD, Served, folder, inbox, messages};

/// What does not happen within this time does not happen.
const STUCK: Duration = Duration::from_secs(60);

#[test]
fn pages_say_that_the_database_is_away_and_recover() {
    let place = Folder::new();
    let (folder, away) = (place.path().join("mail"), place.path().join("away"));
    let file = folder.join("mail.db");
    let database = Database::at(&format!("sqlite:{}", file.display())).unwrap();
    // A file where the folder should be: it cannot be opened.
    std::fs::write(&folder, "").unwrap();
    let served = Served::with(|options| options.database = database.clone());

    let mut browser = served.browser();
    let form = browser.get("/login");
    assert_eq!(form.status, 200, "the page to log in needs no database");
    let fields = [("csrf", &*form.csrf()), ("name", "ada"), ("password", PASSWORD)];
    let answer = browser.post("/login", &fields);
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.has("Mail is not available") && !answer.has("http-equiv=\"refresh\""));
    assert!(answer.header("retry-after").is_some());

    browser.cookies.insert("arashi".into(), "0".repeat(64));
    let answer = browser.get("/folders");
    assert_eq!((answer.status, answer.page()), (503, "problem"), "{}", answer.body);
    assert!(answer.has("http-equiv=\"refresh\"") && answer.has("searches and writing need it"));
    assert!(!answer.has(&file.to_string_lossy()), "where it lies is nobody's business");

    std::fs::rename(&folder, &away).unwrap();
    let began = Instant::now();
    let mut store = loop {
        match database.connect() {
            Ok(store) => break store,
            Err(error) => assert!(began.elapsed() < STUCK, "{error}"),
        }
    };
    let untimed = &tamarisk_arashi::store::Untimed;
    store.create_account(untimed, "ada", PASSWORD, AccountClass::Bronze).unwrap();
    loop {
        let answer = browser.post("/login", &fields);
        if answer.status == 303 {
            break;
        }
        assert!(answer.status == 503 && began.elapsed() < STUCK, "{}", answer.body);
    }
    assert_eq!(browser.get("/folders").status, 200);
    let failed: u64 = served.arashi.observe().iter().map(|stage| stage.total().failed).sum();
    assert!(failed >= 2, "an outage counts as failures");
}

/// The server is killed under a user who is logged in, and started again.
fn survives(kind: Kind) {
    let server = Arc::new(Server::start(kind));
    let served = Served::on(TestDatabase::on(&server), |_| {});
    served.user("ada", AccountClass::Bronze, 3);
    let mut browser = served.logged_in("ada");
    let csrf = browser.csrf();
    server.kill();
    for path in ["/folders", "/list?folder=1", "/message?id=1", "/search?q=a", "/compose"] {
        // A process of PostgreSQL may live a moment longer than the server.
        let began = Instant::now();
        let answer = loop {
            let answer = browser.get(path);
            if answer.status != 200 || began.elapsed() > STUCK {
                break answer;
            }
        };
        assert_eq!(answer.status, 503, "{path}: {}", answer.body);
        assert!(answer.has("Mail is not available"), "{path}: {}", answer.body);
    }
    assert_eq!(browser.send("POST", "/delete", &format!("csrf={csrf}&message=1")).status, 503);
    server.restart();
    let began = Instant::now();
    let folders = loop {
        let answer = browser.get("/folders");
        if answer.status == 200 {
            break answer;
        }
        assert!(answer.status == 503 && began.elapsed() < STUCK, "{}", answer.body);
    };
    assert!(folders.has("3 unread messages"), "still logged in, nothing deleted: {}", folders.body);
}

#[test]
fn a_session_survives_a_restart_of_postgres() {
    survives(Kind::Postgres);
}

#[test]
fn a_session_survives_a_restart_of_mariadb() {
    survives(Kind::Mariadb);
}

/// The server is killed while messages are moved, and started again: what has been acknowledged
/// stays, and every request is answered.
fn loses_nothing_under_load(kind: Kind) {
    const MESSAGES: usize = 200;
    const CLIENTS: usize = 4;
    let server = Arc::new(Server::start(kind));
    let served = Served::on(TestDatabase::on(&server), |_| {});
    let ada = served.user("ada", AccountClass::Bronze, MESSAGES);
    let mut browser = served.logged_in("ada");
    let csrf = browser.csrf();
    let (ids, trash) = {
        let mut store = served.store();
        let inbox = inbox(&mut store, ada);
        (messages(&mut store, ada, inbox), folder(&mut store, ada, FolderKind::Trash))
    };
    let (acknowledged, turned_away) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_killed = AtomicBool::new(false);
    let began = Instant::now();
    let until = |enough: &dyn Fn() -> bool| {
        while !enough() {
            assert!(began.elapsed() < STUCK, "{acknowledged:?} {turned_away:?}");
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        for ids in ids.chunks(MESSAGES / CLIENTS) {
            let (mut browser, csrf) = (browser.clone(), &csrf);
            let (acknowledged, turned_away) = (&acknowledged, &turned_away);
            let (is_killed, until) = (&is_killed, &until);
            scope.spawn(move || {
                for (index, id) in ids.iter().enumerate() {
                    if index == ids.len() / 2 {
                        // All may be moved before the signal has arrived.
                        until(&|| is_killed.load(Ordering::Relaxed));
                    }
                    let form = format!("csrf={csrf}&message={}&to={}", id.0, trash.0);
                    // Never again once it is acknowledged.
                    loop {
                        let answer = browser.send("POST", "/refile", &form);
                        if answer.status == 303 {
                            acknowledged.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                        assert_eq!(answer.status, 503, "{}", answer.body);
                        assert!(began.elapsed() < STUCK, "{}", answer.body);
                        turned_away.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        until(&|| acknowledged.load(Ordering::Relaxed) >= MESSAGES / 10);
        server.kill();
        is_killed.store(true, Ordering::Relaxed);
        until(&|| turned_away.load(Ordering::Relaxed) > 0);
        server.restart();
    });
    let mut moved = messages(&mut served.store(), ada, trash);
    moved.sort_by_key(|id| id.0);
    let mut all = ids;
    all.sort_by_key(|id| id.0);
    assert_eq!(moved, all, "each was acknowledged once");
    assert!(served.arashi.observe().iter().all(|stage| stage.total().balance()));
}

#[test]
fn postgres_killed_under_load_loses_nothing() {
    loses_nothing_under_load(Kind::Postgres);
}

#[test]
fn mariadb_killed_under_load_loses_nothing() {
    loses_nothing_under_load(Kind::Mariadb);
}
