//! Mail that takes long to parse.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tamarisk_arashi::RequestKind;
use tamarisk_arashi::store::AccountClass;

use crate::web::served::{Served, inbox};

/// What does not happen within this time does not happen.
const STUCK: Duration = Duration::from_secs(60);

/// A mail of many multiparts whose boundaries are nowhere: the parser looks through the rest of it
/// for each of them.
fn long_mail() -> Vec<u8> {
    const KIND: &str = "Content-Type: multipart/mixed; boundary=";
    let mut raw = format!("{KIND}outer\r\n\r\n");
    for part in 0..250 {
        write!(raw, "--outer\r\n{KIND}missing{part}\r\n\r\ntext\r\n").unwrap();
    }
    raw.push_str("--outer\r\n\r\n");
    raw.push_str(&"-".repeat(1 << 20));
    raw.into_bytes()
}

#[test]
fn lists_are_answered_while_long_mails_are_parsed() {
    let served = Served::start();
    let ada = served.user("ada", AccountClass::Bronze, 10);
    let browser = served.logged_in("ada");
    let inbox = inbox(&mut served.store(), ada);
    let long = served.deliver(ada, &long_mail());
    let inside = || served.arashi.observe()[RequestKind::Message as usize].total().inside();
    let answered = AtomicUsize::new(0);
    // As many as there are workers.
    let readers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..readers {
            let (mut browser, answered) = (browser.clone(), &answered);
            scope.spawn(move || {
                let answer = browser.get(&format!("/message?id={}", long.0));
                if answer.status == 200 {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let began = Instant::now();
        while inside() < readers as u64 {
            assert!(began.elapsed() < STUCK, "{} are in the stage", inside());
            thread::yield_now();
        }
        let mut browser = browser.clone();
        // A request in the stage may not have come to the parser yet.
        for _ in 0..10 {
            let answer = browser.get(&format!("/list?folder={}", inbox.0));
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        assert_eq!(answered.load(Ordering::Relaxed), 0, "lists waited for the parser as well");
    });
    assert!(answered.into_inner() > 0);
}
