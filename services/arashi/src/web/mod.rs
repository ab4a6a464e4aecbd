//! The pages of the service, and the stages that answer for them.
//!
//! A request comes to its route in `front`, which reads it, finds its class and enters the stage
//! of its kind. A worker in `stage` looks the session up, does what is asked in the database and
//! makes one of the pages in `page`.

mod action;
mod answer;
mod arashi;
mod client;
mod cookies;
mod device;
mod digest;
mod fields;
mod front;
mod kind;
mod known_accounts;
mod local_path;
mod log_in_limit;
mod notice;
mod options;
mod origin;
mod page;
mod place;
mod recent;
mod shortening;
mod stage;
mod token;

pub use arashi::Arashi;
pub use kind::RequestKind;
pub use options::{LeastQuality, OpenError, Options, Targets};
