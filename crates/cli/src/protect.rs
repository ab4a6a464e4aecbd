//! `tamarisk protect`: overload control before any HTTP service.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tamarisk_control::{Ratio, Target, parse_duration};
use tamarisk_observe::access_log::Log;
use tamarisk_protect::config::{self, ConfigError};
use tamarisk_protect::{Options, Running};
use tamarisk_proxy::{Origin, Upstream};
use tamarisk_server::{Listeners, Server};
use tamarisk_service::{OverflowOptions, Reloaded, RunningFront, UpstreamOptions};
use tamarisk_stage::StageObservation;

mod recording;

use self::recording::Recordings;
use crate::arguments::{UpstreamUrl, misunderstood};
use crate::ending::{Ending, Errors};
use crate::messages::MessageOptions;
use crate::serving::access_log::AccessLog;
use crate::serving::announcement::Doing;
use crate::serving::front_args::FrontArgs;
use crate::serving::tls;
use crate::serving::{self, RunningService, counted, warn_of_readable};

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const DEFAULT_TARGET: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  A service on port 3000, nine of ten answers within 200 ms:
    tamarisk protect http://127.0.0.1:3000 --listen 127.0.0.1:8080 --p90 200ms
  The same at another percentile, with a status page and metrics for Prometheus:
    tamarisk protect http://127.0.0.1:3000 --p99 1s --status 127.0.0.1:9090
  Over TLS; X-Forwarded-Proto and Forwarded tell the service:
    tamarisk protect http://127.0.0.1:3000 --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem
  Routes with their own targets, classes of clients, and laws by name:
    tamarisk protect --config protect.toml --check
    tamarisk protect --config protect.toml
  What the service is too busy for is answered by a static copy of it:
    tamarisk protect http://127.0.0.1:3000 --p90 200ms --overflow http://127.0.0.1:3001
  Record the law's inputs and decisions, for `tamarisk sim replay`:
    tamarisk protect http://127.0.0.1:3000 --p90 200ms --record live.trace
  Change the target at run time, authorised by a token:
    openssl rand -hex 32 > token && chmod 600 token
    tamarisk protect http://127.0.0.1:3000 --status 127.0.0.1:9090 --status-token-file token
    curl -X PATCH -H \"Authorization: Bearer $(cat token)\" http://127.0.0.1:9090/targets \\
      -d '{\"upstream\": {\"default\": {\"p90\": \"100ms\"}}}'

Requests that would be answered too late are rejected early, with 503 and Retry-After.
Signals:
  SIGHUP           Reload the file, error pages and certificates, and reopen the access log. Targets,
                   laws, overflows, error pages and certificates change without losing a request; other
                   changes are reported and need a restart. An invalid file changes nothing.
  SIGUSR2          Restart gracefully: a new process with the same arguments takes over the sockets,
                   then the old one drains.
  SIGTERM, Ctrl-C  Drain: accept no new connections, complete open requests, then exit.
Sockets passed by systemd (LISTEN_FDS) replace --listen.";

/// Put any HTTP service under overload control
///
/// State a response-time target. Tamarisk finds automatically how many requests the service can
/// take, when to queue and when to reject.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Protect {
    /// URL of the service: `http://HOST:PORT`, `HOST:PORT` or, on this machine, `:PORT`
    #[arg(value_name = "URL", required_unless_present = "config", value_parser = UpstreamUrl)]
    upstream: Option<Origin>,
    #[command(flatten)]
    front: FrontArgs,
    /// Another service, to which requests go that the service is too busy for: a static copy, a queueing
    /// page, another region. At most 64 are in flight there; a client that it does not answer within 2 s gets the 503
    #[arg(long, value_name = "URL", conflicts_with = "config", value_parser = UpstreamUrl)]
    overflow: Option<Origin>,
    /// Response-time target: half of the answers within TIME
    #[arg(long, value_name = "TIME", value_parser = parse_duration, group = "target")]
    p50: Option<Duration>,
    /// Response-time target: 90 % of the answers within TIME [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, group = "target")]
    p90: Option<Duration>,
    /// Response-time target: 99 % of the answers within TIME
    #[arg(long, value_name = "TIME", value_parser = parse_duration, group = "target")]
    p99: Option<Duration>,
    #[command(flatten)]
    log: AccessLog,
    #[command(flatten)]
    messages: MessageOptions,
    /// Read routes, classes, targets and laws from a TOML file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["upstream", "target"])]
    config: Option<PathBuf>,
    /// Check the configuration and exit
    #[arg(long, requires = "config")]
    check: bool,
    /// Record the admission law's inputs and decisions in this file, which is overwritten. With
    /// several upstreams, each has a file with its name before the extension. Recording ends when
    /// SIGHUP replaces the law. After SIGUSR2 the file is the new process's, as soon as that serves
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Stop recording at this file size
    #[arg(long, value_name = "SIZE", value_parser = recording::size, default_value = "1GiB", requires = "record")]
    record_size: u64,
}

