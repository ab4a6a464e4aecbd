//! Arashi in Chromium, as people use it. The tests need `chromium` and `chromedriver`.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "tests of the store use the rest")]
mod support;

#[path = "../web/browser.rs"]
#[expect(dead_code, reason = "tests over HTTP use the rest")]
mod browser;
#[path = "../web/served.rs"]
#[expect(dead_code, reason = "tests over HTTP use the rest")]
mod served;

mod chromium;
mod outsider;
mod web_driver;

mod hostile;
mod keyboard;
mod rejection;
mod screenshots;
mod tour;
