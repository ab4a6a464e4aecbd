//! Connections that wait for their next request, without a task for each where they can.

pub(crate) mod connections;
mod poller;
