//! `tamarisk load arashi`: emulated users of webmail.

mod prepare;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use tamarisk_arashi_load::{Accounts, REQUEST_TYPES, WebmailUsers};
use tamarisk_control::parse_duration;
use tamarisk_load::{ClosedLoop, Plan, Spread, WeightedUrl, Workload};

use super::results::ResultOptions;
use super::{Changes, Generator, execute, parse_spread, retry_after};
use crate::arguments::{misunderstood, target_time};
use crate::ending::Ending;

const EXAMPLES: &str = "\
Examples:
  Accounts and mailboxes, and a server that serves them:
    tamarisk load arashi prepare --database sqlite:mail/mail.db --accounts 128 --password loadtest
  16 users for a minute, with a target for all requests and another one for searches:
    tamarisk load arashi http://127.0.0.1:8080/ --users 16 --for 60s --account-count 128 --password loadtest --target 1s --target search=4s
  A flash crowd, the accounts and their classes from a file of lines `name,password,class`:
    tamarisk load arashi http://127.0.0.1:8080/ --users 3 --spike 1000@10s..40s --accounts accounts.csv --plot crowd.svg";

/// Emulate users of Arashi, the webmail of `tamarisk mail`
///
/// Users log in, list, show, delete, refile and search with the probabilities that were found at a
/// department's mail server [Welsh02 fig. 46]. They follow the marks of the pages that come, on one
/// connection each. A page without a mark that should be there counts as failed, with the reason.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(super) struct Arashi {
    #[command(subcommand)]
    before: Option<Before>,

    /// URL of the webmail
    #[arg(required = true, value_name = "URL")]
    url: Option<WeightedUrl>,
    /// Number of users
    #[arg(long, value_name = "N", default_value_t = 1)]
    users: u32,
    /// A user's pause between an answer and the next request
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "20ms")]
    think: Duration,
    /// A user's pause after a rejection or an error, at least 100ms after an error without an answer,
    /// before it logs in again
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    after_reject: Duration,
    /// After a rejection, wait as long as its Retry-After says
    #[arg(long)]
    honour_retry_after: bool,
    /// Vary a user's pauses randomly by up to this share, up and down; a Retry-After only up
    #[arg(long, value_name = "SHARE", value_parser = parse_spread, default_value = "0")]
    spread: Spread,
    /// Time limit of a request
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    timeout: Duration,

    #[command(flatten)]
    accounts: AccountOptions,
    #[command(flatten)]
    changes: Changes,
    /// Answers within this latency count towards the goodput: of all types of request, or of one
    /// (`search=2s`); may be given several times [default: all do]
    #[arg(long = "target", value_name = "[TYPE=]TIME", help_heading = "Results")]
    targets: Vec<Target>,
    #[command(flatten)]
    results: ResultOptions,
    #[command(flatten)]
    generator: Generator,
}

/// What is done before a run
#[derive(Debug, Subcommand)]
enum Before {
    Prepare(prepare::Prepare),
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Accounts")]
struct AccountOptions {
    /// File of accounts, a line `name,password,class` each; user number n has the n-th
    #[arg(long, value_name = "FILE", conflicts_with_all = ["account_count", "password"])]
    accounts: Option<PathBuf>,
    /// Without a file: accounts are called this and a number from 0
    #[arg(long, value_name = "NAME", default_value = "user")]
    account_prefix: String,
    /// Without a file: how many accounts there are
    #[arg(long, value_name = "N", required_unless_present = "accounts")]
    account_count: Option<usize>,
    /// Without a file: the password of all accounts
    #[arg(long, value_name = "TEXT", required_unless_present = "accounts")]
    password: Option<String>,
    /// Without a file: the last of the accounts, this share of them, are gold, the others bronze
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "0")]
    gold_share: f64,
}

/// A target of all types of request, or of one.
#[derive(Clone, Debug)]
struct Target {
    request_type: Option<String>,
    time: Duration,
}

impl Arashi {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        match &self.before {
            Some(Before::Prepare(prepare)) => prepare.run(),
            None => execute(self.plan()?, &self.results),
        }
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let workload = Workload::Closed(ClosedLoop {
            users: self.changes.schedule(self.users.into())?,
            think: self.think,
            after_reject: self.after_reject,
            retry_after: retry_after(self.honour_retry_after),
            spread: self.spread,
            resend: None,
        });
        let mut users = WebmailUsers::new(self.accounts.accounts()?, self.generator.seed);
        let mut plan = Plan::builder(workload, self.url.iter().cloned().collect())
            .timeout(self.timeout)
            .interval(self.results.interval)
            .drain(self.results.drain)
            .seed(self.generator.seed);
        for Target { request_type, time } in &self.targets {
            match request_type {
                Some(name) => users = users.target(name, *time).map_err(misunderstood)?,
                None => plan = plan.target(*time),
            }
        }
        if let Some(threads) = self.generator.threads {
            plan = plan.threads(threads);
        }
        plan.population(Arc::new(users)).build().map_err(misunderstood)
    }
}

impl AccountOptions {
    fn accounts(&self) -> anyhow::Result<Accounts> {
        if let Some(path) = &self.accounts {
            return Ok(Accounts::read(path)?);
        }
        let count = self.account_count.unwrap_or_default();
        let password = self.password.as_deref().unwrap_or_default();
        Accounts::numbered(&self.account_prefix, count, password, self.gold_share)
            .map_err(misunderstood)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (request_type, time) = match text.split_once('=') {
            Some((name, time)) => (Some(name), time),
            None => (None, text),
        };
        if let Some(name) = request_type.filter(|name| !REQUEST_TYPES.contains(name)) {
            let types = REQUEST_TYPES.join(", ");
            return Err(format!("`{name}` is not a type of request; there are {types}"));
        }
        Ok(Self { time: target_time(time)?, request_type: request_type.map(str::to_owned) })
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a share; write one from 0 to 1, such as `0.5`"))
}
