//! The options of `protect` and `serve` about where a service is served.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tamarisk_control::parse_duration;
use tamarisk_observe::status::TokenSource;
use tamarisk_service::FrontOptions;

use super::tls::TlsFiles;
use crate::arguments::{listen_address, misunderstood};

#[derive(Debug, Args)]
pub(crate) struct FrontArgs {
    /// Serve clients here; `:8080` is that port of all interfaces [default: what the file says, or
    /// 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    tls: TlsFiles,
    /// Show the status here: a page, JSON and metrics for Prometheus
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    status: Option<SocketAddr>,
    /// Allow changes over the status port to who has the token in this file
    #[arg(long, value_name = "FILE")]
    status_token_file: Option<PathBuf>,
    /// Serve on this many threads [default: one for each core]
    #[arg(long, value_name = "N")]
    cores: Option<NonZeroUsize>,
    /// Let requests under way finish for this long when shutting down
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    pub(super) drain: Duration,
}

impl FrontArgs {
    /// Puts what is stated here in the place of what `front` says.
    pub(crate) fn apply(&self, front: &mut FrontOptions) -> anyhow::Result<()> {
        front.listen = self.listen.unwrap_or(front.listen);
        front.status = self.status.or(front.status);
        if let Some(file) = &self.status_token_file {
            if front.status.is_none() {
                return Err(misunderstood("--status-token-file needs a --status to be shown on"));
            }
            front.status_token = Some(TokenSource::File(file.clone()));
        }
        front.cores = self.cores.unwrap_or(front.cores);
        if let Some(tls) = self.tls.open()? {
            front.tls = Some(tls);
        }
        front.handshake_target = self.tls.target()?;
        Ok(())
    }
}
