//! What users do, without a network: each is asked for its next request, and shown an answer.

use std::collections::BTreeMap;

use crate::webmail::{Asked, PASSWORD, Webmail, status};
use http::header::COOKIE;
use http::{Response, StatusCode};
use tamarisk_arashi_load::{Accounts, REQUEST_TYPES, WebmailUsers};
use tamarisk_load::{EmulatedUser, Population, UserRequest};

fn user(number: usize, password: &str) -> Box<dyn EmulatedUser> {
    let accounts = Accounts::numbered("user", 2, password, 0.5).unwrap();
    WebmailUsers::new(accounts, 7).user(number)
}

fn ask(webmail: &mut Webmail, request: &UserRequest) -> Response<Vec<u8>> {
    let cookie = request.headers.get(COOKIE).map_or("", |cookie| cookie.to_str().unwrap());
    let body = std::str::from_utf8(&request.body).unwrap();
    let (method, path) = (&request.method, request.path.as_str());
    webmail.answer(&Asked { method, path, cookie, body })
}

/// How often which type of request followed which, in so many steps.
fn walk(user: &mut dyn EmulatedUser, messages: u32, steps: u32) -> BTreeMap<(String, String), u32> {
    let mut webmail = Webmail::with_messages(messages);
    let mut transitions = BTreeMap::new();
    let mut before = None;
    for _ in 0..steps {
        let request = user.next_request();
        let name = REQUEST_TYPES[request.request_type];
        if let Some(before) = before {
            *transitions.entry((before, name.to_owned())).or_default() += 1;
        }
        let answer = ask(&mut webmail, &request);
        let status = answer.status().as_u16();
        assert!(matches!(status, 200 | 303), "{status} for {request:?}");
        user.read(&answer).unwrap();
        before = Some(name.to_owned());
    }
    transitions
}

/// [Welsh02 fig. 46]; a login begins with its page, and from another page with logging out.
const TABLE: &[(&str, &[(&str, f64)])] = &[
    ("login-page", &[("login", 1.0)]),
    ("login", &[("list-folders", 1.0)]),
    ("list-folders", &[("list-messages", 1.0)]),
    ("log-out", &[("login-page", 1.0)]),
    ("list-messages", LIST),
    ("search", LIST),
    (
        "show-message",
        &[
            ("log-out", 0.03),
            ("list-messages", 0.58),
            ("delete", 0.18),
            ("refile", 0.2),
            ("search", 0.01),
        ],
    ),
];
const LIST: &[(&str, f64)] = &[
    ("log-out", 0.27),
    ("show-message", 0.68),
    ("delete", 0.02),
    ("refile", 0.02),
    ("search", 0.01),
];

#[test]
fn a_walk_of_100_000_steps_has_the_frequencies_of_the_table() {
    let transitions = walk(user(0, PASSWORD).as_mut(), 50, 100_000);
    for (from, row) in TABLE {
        let count = |to: &str| {
            f64::from(*transitions.get(&((*from).to_owned(), to.to_owned())).unwrap_or(&0))
        };
        let all: u32 = transitions.iter().filter(|((f, _), _)| f == from).map(|(_, n)| n).sum();
        let of_table: f64 = row.iter().map(|(to, _)| count(to)).sum();
        assert_eq!(of_table, f64::from(all), "impossible transitions from {from}: {transitions:?}");
        assert!(all > 500, "{all} from {from}");
        let term = |(to, probability): &(&str, f64)| {
            let expected = probability * f64::from(all);
            (count(to) - expected).powi(2) / expected
        };
        let chi_squared: f64 = row.iter().map(term).sum();
        // The 99.9th percentile with four degrees of freedom; rows of one have none.
        assert!(chi_squared < 18.47, "{from}: {chi_squared} {transitions:?}");
    }
    // After deleting and refiling, the page on which that was done.
    for from in ["delete", "refile"] {
        let found = transitions.keys().filter(|(before, _)| before == from);
        let back: Vec<_> = found.map(|(_, to)| to.as_str()).collect();
        let known = ["list-messages", "search", "show-message"];
        assert!(back.iter().all(|to| known.contains(to)), "{from}: {back:?}");
    }
}

#[test]
fn the_same_seed_makes_the_same_choices_and_another_user_others() {
    let first = walk(user(0, PASSWORD).as_mut(), 50, 2000);
    assert_eq!(first, walk(user(0, PASSWORD).as_mut(), 50, 2000));
    assert_ne!(first, walk(user(1, PASSWORD).as_mut(), 50, 2000));
}

#[test]
fn an_empty_folder_is_left_for_the_next_one() {
    let mut empty = user(0, PASSWORD);
    let transitions = walk(empty.as_mut(), 0, 300);
    assert!(transitions.contains_key(&("list-messages".into(), "show-message".into())));
}

#[test]
fn a_wrong_password_is_said_to_be_one() {
    let (mut user, mut webmail) = (user(0, "guessed"), Webmail::with_messages(1));
    let answer = ask(&mut webmail, &user.next_request());
    user.read(&answer).unwrap();
    let answer = ask(&mut webmail, &user.next_request());
    assert_eq!(user.read(&answer), Err("wrong name or password"));
}

#[test]
fn a_rejected_user_logs_in_as_if_it_had_never_been_there() {
    let (mut user, mut webmail) = (user(0, PASSWORD), Webmail::with_messages(5));
    for _ in 0..4 {
        let answer = ask(&mut webmail, &user.next_request());
        user.read(&answer).unwrap();
    }
    assert!(user.next_request().headers.contains_key(COOKIE));
    user.begin_again();
    let request = user.next_request();
    assert_eq!((request.path.as_str(), request.headers.get(COOKIE)), ("/login", None));
}

/// What becomes of the page with the login form if it is `html`.
fn check(html: &str, expected: &'static str) {
    let mut user = user(0, PASSWORD);
    user.next_request();
    let answer = Response::new(html.as_bytes().to_vec());
    assert_eq!(user.read(&answer), Err(expected), "{html:?}");
}

#[test]
fn a_page_without_its_marks_is_no_use() {
    let not_arashi =
        "not a page of Arashi: the body has no data-page (is the URL that of `tamarisk mail`?)";
    check("", not_arashi);
    check("<h1>It works!</h1>", not_arashi);
    check("\u{0}\u{fffd}<body data-page", not_arashi);
    check("<body data-page=list>", "another page came than was asked for");
    check("<body data-page=log-in><form>", "no form `log-in` in the login page");
    let away = "<body data-page=log-in><form data-go=log-in action='http://elsewhere/'>";
    check(away, "a link or form leads to no valid path");
}

#[test]
fn a_status_that_says_enough_is_left_to_speak() {
    let mut user = user(0, PASSWORD);
    user.next_request();
    assert_eq!(user.read(&status(StatusCode::NOT_FOUND)), Ok(()));
}
