//! Configuration of an overflow, the key `overflow` of an upstream.

use tamarisk_control::Concurrency;
use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::{Fault, Section, Value};

use super::values;
use crate::OverflowOptions;
use crate::overflow::LIMIT_MAX;

/// How an overflow is stated.
pub(super) static OVERFLOW: [Form; 2] = [Form::Text("URL"), Form::Table(&OVERFLOW_TABLE)];

static OVERFLOW_TABLE: Table = Table {
    heading: "overflow",
    summary: "A service that gets the excess. Nobody waits for a place there: whom it cannot take or does not answer in time is rejected.",
    groups: &[&OVERFLOW_KEYS],
};

#[rustfmt::skip]
static OVERFLOW_KEYS: [Key; 5] = [
    key("url", Form::Text("URL"), "where the service is").required(),
    key("host", Form::Text("`\"client\"`, `\"upstream\"` or a host name"), "`Host` header sent to it: the client's, its own, or this name").default("\"client\""),
    key("limit", Form::Whole(1, LIMIT_MAX as u64), "the most requests in flight to it").default("64"),
    key("connect_time", Form::Time, "longest wait for a connection").default("\"1s\""),
    key("answer_time", Form::Time, "longest wait for the head of a response").default("\"2s\""),
];

pub(super) fn overflow(value: &Value<'_>) -> Result<OverflowOptions, Fault> {
    if value.get_ref().as_str().is_some() {
        return values::origin(value).map(OverflowOptions::new);
    }
    let (section, mut mistakes) = Section::collecting(value, &OVERFLOW_TABLE)?;
    let url = section.require("url", "\"http://127.0.0.1:3001\"", values::origin);
    let url = mistakes.note(url);
    let host_header = mistakes.note(section.read("host", values::host_header));
    let limit = mistakes.note(section.read("limit", limit));
    let connect_time = mistakes.note(section.read("connect_time", values::duration));
    let answer_time = mistakes.note(section.read("answer_time", values::duration));
    mistakes.done(|| {
        let default = OverflowOptions::new(url?);
        Some(OverflowOptions {
            host_header: host_header?.unwrap_or_default(),
            limit: limit?.unwrap_or(default.limit),
            connect_time: connect_time?.unwrap_or(default.connect_time),
            answer_time: answer_time?.unwrap_or(default.answer_time),
            ..default
        })
    })
}

fn limit(value: &Value<'_>) -> Result<Concurrency, Fault> {
    let count = values::count(value)?.get();
    let fits = u32::try_from(count).ok().filter(|count| *count <= LIMIT_MAX);
    fits.map(Concurrency::new).ok_or_else(|| {
        let expected = format!("expected a whole number from 1 to {LIMIT_MAX}");
        Fault::new(value.span(), format!("{count} is out of range"), expected)
    })
}
