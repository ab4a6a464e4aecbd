//! `tamarisk pytec`: serves a folder of pages that are Python embedded in HTML.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgAction, Args};
use tamarisk::axum::{Part, Service};
use tamarisk_control::{Target, parse_duration};
use tamarisk_pytec::{Site, SiteOptions};
use tokio::net::TcpListener;

use crate::arguments::{listen_address, misunderstood};
use crate::ending::Ending;
use crate::interrupt::{SignalWatch, asked_to_end, ignore_restarts};
use crate::messages::MessageOptions;
use crate::serving::watch::{self, Watch};
use crate::serving::{counted, say_drained};
use crate::size;

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

const EXAMPLES: &str = "\
Examples:
  Serve the sample site:
    tamarisk pytec docs/examples/pytec --status 127.0.0.1:9090
  Nine of ten requests within 300 ms, and no page longer than 2 s:
    tamarisk pytec ./site --p90 300ms --time 2s
  For everybody, with at most four processes of 512 MiB:
    tamarisk pytec ./site --listen :8080 --processes 4 --memory 512MiB
  Look for errors in the pages only:
    tamarisk pytec ./site --check

Example page, hello.pytec, served as /hello?name=Ann:
    <h1>Hello, <%= req.get(\"name\", \"you\") %></h1>
    <%pytec
      for number in range(3):
          print(number)
    %>

Files NAME.pytec are pages, NAME.pyh are for <%include NAME.pyh %>, lib/ has modules that pages
import. Other files are served as they are. `pytec.toml` gives pages targets of their own. Changes on
disk show within two seconds. Each page is a stage: what would be answered too late is rejected
early, with 503 and Retry-After.

Signals:
  SIGHUP           Look for changes now.
  SIGTERM, Ctrl-C  Drain: accept no new connections, complete open requests, then exit.";

/// Serve a folder of PyTeC pages: Python embedded in HTML, each page a stage
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pytec {
    /// Folder of the pages
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Address to serve on; `:8080` means all interfaces
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address, default_value_t = DEFAULT_LISTEN)]
    listen: SocketAddr,
    /// Address of the status port: status page, JSON and Prometheus metrics
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    status: Option<SocketAddr>,
    /// Look for errors in the pages and exit
    #[arg(long)]
    check: bool,
    /// Response-time target of pages that have none in pytec.toml: 90 % within TIME
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    p90: Duration,
    /// Longest time that a page may run; then its process is replaced
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    time: Duration,
    /// Most Python processes [default: 4 per core]
    #[arg(long, value_name = "N")]
    processes: Option<NonZeroU32>,
    /// Most memory of a process
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "256MiB")]
    memory: u64,
    /// Python interpreter
    #[arg(long, value_name = "FILE", default_value = "python3")]
    python: PathBuf,
    /// Show visitors the errors of pages [default: true on a loopback address, else false]
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    show_errors: Option<bool>,
    #[command(flatten)]
    messages: MessageOptions,
}

impl Pytec {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        self.messages.start();
        let options = self.options()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        self.messages.told(runtime.block_on(async {
            let site = Site::open(options)?;
            if self.check { check(&site).await } else { self.serve(site).await }
        }))
    }

    fn options(&self) -> anyhow::Result<SiteOptions> {
        for time in [self.p90, self.time] {
            Target::p90(time).map_err(misunderstood)?;
        }
        let mut options = SiteOptions::new(&self.folder);
        options.p90 = self.p90;
        options.time_max = self.time;
        options.memory_bytes_max = self.memory;
        options.python.clone_from(&self.python);
        options.shows_errors = self.show_errors.unwrap_or_else(|| self.listen.ip().is_loopback());
        if let Some(processes) = self.processes {
            options.processes = processes.get();
        }
        Ok(options)
    }

    async fn serve(&self, site: Site) -> anyhow::Result<Ending> {
        // Once a service manager knows that we serve it may end us at once.
        let stop = asked_to_end();
        let (look_again, restart) = (SignalWatch::read_again(), SignalWatch::restart());
        let listener = TcpListener::bind(self.listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {}", self.listen))?;
        let (folder, pages) = (self.folder.display(), counted(site.pages().len(), "page"));
        let (address, version) = (listener.local_addr()?, env!("CARGO_PKG_VERSION"));
        tracing::info!("Serving {folder} at http://{address}: {pages} (tamarisk {version})");
        let mut service = Service::new().stage(&site);
        if let Some(status) = self.status {
            service = service.status(status.to_string());
            tracing::info!("Status on http://{status}/");
        }
        let serving = service.serve_until(listener, site.router(), stop);
        let mut serving = pin!(serving);
        let mut beside = pin!(watch_site(&site, look_again));
        let reports = tokio::select! {
            reports = &mut serving => reports?,
            () = &mut beside => unreachable!("it watches as long as it is asked to"),
            never = ignore_restarts(restart) => match never {},
        };
        say_drained(&reports);
        Ok(Ending::Done)
    }
}

/// Tells of errors in pages, overloads and failures, and looks for changes when it is told to.
async fn watch_site(site: &Site, mut look_again: SignalWatch) {
    for error in site.check().await {
        tracing::error!("{error}");
    }
    let mut looks = tokio::time::interval(watch::EVERY);
    let mut watch_stages = Watch::default();
    loop {
        tokio::select! {
            now = looks.tick() => watch_stages.look(now, &site.observe(), &[]),
            () = look_again.asked() => site.refresh().await,
        }
    }
}

async fn check(site: &Site) -> anyhow::Result<Ending> {
    let errors = site.check().await;
    let pages = counted(site.pages().len(), "page");
    site.drain(Duration::ZERO).await;
    if errors.is_empty() {
        println!("No errors in {pages}.");
        return Ok(Ending::Done);
    }
    errors.iter().for_each(|error| eprintln!("{error}"));
    eprintln!("{} in {pages}.", counted(errors.len(), "error"));
    Ok(Ending::Unsuccessful)
}
