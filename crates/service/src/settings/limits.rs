//! Configuration of size limits and timeouts, `[limits]`.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use tamarisk_server::Server;
use tamarisk_server::guard::Limits;
use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::{Fault, Section, Value};

use super::values;

static LIMITS: Table = Table {
    heading: "[limits]",
    summary: "Configuration of size limits and timeouts, `[limits]`.",
    groups: &[&[
        key("request_line", Form::Size, "longest request line, 48 KiB at most; a longer one is answered with 414").default("\"8KiB\""),
        key("head", Form::Size, "longest head, request line included, 48 KiB at most; a longer one is answered with 431").default("\"32KiB\""),
        key("body", Form::Size, "longest body; a longer one is answered with 413").otherwise("1GiB if it is buffered, else any length"),
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

/// Of a request line, and of a head: hardly any request is shorter, and no longer head is held.
const HEAD: (RangeInclusive<u64>, &str) = (64..=48 * 1024, "a size from 64B to 48KiB");

/// A second: not even a fast network moves more for one client.
const RATE: (RangeInclusive<u64>, &str) = (1..=1 << 30, "a size from 1B to 1GiB");

/// The table `[limits]`: how connections are served.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub fn limits(value: &Value<'_>) -> Result<Server, Fault> {
    let (section, mut mistakes) = Section::collecting(value, &LIMITS)?;
    let head_size = |value| size_within(value, &HEAD);
    let request_line = mistakes.note(section.read("request_line", head_size)).flatten();
    let head = mistakes.note(section.read("head", head_size)).flatten();
    let body = mistakes.note(section.read("body", values::size)).flatten();
    let head_time = mistakes.note(section.read("head_time", values::duration)).flatten();
    let stall_time = mistakes.note(section.read("stall_time", values::duration)).flatten();
    let rate = |value| size_within(value, &RATE);
    let rate_min = mistakes.note(section.read("rate_min", rate)).flatten();
    let idle_time = mistakes.note(section.read("idle_time", values::duration)).flatten();
    let connections = mistakes.note(section.read("connections", values::count)).flatten();
    mistakes.done(|| Some(()))?;

    let mut limits = Limits::default();
    if let Some(bytes) = request_line {
        limits = limits.request_line(bytes as usize);
    }
    if let Some(bytes) = head {
        limits = limits.head(bytes as usize);
    }
    limits = limits.body(body);
    if let Some(time) = head_time {
        limits = limits.head_time(time);
    }
    if let Some(time) = stall_time {
        limits = limits.stall_time(time);
    }
    if let Some(bytes) = rate_min {
        let bytes = u32::try_from(bytes).ok().and_then(NonZeroU32::new);
        limits = limits.rate_min(bytes.expect("a rate is from 1 to 2^30"));
    }
    let mut server = Server::default().limits(limits);
    if let Some(time) = idle_time {
        server = server.idle_time(time);
    }
    if let Some(count) = connections {
        server = server.connections_max(count.get());
    }
    Ok(server)
}

/// A size in this range, which is written so.
fn size_within(
    value: &Value<'_>,
    (range, expected): &(RangeInclusive<u64>, &str),
) -> Result<u64, Fault> {
    let size = values::size(value)?;
    if !range.contains(&size) {
        let message = format!("{:?} is out of range", values::text(value)?);
        return Err(Fault::new(value.span(), message, format!("expected {expected}")));
    }
    Ok(size)
}
