//! Haboob: a web server on stages, with a page cache [Welsh02 §5.5].
//!
//! A request for a page in memory is answered on the spot, without a queue. All others
//! cross the stage that reads files, whose law rejects what the disk cannot bring in
//! time; the shortest file of a batch is read first, and one reading serves all who wait
//! for the file. What is in memory is compared with the disk once a second. Long pages are
//! in open files: in memory if the kernel has them there, which it tells.
//!
//! ```text
//! socket ─ (TLS) ─ HTTP/1 or 2 ─ host ─ route ─ path ─ page cache ─ hit ─────────────── answer
//!          (tamarisk-server)              │                 └─ miss ─ files (threads) ──┘
//!                                         │                    chunks (threads) ─ body of a long file
//!                                         └─ gate ─ service behind
//! ```
//!
//! What this crate does not do: it writes no file but the access log, runs no program, and
//! opens nothing that is not beneath the folders of the site, whatever links and races there are.
//!
//! A request is answered by the snapshot of the site that it has begun with;
//! [`Running::reload`] exchanges it, and disturbs no request.
//!
//! [`config`] makes the options of a file; [`SiteOptions`] says what there is to be said.
//!
//! # Examples
//! ```no_run
//! use std::time::Duration;
//! use tamarisk_control::Target;
//! use tamarisk_haboob::{Options, SiteOptions, start};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let site = SiteOptions::new("public", Target::p90(Duration::from_millis(200))?);
//! let running = start(Options::new("127.0.0.1:8080".parse()?, site)).await?;
//! tokio::signal::ctrl_c().await?;
//! running.shutdown(Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```

mod answer;
mod cache;
pub mod config;
mod connection;
mod core_site;
mod disk;
mod fast_path;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod page;
mod page_asked;
mod serve;
mod site;

pub use answer::body::SiteBody;
pub use connection::{Answering, Connection};
pub use core_site::CoreSite;
pub use disk::folder::Listing;
pub use disk::path::{HiddenFiles, InvalidPath, SitePath};
pub use serve::{Options, Running, StartError, check, start, start_on};
pub use site::host::HostName;
pub use site::options::{
    Action, FolderOptions, HostOptions, ProxyOptions, RouteOptions, SiteOptions,
};
pub use site::route::Redirect;
pub use site::{Site, SiteError};
pub use tamarisk_server::{Listeners, tls};
pub use tamarisk_service::{FrontOptions, Reloaded};
