//! The digest: what its page in PyTeC shows, and what happens when that or Python is broken.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tamarisk::Ratio;
use tamarisk_arashi::mail::new_message;
use tamarisk_arashi::store::{AccountClass, FolderKind, Untimed, UserId};
use tamarisk_arashi::{Arashi, LeastQuality, OpenError, Options, RequestKind};

use crate::support::{Folder, TestDatabase};
use crate::web::browser::{Answer, Browser};
use crate::web::served::{Served, folder, inbox};

/// What does not happen within this time does not happen.
const STUCK: Duration = Duration::from_secs(90);
/// The longest that Python may work on a digest.
const PAGE_TIME: Duration = Duration::from_secs(5);
const DAY: i64 = 24 * 3600;

fn now() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since_1970.as_secs()).unwrap()
}

/// Mail without a date: it is of when it came.
fn deliver(served: &Served, user: UserId, kind: FolderKind, at: i64, from: &str, subject: &str) {
    let raw = format!("From: {from}\r\nSubject: {subject}\r\n\r\nText of <{subject}>.\r\n");
    let mut store = served.store();
    let folder = folder(&mut store, user, kind);
    store.deliver(&Untimed, user, folder, &new_message(raw.into_bytes(), at)).unwrap();
}

/// The rows of a table, as text with a bar between the cells.
fn rows(answer: &Answer, heading: &str) -> Vec<String> {
    let (_, rest) = answer.body.split_once(heading).unwrap_or_else(|| panic!("{}", answer.body));
    let (_, rest) = rest.split_once("<tbody>").unwrap();
    let table = rest.split("</tbody>").next().unwrap();
    let rows = table.split("<tr>").skip(1).map(|row| {
        let cells = row.split("<td").skip(1).map(|cell| {
            let mut text = String::new();
            for piece in cell.split_inclusive('>').skip(1) {
                text.push_str(piece.split('<').next().unwrap());
                text.push(' ');
            }
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        cells.collect::<Vec<_>>().join(" | ")
    });
    rows.collect()
}

#[test]
fn mail_is_digested_by_thread_and_by_day_and_author() {
    let served = Served::start();
    let ada = served.user("ada", AccountClass::Bronze, 0);
    let (today, inbox) = (now(), FolderKind::Inbox);
    let bob = "Bob B <bob@example.org>";
    deliver(&served, ada, inbox, today - 2 * DAY, bob, "Storm");
    deliver(&served, ada, inbox, today - 2 * DAY + 1, "eve@example.org", "RE: storm");
    deliver(&served, ada, inbox, today - 2 * DAY + 2, bob, "Re: Fwd: Storm");
    deliver(&served, ada, inbox, today - 2 * DAY + 3, bob, "Lunch");
    // "re:" in a word is no mark of an answer.
    let software = "Software: new release";
    deliver(&served, ada, FolderKind::Sent, today - 3 * DAY, "ada@example.org", software);
    deliver(&served, ada, FolderKind::Sent, today - 4 * DAY, "ada@example.org", "Report");
    deliver(&served, ada, inbox, today - 20 * DAY, bob, "Old storm");
    let mut browser = served.logged_in("ada");
    let link = browser.get("/folders").links("digest")[0].clone();
    let digest = browser.get(&link);
    assert_eq!((digest.status, digest.page()), (200, "digest"), "{}", digest.body);
    assert!(digest.has("6 messages of the last 7 days,\nby 3 authors"), "{}", digest.body);
    assert_eq!(
        rows(&digest, "The most frequent subjects"),
        [
            "Storm Text of &lt;Re: Fwd: Storm&gt;. | Bob B, eve@example.org | 3",
            "Lunch Text of &lt;Lunch&gt;. | Bob B | 1",
            "Software: new release Text of &lt;Software: new release&gt;. | ada@example.org | 1",
            "Report Text of &lt;Report&gt;. | ada@example.org | 1",
        ]
    );
    let days: Vec<_> = digest.body.split("data-day=\"").skip(1).collect();
    assert_eq!(days.len(), 3, "{}", digest.body);
    assert_eq!(
        rows(&digest, "data-day=\""),
        [
            "Bob B | 3 | Lunch Text of &lt;Lunch&gt;.",
            "eve@example.org | 1 | RE: storm Text of &lt;RE: storm&gt;.",
        ]
    );
    // What is linked is the latest message.
    let message = browser.get(&digest.links("message")[0]);
    assert_eq!((message.page(), message.has("<h1>Re: Fwd: Storm</h1>")), ("message", true));
    // The same page as all others.
    for name in ["content-security-policy", "cache-control", "x-content-type-options"] {
        assert_eq!(digest.header(name), message.header(name), "{name}");
    }
    assert!(digest.has("Logged in as <strong>ada</strong>") && !digest.has("<script"));

    // Of what a search finds, in a folder, in other days.
    let search = browser.get("/search?q=storm");
    let found = browser.get(search.links("digest").last().unwrap());
    assert!(found.has("3 messages of the last 7 days") && found.has(r#"value="storm""#));
    assert!(browser.get("/digest?q=storm&days=30").has("4 messages of the last 30 days"));
    assert!(browser.get("/digest?days=1").has("There is no such mail."));
    let mut store = served.store();
    let sent = folder(&mut store, ada, FolderKind::Sent).0;
    let in_sent = browser.get(&format!("/digest?folder={sent}"));
    assert_eq!(rows(&in_sent, "The most frequent subjects").len(), 2, "{}", in_sent.body);
    assert!(in_sent.has(&format!(r#"<option value="{sent}" selected>Sent</option>"#)));
    for wrong in ["days=0", "days=400", "days=x", "folder=x"] {
        assert_eq!(browser.get(&format!("/digest?{wrong}")).status, 400, "{wrong}");
    }
    let answer = served.browser().get("/digest?q=a");
    assert_eq!(answer.location(), Some("/login?next=%2Fdigest%3Fq%3Da"));
}

#[test]
fn nothing_in_mail_becomes_html_of_the_digest() {
    let served = Served::start();
    let ada = served.user("ada", AccountClass::Bronze, 0);
    let attacks = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onfocus=alert(1) '",
        "{id} {0} {text.__class__} %s <%= 1 %>",
        "</table></main>",
    ];
    for attack in attacks {
        deliver(&served, ada, FolderKind::Inbox, now(), attack, attack);
        let from = format!("\"{}\" <a@example.org>", attack.replace('"', "'"));
        deliver(&served, ada, FolderKind::Inbox, now(), &from, "Subject");
    }
    // Dates that no calendar has.
    for seconds in [i64::MAX, 1 << 40] {
        let mut store = served.store();
        let folder = inbox(&mut store, ada);
        let mut mail = new_message(b"From: a@example.org\r\n\r\n\r\n".to_vec(), 0);
        mail.date_seconds = seconds;
        store.deliver(&Untimed, ada, folder, &mail).unwrap();
    }
    let mut store = served.store();
    store.create_folder(&Untimed, ada, "<b>\"Folder\"").unwrap();
    let mut browser = served.logged_in("ada");
    let digest = browser.get("/digest?q=&days=365");
    assert_eq!(digest.status, 200, "{}", digest.body);
    for attack in ["<script", "<img", "<b>", "</table></main>", "' onfocus"] {
        assert!(!digest.has(attack), "{attack}: {}", digest.body);
    }
    assert!(digest.has("&lt;script&gt;alert(1)&lt;/script&gt;"), "{}", digest.body);
    assert!(digest.has("{id} {0} {text.__class__} %s &lt;%= 1 %&gt;"), "{}", digest.body);
    assert!(digest.has("&lt;b&gt;&quot;Folder&quot;") && digest.has("No date"));
    for attack in attacks {
        let text: String = form_urlencoded::byte_serialize(attack.as_bytes()).collect();
        let digest = browser.get(&format!("/digest?q={text}"));
        assert_eq!(digest.status, 200, "{}", digest.body);
        let unsafe_tags = ["<script", "<img", "' onfocus", "\"><"];
        let main = digest.body.split("<main").nth(1).unwrap();
        assert!(unsafe_tags[..3].iter().all(|tag| !main.contains(tag)), "{main}");
    }
}

#[test]
fn a_digest_of_another_users_folder_is_not_found() {
    let served = Served::start();
    let olga = served.user("olga", AccountClass::Bronze, 3);
    served.user("eve", AccountClass::Bronze, 0);
    let foreign = inbox(&mut served.store(), olga).0;
    let mut browser = served.logged_in("eve");
    for folder in [foreign, i64::MAX, -1] {
        let answer = browser.get(&format!("/digest?folder={folder}&days=365"));
        assert_eq!(answer.status, 404, "{}", answer.body);
        // No digits of a token make this name, as they make "ada".
        assert!(!answer.has("olga") && !answer.has("Message 00"), "{}", answer.body);
    }
    assert!(browser.get("/digest?days=365").has("There is no such mail."));
}

/// Other pages are answered.
fn assert_rest_goes_on(browser: &mut Browser) {
    for path in ["/folders", "/search?q=message", "/compose"] {
        assert_eq!(browser.get(path).status, 200, "{path}");
    }
}

#[test]
fn without_python_everything_but_digests_goes_on() {
    let served = Served::with(|options| options.python = PathBuf::from("/nonexistent/python3"));
    served.user("ada", AccountClass::Bronze, 3);
    let mut browser = served.logged_in("ada");
    for _ in 0..3 {
        let answer = browser.get("/digest");
        assert_eq!((answer.status, answer.page()), (500, "problem"), "{}", answer.body);
        assert!(answer.has("There is no digest"), "{}", answer.body);
        assert!(answer.has("Logged in as <strong>ada</strong>"), "{}", answer.body);
        assert!(!answer.has("nonexistent"), "the cause is for the log: {}", answer.body);
    }
    assert_rest_goes_on(&mut browser);
    let digest = &served.arashi.observe()[RequestKind::Digest as usize];
    assert!(digest.total().failed >= 2, "{digest:?}");
}

#[test]
fn a_page_of_an_operator_that_breaks_or_overruns_is_answered() {
    let place = Folder::new();
    let file = place.path().join("mine.pytec");
    let text = "<%pytec\n    text = req.values[\"text\"]\n    if text == \"hang\":\n\
                \x20       while True: pass\n    if text == \"die\":\n        import os\n\
                \x20       os._exit(3)\n    if text == \"break\":\n        1 / 0\n%>Mine: <%= text %>.";
    std::fs::write(&file, text).unwrap();
    let served = Served::with(|options| options.digest_page = Some(file));
    served.user("ada", AccountClass::Bronze, 3);
    let browser = served.logged_in("ada");
    let get = |path: &str| browser.clone().get(path);
    assert!(get("/digest?q=%3Ca%3E").has("Mine: &lt;a&gt;."));
    for path in ["/digest?q=break", "/digest?q=die"] {
        let answer = get(path);
        assert_eq!((answer.status, answer.page()), (500, "problem"), "{}", answer.body);
        assert!(answer.has("There is no digest") && !answer.has("ZeroDivision"));
    }
    let began = Instant::now();
    let hanging = std::thread::scope(|scope| {
        let hanging = scope.spawn(|| get("/digest?q=hang"));
        let digest = || served.arashi.observe()[RequestKind::Digest as usize].total().running;
        while digest() == 0 && began.elapsed() < PAGE_TIME {
            std::thread::yield_now();
        }
        assert_rest_goes_on(&mut browser.clone());
        hanging.join().unwrap()
    });
    assert_eq!((hanging.status, hanging.page()), (504, "problem"), "{}", hanging.body);
    assert!(hanging.has("The digest was stopped"), "{}", hanging.body);
    assert!(began.elapsed() >= PAGE_TIME && began.elapsed() < STUCK, "{:?}", began.elapsed());
    assert!(get("/digest?q=again").has("Mine: again."), "by a new process");
}

#[test]
fn a_page_that_cannot_be_read_is_told_at_the_start() {
    let database = TestDatabase::sqlite();
    let mut options = Options::new(database.database.clone());
    options.digest_page = Some(PathBuf::from("/nonexistent/digest.pytec"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let opened = Arashi::open(options);
    assert!(matches!(opened, Err(OpenError::DigestPage { .. })), "{:?}", opened.err());
}

#[test]
fn a_degraded_digest_has_fewer_messages_and_says_so() {
    let served = Served::with(|options| {
        let target = Duration::from_millis(20);
        options.targets = options.targets.with(RequestKind::Digest, target);
        let least = Ratio::saturating(0.1);
        options.least_quality = Some(LeastQuality { gold: Ratio::ONE, bronze: least });
    });
    let ada = served.user("ada", AccountClass::Bronze, 0);
    let mut store = served.store();
    let inbox = inbox(&mut store, ada);
    let mut mails = (0..600).map(|number| {
        let raw = format!("From: a{number}@example.org\r\nSubject: S{number}\r\n\r\nText\r\n");
        new_message(raw.into_bytes(), now())
    });
    store.deliver_all(&Untimed, ada, inbox, &mut mails).unwrap();
    let browser = served.logged_in("ada");
    let full = browser.clone().get("/digest");
    assert!(full.has("600 messages of the last 7 days"), "{}", full.body);
    let began = Instant::now();
    let found = std::sync::Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            let (mut browser, found) = (browser.clone(), &found);
            scope.spawn(move || {
                while found.lock().unwrap().is_none() && began.elapsed() < STUCK {
                    let answer = browser.get("/digest");
                    assert!(matches!(answer.status, 200 | 503 | 504), "{}", answer.body);
                    if answer.has("data-quality") && !answer.has("class=\"snippet\"") {
                        *found.lock().unwrap() = Some(answer);
                    }
                }
            });
        }
    });
    let shorter = found.into_inner().unwrap().expect("a degraded digest");
    assert!(shorter.has(" messages digested instead of 500"), "{}", shorter.body);
    assert!(shorter.has("no beginnings of texts"), "{}", shorter.body);
    assert!(shorter.has("are digested, of 600 messages that were found"), "{}", shorter.body);
}
