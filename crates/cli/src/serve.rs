//! `tamarisk serve`: serves a folder, or a site or webmail that a configuration file describes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tamarisk_control::{Target, parse_duration};
use tamarisk_haboob::config::{self, ConfigError};
use tamarisk_haboob::{
    FolderOptions, Listeners, Listing, Options, Running, SiteOptions, check, start, start_on,
};
use tamarisk_observe::access_log::Log;
use tamarisk_proxy::Upstream;
use tamarisk_service::{Reloaded, RunningFront};
use tamarisk_settings::Document;
use tamarisk_stage::StageObservation;

use crate::arguments::misunderstood;
use crate::ending::{Ending, Errors};
#[cfg(feature = "services")]
use crate::mail;
use crate::messages::MessageOptions;
use crate::serving::access_log::AccessLog;
use crate::serving::announcement::Doing;
use crate::serving::front_args::FrontArgs;
use crate::serving::tls;
use crate::serving::{self, RunningService, counted, warn_of_readable};
use crate::size;

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

const EXAMPLES: &str = "\
Examples:
  Serve the files of a folder:
    tamarisk serve ./public --listen 127.0.0.1:8080
  A large site with a larger page cache:
    tamarisk serve /srv/www --cache 2GiB --held 8MiB
  Over TLS; with several certificates, clients get the one for the name they request:
    tamarisk serve /srv/www --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem
  Folder listings, and an access log on standard output:
    tamarisk serve . --listing --log -
  Several hosts, redirects, error pages, an access log, and a proxied route:
    tamarisk serve site.toml
  Webmail from a file with a table [mail]; docs/CONFIG.md has its keys:
    tamarisk serve mail.toml
  Check the file only:
    tamarisk serve site.toml --check

