//! What webmail is told: by arguments, or by a file.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use tamarisk_arashi::store::Database;
use tamarisk_arashi::{Options, RequestKind, Targets};
use tamarisk_catalogue::ByName;
use tamarisk_laws::Laws;

use super::MailPlace;
use crate::arguments::{listen_address, target_time};

pub(super) const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
pub(super) const PAGE_SIZE: u32 = 20;
pub(super) const PYTHON: &str = "python3";

/// How webmail is served.
#[derive(Debug, Args)]
pub(crate) struct MailSettings {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = LISTEN, value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(super) place: MailPlace,
    /// Serve a status page, JSON and Prometheus metrics on this address
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) status: Option<SocketAddr>,
    /// Response-time target: 90 % within TIME, for all kinds of requests or for one; can be repeated
    /// [default: 250ms; 1s for log-in, search, digest, delete-folder and compose]
    #[arg(long, value_name = "[KIND=]TIME")]
    pub(super) p90: Vec<StatedTarget>,
    /// Messages on a page of a list, 10 to 100
    #[arg(long, value_name = "N", default_value_t = PAGE_SIZE)]
    pub(super) page_size: u32,
    /// Clients come over TLS, which a proxy in front ends: cookies are sent over TLS only, and, if no
    /// --trusted-proxy is given, the last address in X-Forwarded-For is the client's
    #[arg(long)]
    pub(super) behind_tls: bool,
    /// Address or network of a reverse proxy in front, whose X-Forwarded-For is trusted; can be
    /// repeated
    #[arg(long, value_name = "ADDR", value_parser = network)]
    pub(super) trusted_proxy: Vec<IpNet>,
    /// Header whose value `gold` or `bronze` is the class of a request, instead of its account's;
    /// whoever can send it can choose
    #[arg(long, value_name = "HEADER")]
    pub(super) class_header: Option<String>,
    /// Admission law of all stages, by name; `open` admits everything
    #[arg(long, value_name = "LAW", value_parser = admission)]
    pub(super) law: Option<Laws>,
    /// Under overload, reject requests without degrading lists, searches and digests first
    #[arg(long)]
    pub(super) no_degradation: bool,
    /// Admit all kinds of requests by one stage, with the target of lists: for comparison
    #[arg(long)]
    pub(super) single_stage: bool,
    /// Python 3, which writes digests
    #[arg(long, value_name = "FILE", default_value = PYTHON)]
    pub(super) python: PathBuf,
    /// Page in PyTeC that writes digests, instead of Arashi's own
    #[arg(long, value_name = "FILE")]
    pub(super) digest_page: Option<PathBuf>,
}

/// A target, for one kind of requests or for all.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatedTarget {
    pub(super) kind: Option<RequestKind>,
    pub(super) time: Duration,
}

impl FromStr for StatedTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, time) = match text.split_once('=') {
            Some((name, time)) => {
                let kind = RequestKind::named(name).ok_or_else(|| {
                    let names = RequestKind::ALL.map(RequestKind::name).join(", ");
                    format!("unknown kind of requests `{name}`: it must be one of {names}")
                })?;
                (Some(kind), time)
            }
            None => (None, text),
        };
        Ok(Self { kind, time: target_time(time)? })
    }
}

/// A network, or an address as one of its own.
fn network(text: &str) -> Result<IpNet, String> {
    tamarisk_service::settings::network_of(text)
        .ok_or_else(|| "expected an address or a network: `192.0.2.1` or `10.0.0.0/8`".into())
}

fn admission(name: &str) -> Result<Laws, String> {
    Laws::new().admission(name, &[]).map_err(|error| error.to_string())
}

impl MailSettings {
    pub(super) fn options(&self, database: Database) -> Options {
        let mut options = Options::new(database);
        // The one for all first, wherever it stands.
        for stated in self.p90.iter().filter(|stated| stated.kind.is_none()) {
            options.targets = Targets::all(stated.time);
        }
        for StatedTarget { kind, time } in &self.p90 {
            if let Some(kind) = kind {
                options.targets = options.targets.with(*kind, *time);
            }
        }
        options.page_size = self.page_size;
        options.behind_tls = self.behind_tls;
        options.trusted_proxies.clone_from(&self.trusted_proxy);
        options.class_header.clone_from(&self.class_header);
        if let Some(law) = &self.law {
            options.laws.clone_from(law);
        }
        if self.no_degradation {
            options.least_quality = None;
        }
        options.single_stage = self.single_stage;
        options.python.clone_from(&self.python);
        options.digest_page.clone_from(&self.digest_page);
        options
    }
}
