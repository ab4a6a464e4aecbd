//! What people do with their mail.

use tamarisk_arashi::store::{AccountClass, UserId};

use crate::browser::chromium::{Chromium, until};
use crate::browser::outsider::Outsider;
use crate::web::served::{PASSWORD, Served};

#[test]
fn mail_is_read_and_sorted_away() {
    read_and_sort_away(&Chromium::start());
}

#[test]
fn mail_is_read_and_sorted_away_without_scripts() {
    let chromium = Chromium::without_scripts();
    chromium.open("data:text/html,<title>off</title><script>document.title='on'</script>");
    assert_eq!(chromium.title(), "off");
    read_and_sort_away(&chromium);
}

fn read_and_sort_away(chromium: &Chromium) {
    let served = Served::start();
    let elsewhere = Outsider::start(|_| String::new());
    let ada = served.user("ada", AccountClass::Gold, 45);
    deliver_plan(&served, ada, &elsewhere);
    let url = format!("http://{}", served.address);

    // Whoever is not logged in comes to the form, and from there to where they wanted to go.
    chromium.open(&format!("{url}/folders"));
    chromium.shows("log-in", "Log in");
    chromium.log_in(&url, "ada", "wrong horse");
    chromium.shows("log-in", "wrong");
    chromium.fill("#password", PASSWORD);
    chromium.click("form button");
    chromium.shows("folders", "46 unread messages");
    assert_eq!(chromium.texts("[data-go=folder]"), ["Inbox", "Sent", "Trash"]);

    // Three pages, there and back.
    chromium.click_text("[data-go=folder]", "Inbox");
    chromium.shows("list", "1–20 of 46");
    assert_eq!(subjects(chromium)[..2], ["Plan of the garden", "Message 044 for ada"]);
    chromium.click("[data-go=next]");
    chromium.shows("list", "21–40 of 46");
    chromium.click("[data-go=next]");
    chromium.shows("list", "41–46 of 46");
    assert!(chromium.all("[data-go=next]").is_empty());
    chromium.click("[data-go=previous]");
    chromium.shows("list", "21–40 of 46");

    // A click on a head sorts, another one the other way round.
    chromium.click_text("thead a", "Subject");
    chromium.shows("list", "1–20 of 46");
    assert_eq!(subjects(chromium)[0], "Message 000 for ada");
    chromium.click_text("thead a", "Subject ↑");
    chromium.shows("list", "Subject ↓");
    assert_eq!(subjects(chromium)[0], "Plan of the garden");

    read_plan(chromium, &elsewhere);

    // Searched for and found, then moved into a folder that is new.
    chromium.open(&format!("{url}/folders"));
    chromium.fill("#new-folder", "Müller & <b>Söhne</b>");
    chromium.click("[data-go=create-folder] button");
    chromium.shows("folders", "Müller & <b>Söhne</b>");
    chromium.fill("#q", "message 01");
    chromium.click("[data-go=search] button");
    chromium.shows("search", "10 messages in all folders");
    tick(chromium, &["Message 012 for ada", "Message 017 for ada"]);
    chromium.click_text("#to option", "Müller");
    chromium.click("[data-go=refile]");
    chromium.shows("search", "2 messages moved.");
    chromium.click("[data-go=folders]");
    chromium.click_text("[data-go=folder]", "Müller");
    chromium.shows("list", "2 messages");
    assert_eq!(subjects(chromium), ["Message 017 for ada", "Message 012 for ada"]);

    // Deleted: one message, then the folder with what is left.
    tick(chromium, &["Message 017 for ada"]);
    chromium.click(".tools .bad-button");
    chromium.shows("list", "1 message moved to Trash.");
    assert_eq!(subjects(chromium), ["Message 012 for ada"]);
    chromium.click("[data-go=folders]");
    chromium.click_text("#old-folder option", "Müller");
    chromium.click("[data-go=delete-folder] button");
    chromium.shows("folders", "The folder is deleted.");
    assert_eq!(chromium.texts("[data-go=folder]"), ["Inbox", "Sent", "Trash"]);
    chromium.click_text("[data-go=folder]", "Trash");
    chromium.shows("list", "2 messages");
    assert_eq!(subjects(chromium), ["Message 017 for ada", "Message 012 for ada"]);
}

