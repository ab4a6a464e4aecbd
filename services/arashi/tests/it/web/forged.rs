//! Forms that are not ours, and cookies that nobody was given.

use std::sync::atomic::Ordering;

use tamarisk_arashi::store::AccountClass;

use crate::web::browser::Browser;
use crate::web::served::{PASSWORD, Served, everything};

/// Each form that changes something, filled so that it would.
const FORMS: [(&str, &str); 7] = [
    ("/delete", "message=1"),
    ("/refile", "message=1&to=3"),
    ("/create-folder", "name=New"),
    ("/delete-folder", "folder=4"),
    ("/compose", "to=ada&subject=s&text=kept"),
    ("/password", "current=correct+horse&new=another+horse&again=another+horse"),
    ("/logout", ""),
];

#[test]
fn a_form_without_the_token_of_its_session_changes_nothing() {
    let served = Served::start();
    let ada = served.user("ada", AccountClass::Bronze, 2);
    served.user("eve", AccountClass::Bronze, 0);
    let mut browser = served.logged_in("ada");
    let csrf = browser.csrf();
    browser.post("/create-folder", &[("csrf", &csrf), ("name", "Other")]);
    let others = served.logged_in("eve").csrf();
    let before = everything(&served.database.database, ada);
    for (path, form) in FORMS {
        let shorter = &csrf[..csrf.len() - 1];
        for wrong in
            ["", shorter, &others, &format!("{csrf}0"), &csrf.to_uppercase(), "' OR '1'='1"]
        {
            let answer = browser.send("POST", path, &format!("{form}&csrf={wrong}"));
            assert_eq!(answer.status, 403, "{path} {wrong}: {}", answer.body);
        }
        assert_eq!(browser.send("POST", path, form).status, 403, "{path}");
        // The right token from another site, as the browser says.
        for (name, value) in [("Sec-Fetch-Site", "cross-site"), ("Origin", "http://example.org")] {
            let mut elsewhere = browser.clone();
            elsewhere.headers.push((name, value.to_owned()));
            let answer = elsewhere.send("POST", path, &format!("{form}&csrf={csrf}"));
            assert_eq!(answer.status, 403, "{path} {name}: {}", answer.body);
        }
        // Nothing is changed by a link.
        let answer = browser.get(&format!("{path}?{form}&csrf={csrf}"));
        assert!(
            answer.status == 405 || ["/compose", "/password"].contains(&path),
            "{path}: {}",
            answer.status
        );
    }
    assert_eq!(everything(&served.database.database, ada), before);
    assert_eq!(browser.get("/folders").status, 200, "still logged in");

    // What was written is in the form again, with the token that is right.
    let answer = browser.send("POST", "/compose", "to=bob&subject=Kept&text=Long+text&csrf=0");
    assert!(answer.has("Long text</textarea>") && answer.csrf() == csrf, "{}", answer.body);
}

#[test]
fn nobody_is_logged_in_by_another_site() {
    let served = Served::start();
    served.user("eve", AccountClass::Bronze, 0);
    let mut browser = served.browser();
    let csrf = browser.get("/login").csrf();
    let fields = [("csrf", &*csrf), ("name", "eve"), ("password", PASSWORD)];
    // Without the cookie of the form, without the field, with another's of either.
    let mut without = served.browser();
    assert_eq!(without.post("/login", &fields).status, 403);
    let other = served.browser().get("/login").csrf();
    for wrong in ["", &other, "0"] {
        let answer = browser.post("/login", &[("csrf", wrong), fields[1], fields[2]]);
        assert_eq!((answer.status, answer.page()), (403, "log-in"), "{wrong}");
    }
    let mut elsewhere = browser.clone();
    elsewhere.headers.push(("Origin", "http://example.org".into()));
    assert_eq!(elsewhere.post("/login", &fields).status, 403);
    assert_eq!(browser.post("/login", &fields).status, 303);
}

#[test]
fn cookies_that_are_forged_or_old_open_nothing() {
    let served = Served::start();
    served.user("ada", AccountClass::Bronze, 1);
    let mut browser = served.logged_in("ada");
    let key = browser.cookies["arashi"].clone();
    let asks = |key: &str| {
        let mut forged = served.browser();
        forged.cookies.insert("arashi".into(), key.into());
        for path in ["/folders", "/list?folder=1", "/message?id=1", "/search?q=a", "/compose"] {
            let answer = forged.get(path);
            assert_eq!(answer.status, 303, "{path} {key}");
            assert!(answer.location().unwrap().starts_with("/login"), "{path} {key}");
        }
        for (path, form) in FORMS {
            assert_eq!(forged.send("POST", path, form).status, 401, "{path} {key}");
        }
    };
    let flipped = if key.starts_with('0') { "1" } else { "0" };
    for forged in ["", "0", &"0".repeat(64), &format!("{flipped}{}", &key[1..]), "' OR 1=1 --"] {
        asks(forged);
    }
    // Logged out: the key is worth nothing, wherever it was kept.
    let kept = browser.clone();
    let csrf = browser.csrf();
    assert_eq!(browser.post("/logout", &[("csrf", &csrf)]).status, 303);
    asks(&kept.cookies["arashi"]);
    // Expired.
    let mut browser = served.logged_in("ada");
    assert_eq!(browser.get("/folders").status, 200);
    served.ahead_seconds.store(366 * 24 * 3600, Ordering::Relaxed);
    asks(&browser.cookies["arashi"]);
}

