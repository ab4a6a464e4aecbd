//! Log-ins that fail in numbers: whom they lock out, and whom they do not.

use std::time::{Duration, Instant};

use tamarisk_arashi::store::{AccountClass, Database};

use crate::support::{Kind, TestDatabase};
use crate::web::browser::Browser;
use crate::web::served::{PASSWORD, Served};

/// What does not happen within this time does not happen.
const STUCK: Duration = Duration::from_secs(180);

/// Fails log-ins by `fails` until no more are allowed. One is forgotten after a time: on a slow
/// machine it takes more of them.
fn fail_until_locked(mut fails: impl FnMut(usize) -> u16) {
    let began = Instant::now();
    for guess in 0.. {
        assert!(began.elapsed() < STUCK, "{guess} failed");
        match fails(guess) {
            401 => {}
            429 => return,
            other => panic!("{other}"),
        }
    }
}

fn lock_out(browser: &mut Browser, name: &str) {
    fail_until_locked(|_| browser.log_in(name, "wrong horse").status);
}

/// Whether this log-in is kept out while others have failed as often as `lock` makes them.
fn is_kept_out(lock: impl Fn(), log_in: impl Fn() -> u16) -> bool {
    // One may be forgotten between the two.
    (0..5).any(|_| {
        lock();
        log_in() == 429
    })
}

/// A user who logged in before is not kept from it by others; nor after a restart of the service.
fn a_known_browser_logs_in_while_its_account_is_locked(database: TestDatabase) {
    let served = Served::on(database, |_| {});
    served.user("ada", AccountClass::Bronze, 0);
    served.user("bob", AccountClass::Bronze, 0);
    let mut known = served.logged_in("ada");
    let cookie = known.cookies["arashi-device"].clone();
    let lock = |served: &Served, name: &str| lock_out(&mut served.browser(), name);
    assert!(is_kept_out(
        || lock(&served, "ada"),
        || served.browser().log_in("ada", PASSWORD).status
    ));
    lock(&served, "ada");
    // With the device cookie alone, as after the session has ended.
    known.cookies.retain(|name, _| name == "arashi-device");
    assert_eq!(known.log_in("ada", PASSWORD).status, 303);

    // The cookie is of this account and this service alone, and logs nobody in.
    let with = |served: &Served, cookie: &str| {
        let mut browser = served.browser();
        browser.cookies.insert("arashi-device".into(), cookie.into());
        browser
    };
    assert_eq!(with(&served, &cookie).get("/folders").status, 303);
    let kept_out = |name: &str, cookie: &str| {
        is_kept_out(|| lock(&served, name), || with(&served, cookie).log_in(name, PASSWORD).status)
    };
    assert!(kept_out("bob", &cookie));
    let (front, digit) = cookie.split_at(cookie.len() - 1);
    let flipped = if digit == "0" { "1" } else { "0" };
    assert!(kept_out("ada", &format!("{front}{flipped}")));

    // Another process with the same database.
    let again = Served::with(|options| {
        options.database = Database::at(&served.database.url).unwrap();
    });
    lock(&again, "ada");
    assert_eq!(with(&again, &cookie).log_in("ada", PASSWORD).status, 303);

    // Who has found the browser cannot guess without end.
    let mut found = with(&again, &cookie);
    lock_out(&mut found, "ada");
}

#[test]
fn a_known_browser_logs_in_while_its_account_is_locked_on_sqlite() {
    a_known_browser_logs_in_while_its_account_is_locked(TestDatabase::sqlite());
}

#[test]
fn a_known_browser_logs_in_while_its_account_is_locked_on_postgres() {
    a_known_browser_logs_in_while_its_account_is_locked(TestDatabase::of(Kind::Postgres));
}

#[test]
fn a_known_browser_logs_in_while_its_account_is_locked_on_mariadb() {
    a_known_browser_logs_in_while_its_account_is_locked(TestDatabase::of(Kind::Mariadb));
}

#[test]
fn two_users_of_one_browser_are_both_known_and_its_cookie_is_safe() {
    let served = Served::with(|options| options.behind_tls = true);
    let mut browser = served.browser();
    // Names that hexadecimal digits cannot spell.
    let names = ["zoe", "yin"];
    for name in names {
        served.user(name, AccountClass::Bronze, 0);
        let answer = browser.log_in(name, PASSWORD);
        assert_eq!(answer.status, 303, "{}", answer.body);
        let set = answer.headers("set-cookie");
        let device = set.iter().find(|cookie| cookie.starts_with("__Host-arashi-device="));
        let device = device.unwrap_or_else(|| panic!("{set:?}"));
        for attribute in ["; Secure", "; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age="] {
            assert!(device.contains(attribute), "{device}");
        }
        assert!(!device.contains(name), "{device}");
    }
    for name in names {
        lock_out(&mut served.browser(), name);
        assert_eq!(browser.log_in(name, PASSWORD).status, 303);
    }
}

/// A client of a proxy guesses until it is locked out. Whether another client of it is kept out,
/// who knows his password.
fn others_are_kept_out(served: &Served) -> bool {
    served.user("ada", AccountClass::Bronze, 0);
    let by_proxy = |client: &str| {
        let mut browser = served.browser();
        browser.headers.push(("X-Forwarded-For", format!("203.0.113.99, {client}")));
        browser
    };
    let lock = || {
        let guess = |guess| by_proxy("192.0.2.66").log_in(&format!("user{guess}"), "wrong").status;
        fail_until_locked(guess);
    };
    is_kept_out(lock, || by_proxy("192.0.2.1").log_in("ada", PASSWORD).status)
}

#[test]
fn behind_a_trusted_proxy_only_the_client_that_guesses_is_locked_out() {
    let served = Served::with(|options| {
        options.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    assert!(!others_are_kept_out(&served));
}

#[test]
fn an_untrusted_peer_cannot_name_its_client() {
    let served = Served::with(|options| {
        options.trusted_proxies = vec!["198.51.100.0/24".parse().unwrap()];
    });
    assert!(others_are_kept_out(&served));
}
