//! A database that another connection keeps locked, as an import or a backup does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tamarisk_arashi::RequestKind;
use tamarisk_arashi::store::{AccountClass, MessageId};

use crate::web::browser::Browser;
use crate::web::served::{Served, inbox, messages};

/// What does not happen within this time does not happen.
const STUCK: Duration = Duration::from_secs(60);

/// Locks the database of `served` until this is dropped.
fn lock(served: &Served) -> Connection {
    let path = served.database.url.strip_prefix("sqlite:").unwrap();
    let other = Connection::open(path).unwrap();
    other.busy_timeout(STUCK).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

#[test]
fn lists_are_answered_while_others_wait_to_write() {
    let served = Served::start();
    let ada = served.user("ada", AccountClass::Bronze, 40);
    let browser = served.logged_in("ada");
    let (unread, inbox) = {
        let mut store = served.store();
        let inbox = inbox(&mut store, ada);
        (messages(&mut store, ada, inbox), inbox)
    };
    let inside = || served.arashi.observe()[RequestKind::Refile as usize].total().inside();
    let other = lock(&served);
    let answered = AtomicUsize::new(0);
    // As many as there are workers.
    let writers = thread::available_parallelism().map_or(1, usize::from).min(unread.len());
    thread::scope(|scope| {
        for id in &unread[..writers] {
            let (mut browser, answered) = (browser.clone(), &answered);
            let csrf = browser.csrf();
            scope.spawn(move || {
                let form = format!("csrf={csrf}&message={}&to={}", id.0, inbox.0);
                let answer = browser.send("POST", "/refile", &form);
                answered.fetch_add(1, Ordering::Relaxed);
                assert_eq!(answer.status, 303, "{}", answer.body);
            });
        }
        let began = Instant::now();
        while inside() < writers as u64 {
            assert!(began.elapsed() < STUCK, "{} are in the stage", inside());
            thread::yield_now();
        }
        let mut browser = browser.clone();
        // From now on a page notes that the session is used, or would if it could.
        served.ahead_seconds.store(65, Ordering::Relaxed);
        // A request in the stage may not have come to the lock yet.
        for _ in 0..10 {
            let answer = browser.get(&format!("/list?folder={}", inbox.0));
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        assert_eq!(answered.load(Ordering::Relaxed), 0, "lists waited for the lock as well");
        drop(other);
    });
}

#[test]
fn changes_wait_for_five_seconds_however_many_they_are() {
    let served = Served::start();
    let ada = served.user("ada", AccountClass::Bronze, 8);
    let mut browser = served.logged_in("ada");
    let csrf = browser.csrf();
    let ids = {
        let mut store = served.store();
        let inbox = inbox(&mut store, ada);
        messages(&mut store, ada, inbox)
    };
    let _other = lock(&served);
    thread::scope(|scope| {
        for (id, path) in ids.iter().zip(["/delete", "/refile", "/create-folder"]) {
            let (mut browser, csrf) = (browser.clone(), &csrf);
            scope.spawn(move || {
                let form = format!("csrf={csrf}&message={}&to=2&name=New", id.0);
                let began = Instant::now();
                let answer = browser.send("POST", path, &form);
                assert_eq!((answer.status, answer.page()), (503, "problem"), "{}", answer.body);
                let took = began.elapsed().as_secs_f64();
                assert!(took >= 4.9, "{path}: {took} s");
                assert!(began.elapsed() < STUCK, "{path}: {took} s");
            });
        }
    });
}

#[test]
fn nothing_is_rejected_for_the_sake_of_a_lock_that_is_gone() {
    let served = Served::start();
    let ada = served.user("ada", AccountClass::Bronze, 200);
    let mut browser = served.logged_in("ada");
    let csrf = browser.csrf();
    let mut store = served.store();
    let inbox = inbox(&mut store, ada);
    let ids = messages(&mut store, ada, inbox);
    let refile = |browser: &mut Browser, id: MessageId| {
        let form = format!("csrf={csrf}&message={}&to={}", id.0, inbox.0);
        let answer = browser.send("POST", "/refile", &form);
        assert!([303, 503].contains(&answer.status), "{}", answer.body);
        (answer.status, answer.body)
    };
    let stage = || served.arashi.observe()[RequestKind::Refile as usize].total();
    // As many as there are workers, and one that finds them busy.
    let count = thread::available_parallelism().map_or(1, usize::from) + 1;
    let at_once = |locked_for: Duration| -> Vec<_> {
        let all_offered = stage().offered + count as u64;
        let other = lock(&served);
        thread::scope(|scope| {
            let sent: Vec<_> = ids[..count]
                .iter()
                .map(|id| {
                    let mut browser = browser.clone();
                    scope.spawn(move || refile(&mut browser, *id))
                })
                .collect();
            let began = Instant::now();
            while stage().offered < all_offered {
                assert!(began.elapsed() < STUCK, "{:?}", stage());
                thread::yield_now();
            }
            thread::sleep(locked_for);
            drop(other);
            sent.into_iter().map(|sent| sent.join().unwrap()).collect()
        })
    };
    for locked_for in [Duration::from_secs(4), Duration::from_secs(6)] {
        at_once(locked_for);
        for (status, body) in at_once(Duration::ZERO) {
            assert_eq!(status, 303, "after a lock of {locked_for:?}: {body}");
        }
    }
}

#[test]
fn a_message_is_shown_that_cannot_be_marked_as_read() {
    let served = Served::start();
    let ada = served.user("ada", AccountClass::Bronze, 1);
    let mut browser = served.logged_in("ada");
    let mut store = served.store();
    let inbox = inbox(&mut store, ada);
    let path = format!("/message?id={}", messages(&mut store, ada, inbox)[0].0);
    let other = lock(&served);
    let answer = browser.get(&path);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.has("Message 000 for ada"), "{}", answer.body);
    drop(other);
    assert!(browser.get("/folders").has("1 unread message"));
    assert_eq!(browser.get(&path).status, 200);
    assert!(!browser.get("/folders").has("1 unread message"));
}
