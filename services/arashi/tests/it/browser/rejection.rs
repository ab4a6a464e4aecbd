//! The page of a rejection loads itself again until it is the answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tamarisk_arashi::RequestKind;
use tamarisk_arashi::store::AccountClass;

use crate::browser::chromium::{Chromium, until};
use crate::web::served::{PASSWORD, Served};

/// Clients that search all the time.
const CROWD: usize = 24;

/// Ends the load, also where the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_rejected_page_becomes_the_answer_without_its_user() {
    let chromium = Chromium::start();
    let served = Served::with(|options| {
        let tiny = Duration::from_millis(1);
        options.targets = options.targets.with(RequestKind::Search, tiny);
        options.least_quality = None;
    });
    served.user("ada", AccountClass::Bronze, 3000);
    let url = format!("http://{}", served.address);
    chromium.log_in(&url, "ada", PASSWORD);
    chromium.shows("folders", "3000 unread messages");
    let browser = served.logged_in("ada");
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = End(&ends);
        for _ in 0..CROWD {
            let (mut browser, ends) = (browser.clone(), &ends);
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    browser.get("/search?q=nothing+has+this");
                }
            });
        }
        until(
            || format!("not rejected: {}", chromium.page_text()),
            || {
                chromium.open(&format!("{url}/search?q=message+2999"));
                (!chromium.all("body[data-page=rejected]").is_empty()).then_some(())
            },
        );
        drop(end);
    });
    chromium.shows("search", "1 message in all folders");
    assert_eq!(chromium.url(), format!("{url}/search?q=message+2999"));
}
