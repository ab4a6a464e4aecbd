//! Nobody sees or changes what is another user's: it is as if it did not exist.

use tamarisk_arashi::store::{AccountClass, FolderKind, Untimed};

use crate::web::served::{Served, everything, folder, inbox, messages};

#[test]
fn every_route_with_every_foreign_number_is_not_found_and_changes_nothing() {
    let served = Served::start();
    let olga = served.user("olga", AccountClass::Bronze, 5);
    let eve = served.user("eve", AccountClass::Bronze, 2);
    let mut store = served.store();
    let own = store.create_folder(&Untimed, olga, "Secrets").unwrap();
    let attached = served.deliver(
        olga,
        b"From: a@example.org\r\nSubject: S\r\nMIME-Version: 1.0\r\n\
          Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nText\r\n--b\r\n\
          Content-Disposition: attachment; filename=a.txt\r\n\r\nSecret\r\n--b--\r\n",
    );
    let olga_inbox = inbox(&mut store, olga);
    let mut foreign = messages(&mut store, olga, olga_inbox);
    assert!(foreign.contains(&attached) && foreign.len() == 6);
    // Nobody's is the same as another's.
    foreign.push(tamarisk_arashi::store::MessageId(i64::MAX));
    let folders = [FolderKind::Inbox, FolderKind::Sent, FolderKind::Trash]
        .map(|kind| folder(&mut store, olga, kind));
    let folders = [&folders[..], &[own, tamarisk_arashi::store::FolderId(-1)]].concat();
    let eve_inbox = inbox(&mut store, eve);
    let eve_own = messages(&mut store, eve, eve_inbox)[0];
    let database = &served.database.database;
    let before = [everything(database, olga), everything(database, eve)];

    let mut browser = served.logged_in("eve");
    let csrf = browser.csrf();
    let mut not_found = |method: &str, path: &str, form: &str| {
        let answer = browser.send(method, path, form);
        assert_eq!(answer.status, 404, "{method} {path} {form}: {}", answer.body);
        // No digits of a token make this name, as they make "ada".
        for secret in ["olga", "Secret", "Message 00"] {
            assert!(!answer.has(secret), "{path} shows {secret}: {}", answer.body);
        }
    };
    for message in &foreign {
        let id = message.0;
        not_found("GET", &format!("/message?id={id}"), "");
        not_found("GET", &format!("/message?id={id}&source=1"), "");
        not_found("GET", &format!("/attachment?id={id}&part=0"), "");
        not_found("GET", &format!("/compose?reply={id}"), "");
        let form = format!("csrf={csrf}&to=eve&subject=s&text=t&reply={id}");
        not_found("POST", "/compose", &form);
        not_found("POST", "/delete", &format!("csrf={csrf}&message={id}"));
        let form = format!("csrf={csrf}&message={id}&to={}", eve_inbox.0);
        not_found("POST", "/refile", &form);
    }
    for folder in &folders {
        let id = folder.0;
        not_found("GET", &format!("/list?folder={id}"), "");
        not_found("GET", &format!("/search?q=message&folder={id}"), "");
        not_found("GET", &format!("/digest?folder={id}"), "");
        not_found("POST", "/refile", &format!("csrf={csrf}&message={}&to={id}", eve_own.0));
        not_found("POST", "/delete-folder", &format!("csrf={csrf}&folder={id}"));
    }
    assert_eq!(browser.get("/search?q=secret").links("message").len(), 0);
    assert_eq!([everything(database, olga), everything(database, eve)], before);

    // One's own message is deleted, another's beside it is not.
    let form = format!("csrf={csrf}&message={}&message={}", eve_own.0, foreign[0].0);
    let answer = browser.send("POST", "/delete", &form);
    assert_eq!(answer.location(), Some("/folders?done=trashed-1"), "{}", answer.body);
    assert_eq!(everything(database, olga), before[0]);
}
