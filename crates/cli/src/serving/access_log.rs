//! Arguments for the access log: `--log`, `--log-format`.

use std::path::PathBuf;

use clap::Args;
use tamarisk_observe::access_log::{LogFormat, LogOptions, LogTarget};

/// Where requests are logged, and how.
#[derive(Debug, Args)]
pub(crate) struct AccessLog {
    /// Write an access log to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Format of the access log [default: combined]
    #[arg(long, value_name = "FORMAT", value_parser = ["combined", "json"], requires = "log")]
    log_format: Option<String>,
}

impl AccessLog {
    pub(crate) fn options(&self) -> Option<LogOptions> {
        let file = self.log.as_ref()?;
        let to = match file.as_os_str() == "-" {
            true => LogTarget::Stdout,
            false => LogTarget::File(file.clone()),
        };
        let format = match self.log_format.as_deref() {
            Some("json") => LogFormat::Json,
            _ => LogFormat::Combined,
        };
        Some(LogOptions { to, format })
    }
}
