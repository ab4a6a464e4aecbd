//! Pictures of all pages, to be looked at: light, dark, and on a phone.

use std::path::Path;

use mail_parser::decoders::base64::base64_decode;
use serde_json::json;
use tamarisk_arashi::import::sample::messages;
use tamarisk_arashi::mail::new_message;
use tamarisk_arashi::store::{AccountClass, FolderKind, Untimed};

use crate::browser::chromium::Chromium;
use crate::web::served::{PASSWORD, Served, folder};

/// The folder that the pictures are written to.
const FOLDER: &str = "ARASHI_SCREENSHOTS";

#[test]
#[ignore = "writes pictures into the folder that ARASHI_SCREENSHOTS names"]
fn pages_are_drawn() {
    let folder = std::env::var_os(FOLDER).unwrap_or_else(|| panic!("set {FOLDER} to a folder"));
    let chromium = Chromium::start();
    let served = Served::start();
    let url = format!("http://{}", served.address);
    let pages = pages(&served);
    for (name, width, height, scheme) in
        [("light", 1200, 900, "light"), ("dark", 1200, 900, "dark"), ("phone", 390, 844, "light")]
    {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        chromium.developer("Emulation.setDeviceMetricsOverride", &size);
        let scheme = json!({ "name": "prefers-color-scheme", "value": scheme });
        let features = json!({ "features": [scheme] });
        chromium.developer("Emulation.setEmulatedMedia", &features);
        let draw = |page: &str| {
            let picture = base64_decode(chromium.screenshot().as_bytes()).unwrap();
            let file = Path::new(&folder).join(format!("{page}-{name}.png"));
            std::fs::write(file, picture).unwrap();
            // Nothing is wider than the screen.
            let shown = chromium.script("return document.documentElement.scrollWidth");
            assert_eq!(shown, width, "{page}-{name}");
        };
        chromium.log_in(&url, "ada", "wrong horse");
        chromium.shows("log-in", "wrong");
        draw("log-in");
        chromium.log_in(&url, "ada", PASSWORD);
        chromium.shows("folders", "ada");
        for (page, path) in &pages {
            chromium.open(&format!("{url}{path}"));
            draw(page);
        }
        chromium.open(&format!("{url}/compose"));
        chromium.fill("#to", "nobody");
        chromium.fill("#text", "Hello");
        chromium.click("form[data-go=compose] button");
        chromium.shows("compose", "nobody");
        draw("not-sent");
        chromium.click("[data-go=log-out] button");
        chromium.shows("log-in", "Log in");
    }
}

/// The names of pages, and where they are.
fn pages(served: &Served) -> Vec<(&'static str, String)> {
    let ada = served.user("ada", AccountClass::Gold, 0);
    let mut store = served.store();
    let inbox = folder(&mut store, ada, FolderKind::Inbox);
    let trash = folder(&mut store, ada, FolderKind::Trash);
    let mut sample = messages(7, 60).map(|raw| new_message(raw, 0));
    store.deliver_all(&Untimed, ada, inbox, &mut sample).unwrap();
    for name in ["Invoices", &"A long name of a folder ".repeat(4)] {
        store.create_folder(&Untimed, ada, name).unwrap();
    }
    let html = served.deliver(ada, HTML);
    let long = served.deliver(ada, &long());
    let damaged = served.deliver(ada, DAMAGED);
    let plain = html.0 - 2;
    vec![
        ("folders", "/folders".into()),
        ("folders-done", "/folders?done=folder-created".into()),
        ("list", format!("/list?folder={}", inbox.0)),
        ("list-end", format!("/list?folder={}&first=60&sort=subject&reversed=1", inbox.0)),
        ("list-empty", format!("/list?folder={}", trash.0)),
        ("search", "/search?q=meeting".into()),
        ("search-none", format!("/search?q={}", "nothing".repeat(20))),
        ("message-plain", format!("/message?id={}", plain)),
        ("message-html", format!("/message?id={}", html.0)),
        ("message-long", format!("/message?id={}", long.0)),
        ("message-damaged", format!("/message?id={}", damaged.0)),
        ("source", format!("/message?id={}&source=1", html.0)),
        ("compose", "/compose".into()),
        ("reply", format!("/compose?reply={}", html.0)),
        ("problem", "/message?id=999999".into()),
    ]
}

const HTML: &[u8] = b"From: Gardener <gardener@example.org>\r\nTo: ada@example.org\r\n\
    Cc: office@example.org\r\nSubject: Plan of the garden\r\n\
    Date: Tue, 4 Nov 2025 10:00:00 +0000\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
    Content-Type: text/html; charset=utf-8\r\n\r\n<h1>Roses</h1><p>Look at <a \
    href='https://example.org/roses'>the roses</a>.</p><img src='http://example.org/seen.png'>\
    <table border=1><tr><th>Rose</th><th>Thorns</th></tr><tr><td>red</td><td>200</td></tr>\
    </table><ul><li>one</li><li>two</li></ul><blockquote>Quoted</blockquote>\r\n--b\r\n\
    Content-Type: text/csv; name=\"roses.csv\"\r\n\
    Content-Disposition: attachment; filename=\"roses.csv\"\r\n\r\nrose,1\r\n--b--\r\n";

/// Cut off in the middle.
const DAMAGED: &[u8] = b"From: a@example.org\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
    Content-Type: text/plain\r\n\r\nBeginning\r\n--b\r\nContent-Ty";

/// A message of which everything is long.
fn long() -> Vec<u8> {
    let (word, words) = ("unbroken".repeat(30), "many words ".repeat(20));
    let mail = format!(
        "From: \"{words}\" <{word}@example.org>\r\nTo: {word}@example.org\r\n\
         Subject: {word} {words}\r\nDate: Tue, 4 Nov 2025 11:00:00 +0000\r\n\r\n\
         {words}\r\n{word}\r\nhttps://example.org/{word}\r\n"
    );
    mail.into_bytes()
}
