//! What a user does in a day, on each kind of database.

use tamarisk_arashi::store::AccountClass;

use crate::web::served::{PASSWORD, Served};

/// Makes a test of each function on each kind of database.
macro_rules! on_each_database {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $test() { super::$test(&super::Served::start()); })+
        }
        on_each_database! { in_module postgres Postgres $($test),+ }
        on_each_database! { in_module mariadb Mariadb $($test),+ }
    };
    (in_module $module:ident $kind:ident $($test:ident),+) => {
        mod $module {
            use crate::support::{Kind, TestDatabase};
            $(#[test] fn $test() {
                super::$test(&super::Served::on(TestDatabase::of(Kind::$kind), |_| {}));
            })+
        }
    };
}
on_each_database! {
    a_user_logs_in_reads_and_logs_out,
    lists_are_sorted_by_their_heads,
    messages_are_searched_moved_and_deleted,
    users_write_to_one_another,
    an_answer_is_not_lost_when_its_original_is_gone,
    a_subject_that_is_too_long_is_not_cut,
    a_password_is_changed,
    attachments_are_saved_and_never_shown,
}

fn a_password_is_changed(served: &Served) {
    const NEW: &str = "wrong horse, right stable";
    served.user("ada", AccountClass::Gold, 1);
    let (mut browser, mut elsewhere) = (served.logged_in("ada"), served.logged_in("ada"));
    let form = browser.get("/password");
    assert_eq!((form.status, form.page()), (200, "password"));
    let csrf = form.csrf();
    let mut change = |current: &str, new: &str, again: &str| {
        let fields = [("csrf", &*csrf), ("current", current), ("new", new), ("again", again)];
        browser.post("/password", &fields)
    };
    for (current, new, again, trouble) in [
        ("wrong horse", NEW, NEW, "The current password is wrong."),
        (PASSWORD, NEW, "wrong horse", "The two new passwords differ."),
        (PASSWORD, "short", "short", "The new password must be 8 to 1024 bytes."),
    ] {
        let rejected = change(current, new, again);
        assert_eq!((rejected.status, rejected.page()), (422, "password"), "{}", rejected.body);
        assert!(rejected.has(trouble), "{trouble}: {}", rejected.body);
    }
    assert_eq!(elsewhere.get("/folders").status, 200, "nothing was changed");

    let changed = change(PASSWORD, NEW, NEW);
    assert!(browser.follow(&changed).has("The password is changed."), "{}", changed.body);
    assert_eq!(browser.get("/folders").status, 200);
    assert_eq!(elsewhere.get("/folders").status, 303);
    assert_eq!(served.browser().log_in("ada", PASSWORD).status, 401);
    assert_eq!(served.browser().log_in("ada", NEW).status, 303);
}

