//! `tamarisk serve`: a folder of files as a web site.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

mod tls;

use clap::Args;
use tamarisk_control::{Target, parse_duration};
use tamarisk_haboob::{Options, SiteOptions, start};

use self::tls::TlsFiles;
use crate::interrupt::{asked_to_end, interrupted};
use crate::{Ending, misunderstood, size};

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

const EXAMPLES: &str = "\
Examples:
  The files of a folder:
    tamarisk serve ./public --listen 127.0.0.1:8080
  A large site with much memory for its pages:
    tamarisk serve /srv/www --cache 2GiB --held 8MiB
  Over TLS; with several certificates, clients get the one for the name that they ask for:
    tamarisk serve /srv/www --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem

A folder is answered with its index.html. Files that begin with a dot are not served (but for
/.well-known), and nothing outside of the folder is, wherever links lead. A file beside which
stands a newer NAME.br, NAME.zst or NAME.gz is sent in that form to who can read it; texts without
one are compressed once. Changes on disk are noticed within a second or two.

Requests for files that could not be read in time are refused at once, with 503 and Retry-After.
SIGHUP reads certificates and keys again; open connections go on.
SIGTERM or Ctrl-C drains: no new connections, requests under way are finished.";

/// Serve the files of a folder
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// The folder
    #[arg(value_name = "FOLDER")]
    root: PathBuf,
    /// Serve clients here
    #[arg(long, value_name = "ADDRESS", default_value_t = DEFAULT_LISTEN)]
    listen: SocketAddr,
    #[command(flatten)]
    tls: TlsFiles,
    /// Promise that nine of ten files that are not in memory are found within TIME
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    p90: Duration,
    /// Memory for pages
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "64MiB")]
    cache: u64,
    /// Read files that are longer from disk as they are sent
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1MiB")]
    held: u64,
    /// Threads that read files
    #[arg(long, value_name = "N", default_value = "4")]
    file_threads: NonZeroUsize,
    /// Serve on this many threads [default: one for each core]
    #[arg(long, value_name = "N")]
    cores: Option<NonZeroUsize>,
    /// Let requests under way finish for this long when shutting down
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    drain: Duration,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        let target = Target::p90(self.p90).map_err(misunderstood)?;
        let file_workers = u32::try_from(self.file_threads.get()).map_err(misunderstood)?;
        let site = SiteOptions {
            cache_bytes: self.cache,
            held_bytes_max: self.held,
            file_workers,
            ..SiteOptions::new(self.root, target)
        };
        let mut options = Options::new(self.listen, site);
        options.tls = self.tls.open()?;
        options.handshake_target = self.tls.target()?;
        options.cores = self.cores.unwrap_or(options.cores);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let certificates = tls::Certificates::watch(options.tls.clone());
            let running = start(options).await?;
            eprintln!("Serving on {}://{}", certificates.scheme(), running.local_addr());
            tokio::select! {
                () = asked_to_end() => {}
                () = certificates.reload_when_asked() => {}
            }
            eprintln!("Draining for up to {:?}; Ctrl-C again ends at once.", self.drain);
            let cut = tokio::select! {
                cut = running.shutdown(self.drain) => cut,
                () = interrupted() => return Ok(Ending::Interrupted),
            };
            match cut {
                0 => eprintln!("Drained: every request under way was finished."),
                count => eprintln!("Drained: {count} busy connections were cut."),
            }
            Ok(Ending::Done)
        })
    }
}
