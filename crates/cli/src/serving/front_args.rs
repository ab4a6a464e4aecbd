//! Arguments of `protect` and `serve` for addresses, cores, status port and drain time.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tamarisk_control::parse_duration;
use tamarisk_observe::profile::ProfileOptions;
use tamarisk_observe::status::TokenSource;
use tamarisk_service::FrontOptions;
use tamarisk_settings::values::parse_time;

use super::handover;
use super::tls::TlsFiles;
use crate::arguments::{host_name, listen_address, misunderstood};

#[derive(Debug, Args)]
pub(crate) struct FrontArgs {
    /// Address to serve on; `:8080` means all interfaces [default: `listen` in the file, or
    /// 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    tls: TlsFiles,
    /// Address of the status port: status page, JSON and Prometheus metrics
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    status: Option<SocketAddr>,
    /// Allow changes over the status port with the token in this file
    #[arg(long, value_name = "FILE")]
    status_token_file: Option<PathBuf>,
    /// Answer to this host name on the status port too, in addition to addresses, `localhost`, the
    /// name of the machine and `status_hosts` in the file. Repeat it for more names
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    status_host: Vec<String>,
    /// Log every stage over time to this file, a line of JSON each interval (see --profile-interval);
    /// at 64 MiB it is kept as FILE.1, and another begins
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Time from one line of --profile to the next [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    profile_interval: Option<Duration>,
    /// Number of serving threads [default: one per core]
    #[arg(long, value_name = "N")]
    cores: Option<NonZeroUsize>,
    /// Longest time to complete open requests at shutdown [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    drain: Option<Duration>,
}

impl FrontArgs {
    /// The addresses to serve on and of the status port, where nothing else can be set.
    #[cfg(feature = "services")]
    pub(crate) fn addresses(&self) -> anyhow::Result<[Option<SocketAddr>; 2]> {
        let others = [
            ("--tls-cert", self.tls.are_named()),
            ("--tls-p90", self.tls.has_target()),
            ("--status-token-file", self.status_token_file.is_some()),
            ("--status-host", !self.status_host.is_empty()),
            ("--profile", self.profile.is_some()),
            ("--profile-interval", self.profile_interval.is_some()),
            ("--cores", self.cores.is_some()),
            ("--drain", self.drain.is_some()),
        ];
        match others.into_iter().find(|(_, is_stated)| *is_stated) {
            Some((option, _)) => Err(misunderstood(format!(
                "{option} does not apply to webmail: put `tamarisk protect` in front of it"
            ))),
            None => Ok([self.listen, self.status]),
        }
    }

    /// Overrides the settings of `front` with those given as arguments.
    pub(crate) fn apply(&self, front: &mut FrontOptions) -> anyhow::Result<()> {
        front.listen = self.listen.unwrap_or(front.listen);
        front.status = self.status.or(front.status);
        front.status_beside = handover::status_beside();
        let of_status = [
            ("--status-token-file needs --status", self.status_token_file.is_some()),
            ("--status-host needs --status", !self.status_host.is_empty()),
            ("`status_token` needs `status`, or --status", front.status_token.is_some()),
            ("`status_hosts` needs `status`, or --status", !front.status_hosts.is_empty()),
        ];
        if front.status.is_none()
            && let Some((mistake, _)) = of_status.into_iter().find(|(_, is_stated)| *is_stated)
        {
            return Err(misunderstood(mistake));
        }
        if let Some(file) = &self.status_token_file {
            front.status_token = Some(TokenSource::File(file.clone()));
        }
        front.status_hosts.extend(self.status_host.iter().cloned());
        if let Some(file) = &self.profile {
            front.profile = Some(ProfileOptions::new(file));
        }
        match (self.profile_interval, &mut front.profile) {
            (Some(interval), Some(profile)) => profile.interval = interval,
            (Some(_), None) => return Err(misunderstood("--profile-interval needs --profile")),
            (None, _) => {}
        }
        front.cores = self.cores.unwrap_or(front.cores);
        if let Some(tls) = self.tls.open()? {
            front.tls = Some(tls);
        }
        front.handshake_target = self.tls.target()?.unwrap_or(front.handshake_target);
        Ok(())
    }

    /// The longest time to complete open requests at shutdown.
    pub(super) fn drain(&self) -> Duration {
        self.drain.unwrap_or(Duration::from_secs(10))
    }
}
