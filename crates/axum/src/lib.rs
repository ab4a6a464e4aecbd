//! Stages behind routes of [axum](https://docs.rs/axum).
//!
//! axum routes, extracts and encodes; stages decide whom to admit, when and how many at once.
//! There is no router of our own: authors know axum's, and everything made for it fits.
//!
//! - [`answers`]: a route that a stage answers.
//! - [`StageError`] and [`RequestEntry`]: for handlers of axum that call stages themselves.
//! - [`Service`]: serves a router within limits on connections and slow clients, drains its stages
//!   at the end, and shows them on a status port (feature `status`).
//!
//! A rejection is answered with 503 and `Retry-After`, whichever stage it came from; an event
//! that was ended at its deadline with 504; an error of the service's own that is a response with
//! that ([`Answers::errors`]); what failed otherwise with 500, without its error's
//! text, which is the operator's: observations and the status port show it.
//!
//! # Examples
//! ```
//! use axum::Router;
//! use axum::routing::post;
//! use tamarisk_axum::{Service, answers};
//! use tamarisk_stage::{Context, Stage};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shout = Stage::builder("shout")
//!     .handler(async |text: String, _: Context| Ok(text.to_uppercase()))?;
//! let router = Router::new().route("/shout", post(answers(&shout)));
//! let service = Service::new().stage(&shout);
//! # async move {
//! service.serve("127.0.0.1:8080", router).await?;
//! # Ok::<_, tamarisk_axum::ServeError>(()) };
//! # Ok(())
//! # }
//! ```
//!
//! What this crate does not do: it decides nothing about admission, and to put a whole router
//! behind one gate is the layer's, in `tamarisk-tower`.

mod error;
mod route;
mod service;
mod serving;

pub use error::StageError;
pub use route::{Answers, RequestEntry, answers};
pub use service::{Drained, Part, ServeError, Service};
pub use tamarisk_http_gate::ClientAddress;
