//! What the services (`protect`, `haboob`) have in common: their life from start to end (the
//! [`Front`]), the options of a service behind a proxy, the parts of their configuration files, and
//! what comes of other options.
//!
//! What this crate does not do: it is no service, and no service depends on another one.

mod front;
mod overflow;
mod reloaded;
pub mod settings;
mod upstream;

pub use front::{
    Front, FrontError, FrontOptions, PreparedFront, RunningFront, SameAddress, ensure_apart,
};
pub use overflow::OverflowOptions;
pub use reloaded::Reloaded;
pub use upstream::{LeadsBack, OverflowsIntoItself, UnknownHost, UpstreamOptions};
