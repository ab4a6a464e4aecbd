//! Parsing of arguments that several commands share: addresses, and errors of usage.

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
