//! What runs inside of the stages: a request is answered by a worker that has a connection to
//! the database of its own.

mod attachment;
mod change;
mod compose;
mod digest;
mod folders;
mod list;
mod log_in;
mod message;
mod password;
mod problem;
mod request;
mod running;
mod worker;

pub(crate) use problem::Problem;
pub(crate) use request::{MailRequest, Shared};
pub(crate) use worker::Worker;
