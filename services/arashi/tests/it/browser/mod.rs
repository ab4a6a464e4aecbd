//! Arashi in Chromium, as people use it. The tests need `chromium` and `chromedriver`.

mod chromium;
mod outsider;
mod web_driver;

mod hostile;
mod keyboard;
mod rejection;
mod screenshots;
mod tour;
