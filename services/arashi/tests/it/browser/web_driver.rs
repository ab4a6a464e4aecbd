//! A client of WebDriver [W3C WebDriver]: commands to chromedriver as JSON over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A command that takes longer is stuck.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// More than an answer has, with a screenshot in it.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Why a command was not done.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// The code of WebDriver: `no such element`, `stale element reference`.
    pub(crate) code: String,
    #[expect(dead_code, reason = "for the message of a failed test")]
    message: String,
}

/// Sends a command to the driver at this port, and returns its value.
pub(crate) fn command(
    port: u16,
    method: &str,
    path: &str,
    parameters: &Value,
) -> Result<Value, CommandError> {
    let body = if method == "POST" { parameters.to_string() } else { String::new() };
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    connection.set_read_timeout(Some(COMMAND_LIMIT)).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer: Value = serde_json::from_slice(&body_of(connection)).unwrap();
    let value = answer["value"].take();
    match value["error"].as_str() {
        Some(code) => Err(CommandError {
            code: code.to_owned(),
            message: value["message"].as_str().unwrap_or_default().to_owned(),
        }),
        None => Ok(value),
    }
}

/// The body of an answer, which has a stated length.
fn body_of(connection: TcpStream) -> Vec<u8> {
    let mut connection = BufReader::new(connection);
    let mut length = None;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).unwrap();
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<usize>().ok();
            }
            _ => {}
        }
    }
    let length = length.filter(|length| *length <= ANSWER_BYTES_MAX).expect("a length");
    let mut body = vec![0; length];
    connection.read_exact(&mut body).unwrap();
    body
}
