//! The interface between a stage and its admission law.
//!
//! A stage, live or simulated, calls its law at each arrival, each dequeue and each end of
//! an event, in the order in which they happen, and does as the law says. The law keeps
//! estimates; the stage keeps the accounts (who is queued, who runs), so the two can never
//! disagree about what is in the stage.

mod backlog;
mod batch_decisions;
mod decision;
mod event;
mod host;
mod law;
mod place_limits;
mod queue_order;
mod reading;

pub use backlog::Backlog;
pub use batch_decisions::BatchDecisions;
pub use decision::{Decision, Dequeue, Order, Reason, Rejection};
pub use event::{Arrival, Change, Ending, Finished, Moved, Together, Waiting};
pub use law::AdmissionLaw;
pub use place_limits::PlaceLimits;
pub use queue_order::QueueOrder;
pub use reading::Reading;
