//! Live situations of real traffic: an upstream of known behaviour, open-loop clients,
//! hostile clients, and a proxy between them, all over sockets and measured from outside.
//!
//! [`situations`] is the table; the other modules are the parts it is made of.

pub mod front;
pub mod hostile;
pub mod load;
pub mod run;
pub mod seen;
pub mod situations;
pub mod upstream;

/// The head of an HTTP/1.1 message may be this long; ours are a tenth of it.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Where the body begins, if the head is complete.
fn body_start(message: &[u8]) -> Option<usize> {
    message.windows(4).position(|four| four == b"\r\n\r\n").map(|end| end + 4)
}

/// The value of a header; names are compared without case.
fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Bytes in the body, as the head says.
fn content_length(head: &str) -> usize {
    header(head, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0)
}