#[test]
fn a_log_in_ends_the_session_before_and_gives_a_new_key() {
    let served = Served::start();
    served.user("ada", AccountClass::Bronze, 0);
    let mut browser = served.logged_in("ada");
    let before = browser.clone();
    assert_eq!(browser.log_in("ada", PASSWORD).status, 303);
    assert_ne!(browser.cookies["arashi"], before.cookies["arashi"]);
    assert_eq!({ before }.get("/folders").status, 303);
    assert_eq!(browser.get("/folders").status, 200);
}

#[test]
fn passwords_cannot_be_guessed_in_numbers() {
    let served = Served::start();
    served.user("ada", AccountClass::Bronze, 0);
    served.user("bob", AccountClass::Bronze, 0);
    let mut browser = served.browser();
    for _ in 0..10 {
        assert_eq!(browser.log_in("ada", "wrong horse").status, 401);
    }
    let answer = browser.log_in("Ada", PASSWORD);
    assert_eq!(answer.status, 429, "{}", answer.body);
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=31).contains(&wait), "{wait}");
    assert!(answer.has(&format!("{wait} second")), "{}", answer.body);
    // Nor on the page that changes it, by who has found the browser.
    served.user("eve", AccountClass::Bronze, 0);
    let mut found = served.logged_in("eve");
    let csrf = found.csrf();
    let mut guess = || {
        let guess = [("csrf", &*csrf), ("current", "wrong horse"), ("new", "x"), ("again", "x")];
        found.post("/password", &guess).status
    };
    assert_eq!([(); 11].map(|()| guess())[9..], [422, 429]);
    // Others are not hit, and what succeeds does not count.
    for _ in 0..12 {
        assert_eq!(browser.log_in("bob", PASSWORD).status, 303);
    }
}

#[test]
fn pages_tell_browsers_what_not_to_do() {
    let served = Served::start();
    served.user("ada", AccountClass::Bronze, 1);
    let mut browser = served.logged_in("ada");
    let check = |browser: &mut Browser, path: &str| {
        let answer = browser.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        for rule in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'self'"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("script"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert!(!answer.has("<script") && !answer.has(" style="), "{path}");
    };
    for path in
        ["/folders", "/list?folder=1", "/message?id=1", "/compose", "/password", "/login", "/none"]
    {
        check(&mut browser, path);
    }
    assert_eq!(browser.get("/style.css").status, 200);
    assert_eq!(browser.get("/none").status, 404);
}

#[test]
fn over_tls_cookies_stay_with_tls_and_this_host() {
    let served = Served::with(|options| options.behind_tls = true);
    served.user("ada", AccountClass::Bronze, 0);
    let mut browser = served.browser();
    let csrf = browser.get("/login").csrf();
    let answer =
        browser.post("/login", &[("csrf", &csrf), ("name", "ada"), ("password", PASSWORD)]);
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-arashi="), "{cookie}");
    for attribute in ["; Secure", "; HttpOnly", "; SameSite=Lax", "; Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
}

#[test]
fn what_is_too_large_or_no_form_is_rejected() {
    let served = Served::start();
    served.user("ada", AccountClass::Bronze, 0);
    let mut browser = served.logged_in("ada");
    let csrf = browser.csrf();
    let large = format!("csrf={csrf}&to=ada&text={}", "a".repeat(5 << 20));
    assert_eq!(browser.send("POST", "/compose", &large).status, 413);
    // All forms but that of a message are short, and above all the one to log in.
    let twenty = "a".repeat(20 << 10);
    assert_eq!(browser.send("POST", "/delete", &twenty).status, 413);
    assert_eq!(served.browser().send("POST", "/login", &twenty).status, 413);
    // Every field a message of the longest number, but for the token and the longest path.
    let back = "%2Fsearch%3Fq%3D".to_owned() + &"%25F0".repeat(740);
    let full = "&message=9223372036854775807".repeat(254);
    let full = format!("csrf={csrf}&back={back}{full}");
    assert_eq!(browser.send("POST", "/delete", &full).status, 404);
    let written = format!("csrf={csrf}&to=ada&text={}", "a".repeat(1 << 20));
    assert_eq!(browser.send("POST", "/compose", &written).status, 303);
    let long = format!("csrf={csrf}&to=ada&text={}", "a".repeat((1 << 20) + 1));
    assert_eq!(browser.send("POST", "/compose", &long).status, 400);
    assert_eq!(browser.get(&format!("/search?q={}", "a".repeat(5000))).status, 414);
    assert_eq!(browser.get(&format!("/search?q={}", "a".repeat(801))).status, 400);
    let many = format!("csrf={csrf}{}", "&message=1".repeat(300));
    assert_eq!(browser.send("POST", "/delete", &many).status, 400);
    browser.headers.push(("Content-Type", "text/plain".into()));
    assert_eq!(browser.send("POST", "/delete", "").status, 415);
}