impl Protect {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        self.messages.start();
        self.messages.told(self.serve_until_the_end())
    }

    fn serve_until_the_end(&self) -> anyhow::Result<Ending> {
        let mut options = match self.options()? {
            Ok(options) => options,
            Err(mistake) => return Ok(self.messages.mistaken(mistake)),
        };
        warn_of_readable(options.front.status_token.as_ref());
        let recordings = Recordings::begin(self.record.as_deref(), self.record_size, &mut options)?;
        if self.check {
            let upstreams = counted(options.upstreams.len(), "upstream");
            return serving::check::<Running>(&options, &upstreams);
        }
        let recording = async {
            recordings.announce();
            recordings.watch().await;
        };
        let (start, read) = ((options.front.clone(), options), || self.options());
        let args = &self.front;
        let doing = Doing::Protecting;
        let ending = serving::run::<Running>(&self.messages, &doing, start, read, recording, args)?;
        recordings.end();
        Ok(ending)
    }

    fn options(&self) -> anyhow::Result<Result<Options, ConfigError>> {
        let target = self.target()?;
        let mut options = match (&self.config, &self.upstream) {
            (Some(file), _) => match config::load(file) {
                Ok(options) => {
                    options.front.tls.iter().for_each(tls::warn);
                    options
                }
                Err(mistake) => return Ok(Err(mistake)),
            },
            (None, Some(origin)) => {
                let mut options = Options::single(DEFAULT_LISTEN, origin.clone(), target);
                let overflow = self.overflow.clone().map(OverflowOptions::new);
                let overflow = |upstream: UpstreamOptions| upstream.with_overflow(overflow.clone());
                let upstreams = options.upstreams.into_iter().map(overflow);
                options.upstreams = upstreams.collect::<Result<_, _>>().map_err(misunderstood)?;
                options
            }
            (None, None) => {
                return Err(misunderstood("give the URL of the service to protect, or --config"));
            }
        };
        options.log = self.log.options().or(options.log);
        self.front.apply(&mut options.front)?;
        Ok(Ok(options))
    }

    fn target(&self) -> anyhow::Result<Target> {
        let (percentile, time) = match (self.p50, self.p90, self.p99) {
            (Some(time), ..) => (0.5, time),
            (_, _, Some(time)) => (0.99, time),
            (_, time, _) => (0.9, time.unwrap_or(DEFAULT_TARGET)),
        };
        Target::percentile(Ratio::saturating(percentile), time).map_err(misunderstood)
    }
}

impl RunningService for Running {
    type Options = Options;
    type ReloadError = Infallible;

    async fn start(options: Options, listeners: Option<Listeners>) -> anyhow::Result<Self> {
        let started = match listeners {
            Some(listeners) => tamarisk_protect::start_on(listeners, options).await,
            None => tamarisk_protect::start(options).await,
        };
        started.map_err(|error| Errors::joined(error.reasons()))
    }

    async fn check(options: &Options) -> anyhow::Result<()> {
        let checked = tamarisk_protect::check(options).await;
        checked.map_err(|error| Errors::joined(error.reasons()))
    }

    fn front(&self) -> &RunningFront {
        self.front()
    }

    fn observe(&self) -> Vec<StageObservation> {
        self.observe()
    }

    fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.upstreams().to_vec()
    }

    fn log(&self) -> Option<Log> {
        self.log().cloned()
    }

    fn connections_by_files(_: &Options) -> usize {
        Server::default().connections_limit()
    }

    async fn reload(&mut self, options: &Options) -> Result<Reloaded, Infallible> {
        Ok(Self::reload(self, options))
    }

    async fn shutdown(self, timeout: Duration) -> usize {
        self.shutdown(timeout).await
    }
}