#[test]
fn two_people_write_to_each_other() {
    let chromium = Chromium::start();
    let served = Served::start();
    served.user("ada", AccountClass::Gold, 0);
    served.user("bob", AccountClass::Bronze, 0);
    let url = format!("http://{}", served.address);

    chromium.log_in(&url, "ada", PASSWORD);
    chromium.shows("folders", "Logged in as ada");
    chromium.click("[data-go=compose]");
    chromium.fill("#to", "nobody");
    chromium.fill("#subject", "Storm & <i>rain</i>");
    chromium.fill("#text", "\nWill it rain?\nSee http://127.0.0.1/ for <b>more</b>.");
    chromium.click("form[data-go=compose] button");
    // Nothing of what was typed is lost.
    chromium.shows("compose", "nobody");
    chromium.fill("#to", "bob");
    chromium.click("form[data-go=compose] button");
    chromium.shows("folders", "The message is sent.");
    log_out(&chromium);

    chromium.log_in(&url, "bob", PASSWORD);
    chromium.shows("folders", "1 unread message");
    chromium.click_text("[data-go=folder]", "Inbox");
    chromium.click_text("[data-go=message]", "Storm & <i>rain</i>");
    chromium.shows("message", "Will it rain?\nSee http://127.0.0.1/ for <b>more</b>.");
    chromium.click("[data-go=reply]");
    chromium.shows("compose", "Reply");
    let draft = chromium.script("return document.querySelector('#text').value");
    assert!(draft.as_str().unwrap().contains("> Will it rain?"), "{draft}");
    chromium.fill("#text", "It does already.");
    chromium.click("form[data-go=compose] button");
    chromium.shows("folders", "The message is sent.");
    chromium.click_text("[data-go=folder]", "Sent");
    assert_eq!(chromium.texts("td.from"), ["ada@localhost"]);
    chromium.click_text("[data-go=message]", "Re: Storm & <i>rain</i>");
    chromium.shows("message", "It does already.");
    log_out(&chromium);

    // Who comes next at this computer sees nothing of it by going back.
    for _ in 0..6 {
        chromium.back();
        chromium.shows("log-in", "Log in");
        let shown = chromium.page_text();
        assert!(!shown.contains("rain") && !shown.contains("Storm"), "{shown}");
    }

    chromium.log_in(&url, "ada", PASSWORD);
    chromium.shows("folders", "1 unread message");
    chromium.click_text("[data-go=folder]", "Inbox");
    chromium.click_text("[data-go=message]", "Re: Storm & <i>rain</i>");
    chromium.shows("message", "It does already.");
}

/// The latest message of the inbox, which has HTML, a remote image, a link and an attachment.
fn deliver_plan(served: &Served, user: UserId, elsewhere: &Outsider) {
    let site = &elsewhere.url;
    let raw = format!(
        "From: Gardener <gardener@example.org>\r\nTo: ada@example.org\r\n\
         Subject: Plan of the garden\r\nDate: Tue, 4 Nov 2025 10:00:00 +0000\r\n\
         MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
         Content-Type: text/html; charset=utf-8\r\n\r\n\
         <h1>Roses</h1><p>Look at <a href=\"{site}/roses\">the roses</a>.</p>\
         <img src=\"{site}/seen.png\" alt=\"A rose\">\r\n--b\r\n\
         Content-Type: text/csv; name=\"roses.csv\"\r\n\
         Content-Disposition: attachment; filename=\"roses.csv\"\r\n\r\n\
         rose,1\r\nthorn,200\r\n--b--\r\n"
    );
    served.deliver(user, raw.as_bytes());
}

/// From the list: the message is shown, its attachment saved, its link followed.
fn read_plan(chromium: &Chromium, elsewhere: &Outsider) {
    chromium.click_text("[data-go=message]", "Plan of the garden");
    chromium.shows("message", "Remote images blocked: 1");
    chromium.click(".attachments a");
    let saved = String::from_utf8(chromium.saved("roses.csv")).unwrap();
    assert_eq!(saved.trim_end(), "rose,1\r\nthorn,200");
    chromium.enter_frame("iframe");
    until(|| "the frame is empty".into(), || (chromium.texts("h1") == ["Roses"]).then_some(()));
    assert!(elsewhere.requests().is_empty(), "{:?}", elsewhere.requests());
    chromium.click("a");
    chromium.leave_frame();
    let visits =
        || elsewhere.requests().into_iter().find(|head| head.starts_with("GET /roses HTTP"));
    let visit = until(|| "nobody follows the link".into(), visits);
    assert!(!visit.to_lowercase().contains("\nreferer:"), "{visit}");
    // In a window of its own: the mail is still here.
    until(|| "one window".into(), || (chromium.windows().len() == 2).then_some(()));
    chromium.shows("message", "Plan of the garden");
}

/// The subjects of the list that is shown, without what stands beside them.
fn subjects(chromium: &Chromium) -> Vec<String> {
    let all = chromium.texts("[data-go=message]");
    all.iter().filter_map(|text| Some(text.lines().next()?.to_owned())).collect()
}

fn tick(chromium: &Chromium, subjects: &[&str]) {
    for subject in subjects {
        chromium.click(&format!("[aria-label='Select {subject}']"));
    }
}

fn log_out(chromium: &Chromium) {
    chromium.click("[data-go=log-out] button");
    chromium.shows("log-in", "Log in");
}
