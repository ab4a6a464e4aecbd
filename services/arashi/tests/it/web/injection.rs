//! SQL and HTML in every field: text stays text.

use tamarisk_arashi::store::AccountClass;

use crate::web::served::{PASSWORD, Served, everything};

const TEXTS: [&str; 7] = [
    "'; DROP TABLE messages; --",
    "' OR '1'='1",
    "\" onfocus=\"alert(1)\" x=\"",
    "</textarea><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "%' OR 1=1) --",
    "a\u{0}b\u{202e}c\\",
];

/// Whether HTML of a text got into a page as HTML.
fn is_injected(body: &str) -> bool {
    let tags = body.split('<').map(|rest| rest.split('>').next().unwrap_or(rest));
    let mut tags = tags.map(str::to_lowercase);
    tags.any(|tag| tag.starts_with("script") || tag.starts_with("img"))
        || body.contains("\" onfocus=\"")
}

#[test]
fn texts_in_fields_stay_texts() {
    let served = Served::start();
    let ada = served.user("ada", AccountClass::Bronze, 10);
    let bob = served.user("bob", AccountClass::Bronze, 3);
    let mut browser = served.logged_in("ada");
    let csrf = browser.csrf();
    let before = everything(&served.database.database, bob);
    for (number, text) in (1..).zip(TEXTS) {
        let own = i64::to_string(&number);
        let encoded: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
        for path in ["/list?folder=", "/message?id=", "/attachment?part=0&id=", "/compose?reply="] {
            let answer = browser.get(&format!("{path}{encoded}"));
            assert_eq!(answer.status, 400, "{path} {text}");
            assert!(!is_injected(&answer.body), "{}", answer.body);
        }
        for path in ["/list?folder=1&sort=", "/list?folder=1&first=", "/search?q=a&folder="] {
            assert_eq!(browser.get(&format!("{path}{encoded}")).status, 400, "{path} {text}");
        }
        let found = browser.get(&format!("/search?q={encoded}"));
        assert_eq!((found.status, found.links("message").len()), (200, 0), "{text}");
        assert!(!is_injected(&found.body), "{}", found.body);

        for (path, field) in
            [("/delete", "message"), ("/refile", "to"), ("/delete-folder", "folder")]
        {
            let answer = browser.post(path, &[("csrf", &csrf), (field, text)]);
            assert_eq!(answer.status, 400, "{path} {text}");
        }
        let answer = browser.post("/create-folder", &[("csrf", &csrf), ("name", text)]);
        assert!(matches!(answer.status, 303 | 422), "{text}: {}", answer.body);
        let back = browser.post("/delete", &[("csrf", &csrf), ("message", &own), ("back", text)]);
        assert!(matches!(back.location(), Some(path) if path.starts_with("/folders")), "{text}");

        let fields = [("csrf", &*csrf), ("to", text), ("subject", text), ("text", text)];
        let answer = browser.post("/compose", &fields);
        assert_eq!(answer.status, 422, "{text}");
        assert!(!is_injected(&answer.body), "{}", answer.body);
        let fields = [("csrf", &*csrf), ("to", "ada"), ("subject", text), ("text", text)];
        assert_eq!(browser.post("/compose", &fields).status, 303, "{text}");

        let mut other = served.browser();
        let form = other.get(&format!("/login?next={encoded}"));
        assert!(!is_injected(&form.body) && !form.has("name=\"next\""), "{}", form.body);
        let fields = [("csrf", &*form.csrf()), ("name", text), ("password", text)];
        let answer = other.post("/login", &fields);
        assert_eq!(answer.status, 401, "{text}");
        assert!(!is_injected(&answer.body), "{}", answer.body);
    }
    // What was written, in all lists and messages.
    for link in browser.get("/folders").links("folder") {
        let list = browser.get(&link);
        assert!(!is_injected(&list.body), "{}", list.body);
        for link in list.links("message") {
            let message = browser.get(&link);
            assert_eq!(message.status, 200);
            assert!(!is_injected(&message.body), "{}", message.body);
            let reply = browser.get(&message.links("reply")[0]);
            assert!(reply.status == 200 && !is_injected(&reply.body), "{}", reply.body);
        }
    }
    assert_eq!(everything(&served.database.database, bob), before);
    assert!(everything(&served.database.database, ada).contains("DROP TABLE"), "kept as a name");
    assert_eq!(served.logged_in("bob").log_in("bob", PASSWORD).status, 303);
}
