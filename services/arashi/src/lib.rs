//! Arashi: webmail on stages [Welsh02 §6.3]. Each kind of request is a stage with a target of its
//! own; all of them ask one database.
//!
//! `tamarisk mail` serves it. As a library:
//! ```no_run
//! use tamarisk_arashi::store::{AccountClass, Database, Untimed};
//! use tamarisk_arashi::{Arashi, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::at("sqlite:mail.db")?;
//! database.connect()?.create_account(&Untimed, "ada", "a long password", AccountClass::Gold)?;
//!
//! let arashi = Arashi::open(Options::new(database))?;
//! arashi.service().serve("127.0.0.1:8080", arashi.router()).await?;
//! # Ok(())
//! # }
//! ```

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
pub mod import;
pub mod mail;
pub mod store;
mod web;

pub use web::{Arashi, LeastQuality, OpenError, Options, RequestKind, Targets};
