//! Serving webmail until the process is told to stop.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tamarisk_arashi::store::Database;
use tamarisk_arashi::{Arashi, Options, RequestKind, Targets};
use tamarisk_control::parse_duration;
use tamarisk_laws::catalogue::Laws;
use tokio::net::TcpListener;

use super::MailPlace;
use super::first_start::{self, OWNER};
use crate::arguments::{listen_address, misunderstood};
use crate::ending::Ending;
use crate::interrupt::asked_to_end;
use crate::messages::MessageOptions;

/// Serve webmail.
#[derive(Debug, Args)]
pub(super) struct MailServe {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = listen_address)]
    listen: SocketAddr,
    #[command(flatten)]
    place: MailPlace,
    /// Serve a status page, JSON and Prometheus metrics on this address
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    status: Option<SocketAddr>,
    /// Response-time target: 90 % within TIME, for all kinds of requests or for one; can be repeated
    /// [default: 250ms; 1s for log-in, search, digest, delete-folder and compose]
    #[arg(long, value_name = "[KIND=]TIME")]
    p90: Vec<StatedTarget>,
    /// Messages on a page of a list, 10 to 100
    #[arg(long, value_name = "N", default_value_t = 20)]
    page_size: u32,
    /// Clients come over TLS, which a proxy in front ends: cookies are sent over TLS only, and the
    /// last address in X-Forwarded-For is the client's
    #[arg(long)]
    behind_tls: bool,
    /// Header whose value `gold` or `bronze` is the class of a request, instead of its account's;
    /// whoever can send it can choose
    #[arg(long, value_name = "HEADER")]
    class_header: Option<String>,
    /// Admission law of all stages, by name; `open` admits everything
    #[arg(long, value_name = "LAW")]
    law: Option<String>,
    /// Under overload, reject requests without degrading lists, searches and digests first
    #[arg(long)]
    no_degradation: bool,
    /// Admit all kinds of requests by one stage, with the target of lists: for comparison
    #[arg(long)]
    single_stage: bool,
    /// Python 3, which writes digests
    #[arg(long, value_name = "FILE", default_value = "python3")]
    python: PathBuf,
    /// Page in PyTeC that writes digests, instead of Arashi's own
    #[arg(long, value_name = "FILE")]
    digest_page: Option<PathBuf>,
    #[command(flatten)]
    messages: MessageOptions,
}

/// A target, for one kind of requests or for all.
#[derive(Clone, Copy, Debug)]
struct StatedTarget {
    kind: Option<RequestKind>,
    time: Duration,
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
        let time = parse_duration(time).map_err(|error| error.to_string())?;
        Ok(Self { kind, time })
    }
}

impl MailServe {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        self.messages.start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        self.messages.told(runtime.block_on(self.serve()))
    }

    async fn serve(&self) -> anyhow::Result<Ending> {
        let options = self.options()?;
        let database = options.database.clone();
        let listener = TcpListener::bind(self.listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {}", self.listen))?;
        // With its cause: a file that cannot be read is among them.
        let arashi = Arashi::open(options)
            .map_err(|error| misunderstood(format!("{:#}", anyhow::Error::from(error))))?;
        let ended = asked_to_end();
        // Last: the password of a new user is shown once.
        self.greet(listener.local_addr()?, &database)?;
        let reports = arashi.service().serve_until(listener, arashi.router(), ended).await?;
        let clean = reports.iter().all(|report| report.is_clean());
        Ok(if clean { Ending::Done } else { Ending::Unsuccessful })
    }

    fn options(&self) -> anyhow::Result<Options> {
        let mut options = Options::new(self.place.database()?);
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
        options.class_header.clone_from(&self.class_header);
        if let Some(law) = &self.law {
            options.laws = Laws::new().admission(law, &[]).map_err(misunderstood)?;
        }
        if self.no_degradation {
            options.least_quality = None;
        }
        options.single_stage = self.single_stage;
        options.python.clone_from(&self.python);
        options.digest_page.clone_from(&self.digest_page);
        options.status = self.status.map(|address| address.to_string());
        Ok(options)
    }

    /// Says where the service is, and as whom to log in. The first start of a folder makes a user.
    fn greet(&self, address: SocketAddr, database: &Database) -> anyhow::Result<()> {
        let mut out = io::stdout();
        if self.place.database.is_some() {
            writeln!(out, "Mail is served at http://{address}/")?;
            writeln!(out, "Add users with: tamarisk mail user NAME --database URL")?;
        } else if let Some(password) = first_start::make_owner(database)? {
            let folder = self.place.folder.display();
            writeln!(out, "The folder {folder} is new. It has a user now, and sample mail.")?;
            writeln!(
                out,
                "Log in at http://{address}/ as `{OWNER}` with the password {password}\n\
                 The password is not shown again."
            )?;
        } else {
            writeln!(
                out,
                "Log in at http://{address}/ as `{OWNER}`, or as a user that you have added."
            )?;
        }
        if let Some(status) = self.status {
            writeln!(out, "Status page: http://{status}/")?;
        }
        Ok(())
    }
}
