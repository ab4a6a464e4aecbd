//! Everything is reached by the keyboard, and what has the focus can be seen.

use tamarisk_arashi::store::AccountClass;

use crate::browser::chromium::{Chromium, DOWN, ENTER, TAB};
use crate::web::served::{PASSWORD, Served};

/// More stops than a page has.
const STOPS_MAX: usize = 100;

/// Whether the element with the focus is the wanted one, and how it shows that it has the focus.
const FOCUS: &str = "const element = document.activeElement, style = getComputedStyle(element); \
     return [element.matches(WANTED), style.outlineStyle, parseFloat(style.outlineWidth), \
     element.outerHTML.slice(0, 200)]";

#[test]
fn mail_is_read_moved_and_written_by_keyboard() {
    let chromium = Chromium::start();
    let served = Served::start();
    served.user("ada", AccountClass::Gold, 25);
    served.user("bob", AccountClass::Bronze, 0);
    chromium.open(&format!("http://{}", served.address));

    // The form to log in has the focus.
    chromium.shows("log-in", "Log in");
    chromium.press("ada");
    tab_to(&chromium, "#password");
    chromium.press(PASSWORD);
    chromium.press(&ENTER.to_string());
    chromium.shows("folders", "25 unread messages");

    // What is before the content can be skipped.
    tab_to(&chromium, ".skip");
    chromium.press(&ENTER.to_string());
    tab_to(&chromium, "main [data-go=folder]");
    chromium.press(&ENTER.to_string());
    chromium.shows("list", "1–20 of 25");
    enter(&chromium, "[data-go=next]");
    chromium.shows("list", "21–25 of 25");
    enter(&chromium, "[data-go=previous]");
    chromium.shows("list", "1–20 of 25");
    enter(&chromium, "thead th:nth-child(3) a");
    chromium.shows("list", "Subject ↑");

    // Two are ticked, and moved to the second folder of the choice.
    for number in ["003", "005"] {
        tab_to(&chromium, &format!("[aria-label='Select Message {number} for ada']"));
        chromium.press(" ");
    }
    tab_to(&chromium, "#to");
    chromium.press(&DOWN.to_string());
    enter(&chromium, "[data-go=refile]");
    chromium.shows("list", "2 messages moved.");
    enter(&chromium, "[data-go=folders]");
    chromium.shows("folders", "Trash");
    enter(&chromium, "main tr:nth-child(3) [data-go=folder]");
    chromium.shows("list", "Message 003 for ada");

    // Found and read; then one is written.
    tab_to(&chromium, "#q");
    chromium.press("message 024");
    chromium.press(&ENTER.to_string());
    chromium.shows("search", "1 message in all folders");
    enter(&chromium, "main [data-go=message]");
    chromium.shows("message", "this is text 24");
    enter(&chromium, "[data-go=compose]");
    // The first field has the focus.
    chromium.shows("compose", "New message");
    chromium.press("bob");
    tab_to(&chromium, "#subject");
    chromium.press("Thanks");
    tab_to(&chromium, "#text");
    chromium.press("All is well.");
    enter(&chromium, "form[data-go=compose] button");
    chromium.shows("folders", "The message is sent.");
    enter(&chromium, "[data-go=log-out] button");
    chromium.shows("log-in", "Log in");
}

fn enter(chromium: &Chromium, css: &str) {
    tab_to(chromium, css);
    chromium.press(&ENTER.to_string());
}

/// Presses the tabulator until this has the focus; each stop on the way shows that it has it.
fn tab_to(chromium: &Chromium, css: &str) {
    let script = FOCUS.replace("WANTED", &format!("{css:?}"));
    let mut stops = Vec::new();
    for _ in 0..STOPS_MAX {
        chromium.press(&TAB.to_string());
        let focus = chromium.script(&script);
        if focus[3].as_str().is_some_and(|html| html.starts_with("<body")) {
            // Past the last one, the browser itself has the focus.
            continue;
        }
        assert!(focus[1] != "none" && focus[2].as_f64() >= Some(2.0), "not seen: {focus}");
        if focus[0] == true {
            return;
        }
        stops.push(focus[3].to_string());
    }
    panic!("{css} is not reached at {}: {stops:#?}", chromium.url());
}
