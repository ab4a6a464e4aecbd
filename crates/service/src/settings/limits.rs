//! What clients may send, and how long they may take.

use std::num::NonZeroU32;

use tamarisk_server::Server;
use tamarisk_server::guard::Limits;
use tamarisk_settings::{Fault, Section, Value};

use super::values;

const LIMITS: &[&str] = &[
    "request_line",
    "head",
    "body",
    "head_time",
    "stall_time",
    "rate_min",
    "idle_time",
    "connections",
];

/// The table `[limits]`: how connections are served.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub fn limits(value: &Value<'_>) -> Result<Server, Fault> {
    let section = Section::new(value, LIMITS, |_| false)?;
    let mut limits = Limits::default();
    if let Some(bytes) = section.read("request_line", values::size)? {
        limits = limits.request_line(bytes as usize);
    }
    if let Some(bytes) = section.read("head", values::size)? {
        limits = limits.head(bytes as usize);
    }
    limits = limits.body(section.read("body", values::size)?);
    if let Some(time) = section.read("head_time", values::duration)? {
        limits = limits.head_time(time);
    }
    if let Some(time) = section.read("stall_time", values::duration)? {
        limits = limits.stall_time(time);
    }
    if let Some(bytes) = section.read("rate_min", values::size)? {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        limits = limits.rate_min(NonZeroU32::new(bytes).unwrap_or(NonZeroU32::MIN));
    }
    let mut server = Server::default().limits(limits);
    if let Some(time) = section.read("idle_time", values::duration)? {
        server = server.idle_time(time);
    }
    if let Some(count) = section.read("connections", values::count)? {
        server = server.connections_max(count.get());
    }
    Ok(server)
}
