//! PyTeC: pages that are Python embedded in HTML, each a stage of its own [Welsh02 §6.3.2].
//!
//! A page is HTML with `<%pytec … %>`, `<%= … %>` and `<%include … %>` in it. It is compiled into a
//! stage, which admits requests, bounds them and shows them as any stage does. Its events run in a
//! pool of Python processes, one event a process at a time: a page that hangs, crashes or takes too
//! much memory costs its own event and a new process, and nothing else.
//!
//! - [`Site`]: the pages of a folder or of the program, as a router of axum and as a part of a
//!   service.
//! - [`Page`]: one of them, to be rendered by other code, with [`PageRequest`] and [`PageAnswer`].
//!
//! `docs/PYTEC.md` is for those who write pages.
//!
//! What this crate does not do: pages are trusted. Processes isolate their failures, not their
//! intentions.
//!
//! # Examples
//! ```
//! use tamarisk::Entry;
//! use tamarisk_pytec::{PageRequest, Site, SiteOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("pytec-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! std::fs::write(folder.join("hello.pytec"), "<p>Hello, <%= req.get('name', 'you') %>.")?;
//! let site = Site::open(SiteOptions::new(&folder))?;
//!
//! let page = site.page("/hello").ok_or("no such page")?;
//! let answer = page.render(Entry::new(), PageRequest::get("/hello").query("name=<Ann>")).await?;
//! assert_eq!(answer.body, "<p>Hello, &lt;Ann&gt;.");
//!
//! // Or the whole site: Service::new().stage(&site).serve("127.0.0.1:8080", site.router()).
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

mod compile;
mod content_type;
mod options;
mod page;
mod process;
mod request;
mod root;
mod site;
mod site_path;

pub use compile::PageError;
pub use options::{ClassOf, SiteOptions, SiteSource};
pub use page::Page;
pub use request::{PageAnswer, PageRequest};
pub use site::{Site, SiteError};