fn a_user_logs_in_reads_and_logs_out(served: &Served) {
    served.user("ada", AccountClass::Gold, 45);
    let mut browser = served.browser();

    // Nothing without a log-in; where one wanted to go is remembered.
    let answer = browser.get("/list?folder=1");
    assert_eq!(answer.location(), Some("/login?next=%2Flist%3Ffolder%3D1"));
    let form = browser.follow(&answer);
    assert_eq!((form.status, form.page()), (200, "log-in"));
    assert!(form.has(r#"name="next" value="/list?folder=1""#), "{}", form.body);
    assert_eq!(browser.log_in("ada", "wrong horse").status, 401);
    assert_eq!(browser.log_in("nobody", PASSWORD).status, 401);
    let answer = browser.log_in("ada", PASSWORD);
    assert_eq!((answer.status, answer.location()), (303, Some("/folders")));

    let folders = browser.follow(&answer);
    assert_eq!((folders.status, folders.page()), (200, "folders"));
    assert!(folders.has("Logged in as <strong>ada</strong>"), "{}", folders.body);
    assert!(folders.has(">gold</span>"), "{}", folders.body);
    let links = folders.links("folder");
    assert_eq!(links.len(), 3, "Inbox, Sent, Trash");

    // Twenty messages a page, with the latest first.
    let list = browser.get(&links[0]);
    assert_eq!((list.page(), list.links("message").len()), ("list", 20));
    assert!(list.has("Message 044 for ada") && !list.has("Message 024 for ada"));
    assert!(list.has("1–20 of 45") && list.links("previous").is_empty());
    let second = browser.get(&list.links("next")[0]);
    assert!(second.has("Message 024 for ada") && second.has("21–40 of 45"));
    let third = browser.get(&second.links("next")[0]);
    assert_eq!((third.links("message").len(), third.links("next").len()), (5, 0));
    let back = browser.get(&third.links("previous")[0]);
    assert!(back.has("21–40 of 45"));

    // A message, whose links can be clicked, is read from then on.
    assert!(list.has(r#"<tr class="unread">"#));
    let message = browser.get(&list.links("message")[0]);
    assert_eq!(message.page(), "message");
    assert!(message.has("this is text 44") && message.has(r#"href="https://example.org/44"#));
    assert!(browser.get(&links[0]).has("45 messages, 44 unread"));
    let source = browser.get(&format!("{}&source=1", list.links("message")[0]));
    assert!(source.has("To: ada@example.org"), "{}", source.body);

    let csrf = message.csrf();
    let answer = browser.post("/logout", &[("csrf", &csrf)]);
    assert_eq!(answer.location(), Some("/login"));
    assert_eq!(browser.get("/folders").location(), Some("/login?next=%2Ffolders"));
}

fn lists_are_sorted_by_their_heads(served: &Served) {
    let ada = served.user("ada", AccountClass::Bronze, 0);
    for (from, subject, day) in [("zoe", "beta", 1), ("bob", "gamma", 3), ("max", "alpha", 2)] {
        let raw = format!(
            "From: {from}@example.org\r\nSubject: {subject}\r\n\
             Date: Sat, {day} Nov 2025 10:00:00 +0000\r\n\r\nText\r\n"
        );
        served.deliver(ada, raw.as_bytes());
    }
    let mut browser = served.logged_in("ada");
    let list = browser.get("/folders").links("folder")[0].clone();
    let mut order = |path: &str| {
        let page = browser.get(path);
        let mut found: Vec<_> =
            ["alpha", "beta", "gamma"].map(|subject| (page.body.find(subject), subject)).into();
        found.sort_unstable();
        found.into_iter().map(|(_, subject)| subject).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(&list), "gamma alpha beta");
    assert_eq!(order(&format!("{list}&reversed=1")), "beta alpha gamma");
    assert_eq!(order(&format!("{list}&sort=subject")), "alpha beta gamma");
    assert_eq!(order(&format!("{list}&sort=subject&reversed=1")), "gamma beta alpha");
    assert_eq!(order(&format!("{list}&sort=author")), "gamma alpha beta");
    assert_eq!(browser.get(&format!("{list}&sort=size")).status, 400);
}

fn messages_are_searched_moved_and_deleted(served: &Served) {
    served.user("ada", AccountClass::Bronze, 30);
    let mut browser = served.logged_in("ada");
    let csrf = browser.csrf();
    let answer = browser.post("/create-folder", &[("csrf", &csrf), ("name", "Storms & more")]);
    let folders = browser.follow(&answer);
    assert!(folders.has("The folder is created.") && folders.has("Storms &amp; more"));
    let links = folders.links("folder");
    let (inbox, sent, trash, storms) = (&links[0], &links[1], &links[2], &links[3]);
    let id = |link: &str| {
        let parameters = link.split_once('=').unwrap().1;
        parameters.split('&').next().unwrap().to_owned()
    };

    let found = browser.get("/search?q=MESSAGE+007");
    assert_eq!((found.page(), found.links("message").len()), ("search", 1));
    assert!(found.has("Message 007 for ada") && found.has("In Inbox."), "{}", found.body);
    let message = id(&found.links("message")[0]);
    assert!(
        browser
            .get(&format!("/search?q=message+007&folder={}", id(sent)))
            .has("0 messages in Sent")
    );
    assert!(browser.get("/search?q=").has("No message has this text"));

    // Moved, back to where it was found.
    let back = "/search?q=Message%20007";
    let fields = [("csrf", &*csrf), ("message", &message), ("to", &id(storms)), ("back", back)];
    let moved = browser.post("/refile", &fields);
    assert_eq!(moved.location(), Some("/search?q=Message%20007&done=moved-1"));
    assert!(browser.follow(&moved).has("1 message moved."));
    assert!(browser.get(storms).has("Message 007 for ada"));

    // A message leads back to the part of the list that it was opened from, if it is there still.
    let elsewhere = format!("/message?id={message}&back=%2Flist%3Ffolder%3D1%26first%3D20");
    assert_eq!(browser.get(&elsewhere).links("folder"), [storms.as_str()]);
    let sorted = format!("{inbox}&first=20&reversed=1");
    let opened = browser.get(&sorted).links("message");
    let message = browser.get(&opened[0]);
    assert_eq!(message.links("folder"), [sorted.as_str()]);
    let back = sorted.replace('&', "&amp;");
    assert!(message.has(&format!(r#"name="back" value="{back}""#)), "{}", message.body);
    let opened = browser.get("/search?q=message+01&first=5").links("message");
    let found = browser.get(&opened[0]);
    assert!(found.has(r#"<a href="/search?q=message%2001&amp;first=5">← Search</a>"#));
    assert_eq!(found.links("folder"), [inbox.as_str()]);

    // Deleted: to Trash, and from there for good.
    let first = browser.get(inbox).links("message");
    let ticked = [id(&first[0]), id(&first[1])];
    let fields = [("csrf", &*csrf), ("message", &ticked[0]), ("message", &ticked[1])];
    let deleted = browser.post("/delete", &fields);
    assert_eq!(deleted.location(), Some("/folders?done=trashed-2"));
    assert!(browser.follow(&deleted).has("2 messages moved to Trash."));
    let in_trash = browser.get(trash);
    assert_eq!(in_trash.links("message").len(), 2);
    assert!(in_trash.has("Delete for good"));
    let href = format!("{inbox}&first=200&sort=subject");
    assert_eq!(browser.get(&href).location(), Some(&*format!("{inbox}&first=20&sort=subject")));
    // The same form again does the same.
    assert_eq!(browser.post("/delete", &fields).location(), deleted.location());
    assert_eq!(browser.get(trash).links("message").len(), 2);
    let deleted = browser.post("/delete", &[&fields[..], &[("for_good", "1")]].concat());
    assert!(browser.follow(&deleted).has("2 messages deleted for good."));
    assert!(browser.get(trash).has("This folder is empty."));
    assert_eq!(browser.post("/delete", &[("csrf", &csrf)]).status, 422);

    // A folder is deleted, its messages go to Trash; the first three stay.
    let answer = browser.post("/delete-folder", &[("csrf", &csrf), ("folder", &id(storms))]);
    assert_eq!(answer.location(), Some("/folders?done=folder-deleted"));
    assert!(browser.get(trash).has("Message 007 for ada"));
    let answer = browser.post("/delete-folder", &[("csrf", &csrf), ("folder", &id(inbox))]);
    assert_eq!(answer.status, 422);
    assert!(answer.has("This folder cannot be deleted."), "{}", answer.body);
}

fn users_write_to_one_another(served: &Served) {
    let user = served.user("ada", AccountClass::Bronze, 0);
    served.user("bob", AccountClass::Bronze, 0);
    let mut ada = served.logged_in("ada");
    let form = ada.get("/compose");
    assert_eq!(form.page(), "compose");
    let csrf = form.csrf();

    // Who does not exist is said before anything is sent, and nothing that was typed is lost.
    let text = "One\r\n\r\n<b>Two</b> ünlaut";
    let fields =
        [("csrf", &*csrf), ("to", "bob, nobody"), ("subject", "Storm \"1\""), ("text", text)];
    let rejected = ada.post("/compose", &fields);
    assert_eq!((rejected.status, rejected.page()), (422, "compose"));
    assert!(rejected.has("has the name nobody. Nothing was sent."), "{}", rejected.body);
    assert!(rejected.has("value=\"bob, nobody\"") && rejected.has("Storm &quot;1&quot;"));
    assert!(rejected.has("&lt;b&gt;Two&lt;/b&gt; ünlaut</textarea>"), "{}", rejected.body);
    let mut bob = served.logged_in("bob");
    let inbox = bob.get("/folders").links("folder")[0].clone();
    assert!(bob.get(&inbox).has("This folder is empty."));

    let fields =
        [("csrf", &*csrf), ("to", "bob, bob@localhost"), ("subject", "Storm"), ("text", text)];
    let sent = ada.post("/compose", &fields);
    assert_eq!(sent.location(), Some("/folders?done=sent"), "{}", sent.body);
    let copies = ada.get("/folders").links("folder")[1].clone();
    assert!(ada.get(&copies).has("Storm"));

    let list = bob.get(&inbox);
    assert_eq!(list.links("message").len(), 1, "one copy, though named twice");
    let message = bob.get(&list.links("message")[0]);
    assert!(message.has("&lt;b&gt;Two&lt;/b&gt; ünlaut"), "{}", message.body);
    let reply = bob.get(&message.links("reply")[0]);
    assert!(reply.has("value=\"ada\"") && reply.has("value=\"Re: Storm\""), "{}", reply.body);
    assert!(reply.has("&gt; One"), "{}", reply.body);
    let id = message.links("reply")[0].rsplit('=').next().unwrap().to_owned();
    let fields = [
        ("csrf", &*reply.csrf()),
        ("to", "ada"),
        ("subject", "Re: Storm"),
        ("text", "Yes"),
        ("reply", &id),
    ];
    assert_eq!(bob.post("/compose", &fields).status, 303);
    let inbox = ada.get("/folders").links("folder")[0].clone();
    assert!(ada.get(&inbox).has("Re: Storm"));

    // Whoever wrote from elsewhere cannot be answered.
    let id = served.deliver(user, b"From: eve@example.org\r\nSubject: Hello\r\n\r\nHello\r\n");
    let reply = ada.get(&format!("/compose?reply={}", id.0));
    assert!(reply.has("eve@example.org is no user of this service."), "{}", reply.body);
}

fn an_answer_is_not_lost_when_its_original_is_gone(served: &Served) {
    let ada = served.user("ada", AccountClass::Bronze, 0);
    served.user("bob", AccountClass::Bronze, 0);
    let raw =
        b"From: bob@localhost\r\nMessage-ID: <one@example.org>\r\nSubject: Storm\r\n\r\nOne\r\n";
    let id = served.deliver(ada, raw).0.to_string();
    let mut browser = served.logged_in("ada");
    let form = browser.get(&format!("/compose?reply={id}"));
    let csrf = form.csrf();
    for for_good in ["", "1"] {
        let fields = [("csrf", &*csrf), ("message", &id), ("for_good", for_good)];
        assert_eq!(browser.post("/delete", &fields).status, 303, "{for_good}");
    }
    assert_eq!(browser.get(&format!("/compose?reply={id}")).status, 404);
    let fields = [
        ("csrf", &*csrf),
        ("to", "bob"),
        ("subject", "Re: Storm"),
        ("text", "Two"),
        ("reply", &id),
    ];
    let form = browser.post("/compose", &fields);
    assert_eq!((form.status, form.has("Two"), form.has("name=\"reply\"")), (404, true, false));
    let sent = browser.post("/compose", &fields[..4]);
    assert_eq!(sent.location(), Some("/folders?done=sent"), "{}", sent.body);
    let mut bob = served.logged_in("bob");
    let inbox = bob.get("/folders").links("folder")[0].clone();
    let arrived = bob.get(&inbox).links("message");
    let source = bob.get(&format!("{}&source=1", arrived[0]));
    assert!(source.has("Re: Storm") && !source.has("In-Reply-To"), "{}", source.body);
}

fn a_subject_that_is_too_long_is_not_cut(served: &Served) {
    served.user("ada", AccountClass::Bronze, 0);
    let mut browser = served.logged_in("ada");
    let csrf = browser.csrf();
    let mut send = |subject: &str| {
        let fields = [("csrf", &*csrf), ("to", "ada"), ("subject", subject), ("text", "Kept")];
        browser.post("/compose", &fields)
    };
    let long = "字".repeat(500);
    let rejected = send(&long);
    assert_eq!((rejected.status, rejected.page()), (422, "compose"));
    let trouble = "The subject has 1500 bytes, and 1000 are the most. Nothing was sent.";
    assert!(rejected.has(trouble) && rejected.has("Kept</textarea>"), "{}", rejected.body);
    assert!(rejected.has(&long), "what was typed is there");
    let longest = "字".repeat(333);
    assert_eq!(send(&longest).status, 303);
    let inbox = browser.get("/folders").links("folder")[0].clone();
    let message = browser.get(&inbox).links("message")[0].clone();
    assert!(browser.get(&message).has(&longest));
}

fn attachments_are_saved_and_never_shown(served: &Served) {
    let ada = served.user("ada", AccountClass::Bronze, 0);
    let id = served.deliver(
        ada,
        b"From: a@example.org\r\nSubject: Page\r\nMIME-Version: 1.0\r\n\
          Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
          Content-Type: text/html\r\n\r\n<p onclick=x()>Hello</p><script>x()</script>\
          <img src=\"http://example.org/seen.png\">\r\n--b\r\n\
          Content-Type: text/html; name=\"../a b.html\"\r\n\
          Content-Disposition: attachment; filename=\"../a b.html\"\r\n\r\n<script>x()</script>\r\n--b--\r\n",
    );
    let mut browser = served.logged_in("ada");
    let page = browser.get(&format!("/message?id={}", id.0));
    assert!(page.has("Remote images blocked: 1") && page.has("sandbox="), "{}", page.body);
    assert!(!page.has("<script") && !page.has("&lt;script") && !page.has("onclick"));
    let saved = browser.get(&format!("/attachment?id={}&part=0", id.0));
    assert_eq!(saved.status, 200);
    assert_eq!(saved.header("content-type"), Some("application/octet-stream"));
    assert_eq!(saved.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(saved.header("content-security-policy"), Some("default-src 'none'; sandbox"));
    let disposition = saved.header("content-disposition").unwrap();
    assert!(disposition.starts_with("attachment; filename*=UTF-8''"), "{disposition}");
    assert!(!disposition.contains('/') && saved.has("<script>x()</script>"));
    assert_eq!(browser.get(&format!("/attachment?id={}&part=1", id.0)).status, 404);
}