Example file:
    listen = \"127.0.0.1:8080\"
    log = { file = \"access.log\", format = \"json\" }

    [[host]]
    names = [\"example.org\", \"*.example.org\"]
    root = \"public\"
    errors = { 404 = \"404.html\" }

    [[host.route]]
    path = \"/api\"
    proxy = \"http://127.0.0.1:3000\"
    p90 = \"100ms\"

    [[host.route]]
    path = \"/old\"
    redirect = \"/new/\"

A request for a folder gets its index.html. Files whose names begin with a dot are not served, except
below /.well-known. Files outside the folder are not served, wherever symbolic links point. If a newer
NAME.br, NAME.zst or NAME.gz stands beside a file, clients that accept this encoding get it; other
text files are compressed once. Changes on disk show within two seconds.

Requests that would be answered too late, by the disk or by a proxied service, are rejected
early, with 503 and Retry-After.

Signals:
  SIGHUP           Reload the file and the certificates, and reopen the access log. No request and no
                   connection is lost; changes that need a restart are reported. An invalid file
                   changes nothing.
  SIGUSR2          Restart gracefully: a new process with the same arguments takes over the sockets,
                   then the old one drains.
  SIGTERM, Ctrl-C  Drain: accept no new connections, complete open requests, then exit.
Sockets passed by systemd (LISTEN_FDS) replace --listen.
Webmail (mail.toml) reads its file at the start only and cannot be replaced: it ignores SIGHUP, SIGUSR2
and LISTEN_FDS.";

/// Serve the files of a folder, or a site or webmail described by a file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Folder to serve, or configuration file of a site or of webmail
    #[arg(value_name = "FOLDER|FILE")]
    site: PathBuf,
    #[command(flatten)]
    front: FrontArgs,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
    /// Response-time target for files that are not in memory: 90 % within TIME [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    p90: Option<Duration>,
    /// Size of the page cache [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    cache: Option<u64>,
    /// Largest file kept in the cache; larger files are read while they are sent [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    held: Option<u64>,
    /// Threads that read files [default: 4]
    #[arg(long, value_name = "N")]
    file_threads: Option<NonZeroUsize>,
    /// List the files of folders without an index.html
    #[arg(long)]
    listing: bool,
    #[command(flatten)]
    log: AccessLog,
    #[command(flatten)]
    messages: MessageOptions,
}

/// Whether the file at `path` is one of webmail. What is no TOML is not: others say what is wrong.
fn is_mail(path: &Path) -> bool {
    let has_mail = |document: &Document<'_>| Ok(document.get_ref().contains_key("mail"));
    tamarisk_settings::load(path, has_mail).unwrap_or(false)
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        self.messages.start();
        self.messages.told(self.serve_until_the_end())
    }

    fn serve_until_the_end(&self) -> anyhow::Result<Ending> {
        if is_mail(&self.site) {
            return self.serve_mail();
        }
        let options = match self.options()? {
            Ok(options) => options,
            Err(mistake) => return Ok(self.messages.mistaken(mistake)),
        };
        warn_of_readable(options.front.status_token.as_ref());
        if self.check {
            let hosts = &options.site.hosts;
            let routes = hosts.iter().map(|host| host.routes.len()).sum();
            let valid = format!("{}, {}", counted(hosts.len(), "host"), counted(routes, "route"));
            return serving::check::<Running>(&options, &valid);
        }
        let start = (options.front.clone(), options);
        let (read, beside) = (|| self.options(), std::future::pending());
        let doing = Doing::Serving(self.site.clone());
        serving::run::<Running>(&self.messages, &doing, start, read, beside, &self.front)
    }

    #[cfg(not(feature = "services"))]
    fn serve_mail(&self) -> anyhow::Result<Ending> {
        Err(crate::not_built::left_out(&format!("webmail, as {} is,", self.site.display())))
    }

    #[cfg(feature = "services")]
    fn serve_mail(&self) -> anyhow::Result<Ending> {
        let file = self.site.display();
        if let Some((option, _)) = self.of_folders().next() {
            return Err(misunderstood(format!("{option} does not apply to webmail, as {file} is")));
        }
        let mut settings = match mail::load(&self.site) {
            Ok(settings) => settings,
            Err(mistake) => return Ok(self.messages.mistaken(mistake)),
        };
        let [listen, status] = self.front.addresses()?;
        settings.listen = listen.unwrap_or(settings.listen);
        settings.status = status.or(settings.status);
        if self.check {
            return mail::check(&settings);
        }
        mail::serve(&settings)
    }

    fn options(&self) -> anyhow::Result<Result<Options, ConfigError>> {
        let mut options = if self.site.is_file() {
            self.alone()?;
            match config::load(&self.site) {
                Ok(options) => {
                    options.front.tls.iter().for_each(tls::warn);
                    options
                }
                Err(mistake) => return Ok(Err(mistake)),
            }
        } else {
            Options::new(DEFAULT_LISTEN, self.folder()?)
        };
        self.front.apply(&mut options.front)?;
        Ok(Ok(options))
    }

    fn folder(&self) -> anyhow::Result<SiteOptions> {
        let target = Target::p90(self.p90.unwrap_or(Duration::from_secs(1)));
        let mut folder = FolderOptions::new(&self.site);
        folder.listing = if self.listing { Listing::On } else { Listing::Off };
        let mut site = SiteOptions::single(folder, target.map_err(misunderstood)?);
        site.log = self.log.options();
        site.cache_bytes = self.cache.unwrap_or(site.cache_bytes);
        site.held_bytes_max = self.held.unwrap_or(site.held_bytes_max);
        if let Some(threads) = self.file_threads {
            site.file_workers = u32::try_from(threads.get()).map_err(misunderstood)?;
        }
        Ok(site)
    }

    /// The options that are stated and apply to a folder only, and what they are called in a file.
    fn of_folders(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let stated = [
            ("--p90", "p90", self.p90.is_some()),
            ("--cache", "cache", self.cache.is_some()),
            ("--held", "held", self.held.is_some()),
            ("--file-threads", "file_threads", self.file_threads.is_some()),
            ("--listing", "listing", self.listing),
            ("--log", "log", self.log.options().is_some()),
        ];
        stated.into_iter().filter_map(|(option, key, is_stated)| is_stated.then_some((option, key)))
    }

    /// That nothing is said besides a file which the file says itself.
    fn alone(&self) -> anyhow::Result<()> {
        match self.of_folders().next() {
            Some((option, key)) => {
                let file = self.site.display();
                Err(misunderstood(format!(
                    "{option} applies to a folder only: set `{key}` in {file}"
                )))
            }
            None => Ok(()),
        }
    }
}

impl RunningService for Running {
    type Options = Options;
    type ReloadError = anyhow::Error;

    async fn start(options: Options, listeners: Option<Listeners>) -> anyhow::Result<Self> {
        let started = match listeners {
            Some(listeners) => start_on(listeners, options).await,
            None => start(options).await,
        };
        started.map_err(|error| Errors::joined(error.reasons()))
    }

    async fn check(options: &Options) -> anyhow::Result<()> {
        let checked = check(options).await;
        checked.map_err(|error| Errors::joined(error.reasons()))
    }

    fn front(&self) -> &RunningFront {
        self.front()
    }

    fn observe(&self) -> Vec<StageObservation> {
        self.observe()
    }

    fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.site().upstreams()
    }

    fn log(&self) -> Option<Log> {
        self.site().log()
    }

    fn connections_by_files(options: &Options) -> usize {
        let stating_none = Options::new(options.front.listen, options.site.clone());
        stating_none.front.server.connections_limit()
    }

    async fn reload(&mut self, options: &Options) -> anyhow::Result<Reloaded> {
        self.resolve_new(options).await?;
        Ok(Self::reload(self, options)?)
    }

    async fn shutdown(self, timeout: Duration) -> usize {
        self.shutdown(timeout).await
    }
}
