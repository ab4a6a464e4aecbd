//! Configuration of size limits and timeouts, `[limits]`.

use std::num::NonZeroU32;

use tamarisk_server::Server;
use tamarisk_server::guard::Limits;
use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::{Fault, Section, Value};

use super::values;

static LIMITS: Table = Table {
    heading: "[limits]",
    summary: "Configuration of size limits and timeouts, `[limits]`.",
    groups: &[&[
        key("request_line", Form::Size, "longest request line; a longer one is answered with 414").default("\"8KiB\""),
        key("head", Form::Size, "longest head, request line included, 48 KiB at most; a longer one is answered with 431").default("\"32KiB\""),
        key("body", Form::Size, "longest body; a longer one is answered with 413").otherwise("any length"),
        key("head_time", Form::Time, "longest time for a request head, and for a TLS handshake").default("\"10s\""),
        key("stall_time", Form::Time, "longest time without progress of a request body or a response").default("\"60s\""),
        key("rate_min", Form::Size, "least transfer rate per second of request bodies and responses, over `stall_time`").default("\"500B\""),
        key("idle_time", Form::Time, "longest time between two requests on a connection").default("\"75s\""),
        key("connections", Form::Whole(1, 1_000_000_000), "most connections at once").otherwise("from the limit of open files: a proxied connection needs two"),
    ]],
};

/// What clients may send.
pub const LIMITS_KEY: Key =
    key("limits", Form::Table(&LIMITS), "bounds of connections and requests")
        .otherwise("the defaults");

/// The table `[limits]`: how connections are served.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub fn limits(value: &Value<'_>) -> Result<Server, Fault> {
    let section = Section::new(value, &LIMITS)?;
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
