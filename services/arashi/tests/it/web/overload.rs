//! Too many at once: rejections, shorter pages, classes, and accounts that balance.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tamarisk::{Ratio, StageObservation};
use tamarisk_arashi::store::{AccountClass, Order, SortBy, Untimed};
use tamarisk_arashi::{LeastQuality, RequestKind};

use crate::web::browser::Answer;
use crate::web::served::{Served, inbox};

/// What does not happen within this time does not happen.
const STUCK: Duration = Duration::from_secs(90);

/// Sends searches from many users at once until one of the answers is as wanted.
fn crowd(served: &Served, users: usize, wanted: impl Fn(&Answer) -> bool + Sync) -> Answer {
    let found = std::sync::Mutex::new(None);
    let done = AtomicBool::new(false);
    let browser = served.logged_in("ada");
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..users {
            let mut browser = browser.clone();
            let (found, done, wanted) = (&found, &done, &wanted);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) && began.elapsed() < STUCK {
                    let answer = browser.get("/search?q=nothing+has+this");
                    assert!(matches!(answer.status, 200 | 503 | 504), "{}", answer.body);
                    if wanted(&answer) {
                        done.store(true, Ordering::Relaxed);
                        *found.lock().unwrap() = Some(answer);
                    }
                }
            });
        }
    });
    found.into_inner().unwrap().expect("an answer as wanted")
}

/// The stages once nothing is inside of them: an answer may come before it is counted.
fn settled(served: &Served) -> Vec<StageObservation> {
    let began = Instant::now();
    loop {
        let stages = served.arashi.observe();
        assert!(stages.iter().all(|stage| stage.total().balance()), "{stages:?}");
        if stages.iter().all(|stage| stage.total().inside() == 0) {
            return stages;
        }
        assert!(began.elapsed() < STUCK, "{stages:?}");
        thread::yield_now();
    }
}

fn assert_balanced(served: &Served) {
    assert_eq!(settled(served).len(), RequestKind::ALL.len());
}

#[test]
fn what_would_be_late_is_rejected_with_an_honest_wait() {
    let served = Served::with(|options| {
        let tiny = Duration::from_millis(1);
        options.targets = options.targets.with(RequestKind::Search, tiny);
        options.least_quality = None;
    });
    served.user("ada", AccountClass::Bronze, 3000);
    let rejected = crowd(&served, 24, |answer| answer.status == 503);
    assert_eq!(rejected.page(), "rejected", "{}", rejected.body);
    let wait: u64 = rejected.header("retry-after").unwrap().parse().unwrap();
    assert!((1..60).contains(&wait), "{wait}");
    let refresh = format!(r#"<meta http-equiv="refresh" content="{wait}">"#);
    assert!(rejected.has(&refresh), "{}", rejected.body);
    assert!(rejected.has(&format!("<strong>{wait} second")), "{}", rejected.body);
    assert!(rejected.has("The search has more requests than"), "{}", rejected.body);
    assert!(rejected.has(">bronze</span>"), "{}", rejected.body);
    // All of the first may have waited for longer than 1 ms, on a machine that is slow to begin.
    crowd(&served, 24, |answer| answer.status == 200);
    // Others are answered meanwhile, or after: each kind is a stage of its own.
    assert_eq!(served.logged_in("ada").get("/folders").status, 200);
    assert_balanced(&served);
    let search = &served.arashi.observe()[RequestKind::Search as usize];
    // At the door, or out of the queue: the client is told the same.
    let total = search.total();
    assert!(total.rejected + total.dropped > 0 && total.completed > 0, "{search:?}");
}

#[test]
fn a_single_stage_admits_all_kinds() {
    let served = Served::with(|options| options.single_stage = true);
    served.user("ada", AccountClass::Bronze, 10);
    let mut browser = served.logged_in("ada");
    for path in ["/folders", "/search?q=a"] {
        assert_eq!(browser.get(path).status, 200, "{path}");
    }
    let stages = settled(&served);
    assert_eq!(stages.len(), 1, "{stages:?}");
    // The log-in among them.
    assert_eq!(stages[0].total().completed, 3, "{stages:?}");
}

#[test]
fn a_rejected_form_is_not_sent_again_automatically() {
    let served = Served::with(|options| {
        let tiny = Duration::from_millis(1);
        options.targets = options.targets.with(RequestKind::CreateFolder, tiny);
    });
    served.user("ada", AccountClass::Bronze, 0);
    let mut browser = served.logged_in("ada");
    let csrf = browser.csrf();
    let began = Instant::now();
    let rejected = std::sync::Mutex::new(None);
    let number = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..24 {
            let (mut browser, csrf, rejected) = (browser.clone(), &csrf, &rejected);
            let number = &number;
            scope.spawn(move || {
                while rejected.lock().unwrap().is_none() && began.elapsed() < STUCK {
                    let name = format!("Folder {}", number.fetch_add(1, Ordering::Relaxed));
                    let fields = [("csrf", csrf.as_str()), ("name", &name)];
                    let answer = browser.post("/create-folder", &fields);
                    if answer.status == 503 {
                        *rejected.lock().unwrap() = Some(answer);
                    }
                }
            });
        }
    });
    let rejected = rejected.into_inner().unwrap().expect("a rejection");
    assert_eq!(rejected.page(), "rejected", "{}", rejected.body);
    assert!(!rejected.has("http-equiv=\"refresh\""), "{}", rejected.body);
    assert!(rejected.has("go back and send it again"), "{}", rejected.body);
    assert!(rejected.header("retry-after").is_some());
    assert_balanced(&served);
}

