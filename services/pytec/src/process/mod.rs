//! Python processes: started, talked to, bounded, replaced, ended.

mod backoff;
mod frame;
mod log;
mod pool;
mod worker;

pub(crate) use backoff::Backoff;
pub(crate) use pool::Pool;
pub(crate) use worker::{RunError, Setup, StartError, Work, WorkerOptions};
