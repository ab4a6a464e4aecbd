//! Parsing of arguments that several commands share: addresses, and errors of usage.

use std::ffi::OsStr;
use std::fmt::Display;

use clap::builder::TypedValueParser;
use tamarisk_proxy::{InvalidUpstream, Origin};

/// An error in what the user wrote that shows only when options are seen
/// together, reported like those that each option shows by itself.
pub(crate) fn misunderstood(error: impl std::fmt::Display) -> anyhow::Error {
    clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{error}\n")).into()
}

/// An address to listen on.
pub(crate) fn listen_address(text: &str) -> Result<std::net::SocketAddr, String> {
    tamarisk_service::settings::listen_address(text).ok_or_else(|| {
        "expected an address and a port: `127.0.0.1:8080`, `localhost:8080` or `:8080`".into()
    })
}

/// Parses the URL of an upstream. What is wrong with it is said without it: it may have a password.
#[derive(Clone)]
pub(crate) struct UpstreamUrl;

impl TypedValueParser for UpstreamUrl {
    type Value = Origin;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        url: &OsStr,
    ) -> Result<Origin, clap::Error> {
        let name = argument.map(ToString::to_string).unwrap_or_default();
        let wrong = |why: &dyn Display| {
            let message = format!("invalid value for '{name}': {why}\n");
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, message).with_cmd(command)
        };
        let url = url.to_str().ok_or_else(|| wrong(&"it is not UTF-8"))?;
        url.parse().map_err(|error: InvalidUpstream| wrong(&error))
    }
}

/// A host name without a port.
pub(crate) fn host_name(text: &str) -> Result<String, String> {
    match tamarisk_service::settings::is_host_name(text) {
        true => Ok(text.to_owned()),
        false => Err("expected a host name without a port: `status.example.org`".to_owned()),
    }
}

/// A response-time target.
pub(crate) fn target_time(text: &str) -> Result<std::time::Duration, String> {
    let time = tamarisk_control::parse_duration(text).map_err(|error| error.to_string())?;
    let target = tamarisk_control::Target::p90(time).map_err(|error| error.to_string());
    target.map(|_| time)
}