#[test]
fn what_is_left_out_under_overload_is_said() {
    let served = Served::with(|options| {
        let target = Duration::from_millis(5);
        options.targets = options.targets.with(RequestKind::Search, target);
        let least = Ratio::saturating(0.2);
        options.least_quality = Some(LeastQuality { gold: Ratio::ONE, bronze: least });
    });
    served.user("ada", AccountClass::Bronze, 3000);
    let shorter = crowd(&served, 24, |answer| answer.has("data-quality"));
    assert!(shorter.has("Shortened because the service is busy: "), "{}", shorter.body);
    assert!(shorter.has(" messages a page instead of 20"), "{}", shorter.body);
    let (_, rest) = shorter.body.split_once("data-quality=\"").unwrap();
    let quality: f64 = rest.split('"').next().unwrap().parse().unwrap();
    assert!((0.19..1.0).contains(&quality), "{quality}");
    assert_balanced(&served);
}

#[test]
fn the_next_page_of_a_search_goes_back_as_far_as_the_page_before() {
    let served = Served::start();
    let ada = served.user("ada", AccountClass::Bronze, 30);
    let mut browser = served.logged_in("ada");
    let mut store = served.store();
    let inbox = inbox(&mut store, ada);
    let order = Order { by: SortBy::Author, reversed: true };
    let listed = store.list(&Untimed, ada, inbox, order, 0, 30, false).unwrap();
    // 25 of the 30 messages are of this time or later.
    let since = listed.messages[24].date_seconds;
    let next = format!("/search?q=message&first=20&sort=author&reversed=1&since={since}");
    let answer = browser.get(&next);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.has("21–25 of 25"), "{}", answer.body);
    assert!(answer.has("mail of the last "), "{}", answer.body);
    assert_eq!(answer.links("previous"), ["/search?q=message&sort=author&reversed=1"]);
    // The list has become shorter: what leads to its last page keeps the time.
    let behind = browser.get(&next.replace("first=20", "first=60"));
    assert_eq!((behind.status, behind.location()), (303, Some(next.as_str())));
    let middle = browser.get(&next.replace("first=20", "first=2"));
    let [link] = &middle.links("next")[..] else { panic!("{}", middle.body) };
    assert!(link.ends_with(&format!("&first=22&sort=author&reversed=1&since={since}")), "{link}");
    for wrong in ["-1", "x", "99999999999"] {
        assert_eq!(browser.get(&format!("/search?q=a&since={wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn the_class_of_a_request_is_that_of_its_account() {
    let served = Served::with(|options| options.class_header = Some("x-class".into()));
    served.user("ada", AccountClass::Gold, 0);
    served.user("bob", AccountClass::Bronze, 0);
    // An event ends a moment after its answer.
    let completes = |kind: RequestKind, expected: (u64, u64)| {
        let began = Instant::now();
        loop {
            let stage = &served.arashi.observe()[kind as usize];
            let of = |name: &str| {
                let class = stage.classes.iter().find(|class| class.name == name).unwrap();
                class.accounts.completed
            };
            if (of("gold"), of("bronze")) == expected {
                return;
            }
            assert!(began.elapsed() < STUCK, "{expected:?}: {stage:?}");
            thread::yield_now();
        }
    };
    let mut ada = served.logged_in("ada");
    let mut bob = served.logged_in("bob");
    ada.get("/folders");
    ada.get("/folders");
    bob.get("/folders");
    completes(RequestKind::Folders, (2, 1));
    // By whom a log-in is meant to be is known from the one before.
    completes(RequestKind::LogIn, (0, 2));
    served.logged_in("ada");
    completes(RequestKind::LogIn, (1, 2));
    // A proxy in front may know better.
    bob.headers.push(("X-Class", "gold".into()));
    bob.get("/folders");
    completes(RequestKind::Folders, (3, 1));
}
