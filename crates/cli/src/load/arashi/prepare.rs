//! `tamarisk load arashi prepare`: accounts and mailboxes for emulated users.

use std::io::IsTerminal;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tamarisk_arashi::store::Database;
use tamarisk_arashi_load::{Accounts, Prepared};

use super::parse_share;
use crate::arguments::misunderstood;
use crate::ending::Ending;
use tamarisk_plot::format;

/// Fill a database with accounts and mailboxes
///
/// Sizes of mailboxes are drawn from a log-normal distribution: half have fewer than 150 messages,
/// one of six has more than 670, none more than 12,794. The same seed makes the same mail.
#[derive(Debug, Args)]
pub(super) struct Prepare {
    /// Database: `sqlite:FILE`, `postgres://USER:PASSWORD@HOST:PORT/NAME` or `mariadb://…`
    #[arg(long, value_name = "URL")]
    database: String,
    /// Number of accounts
    #[arg(long, value_name = "N", default_value_t = 128)]
    accounts: usize,
    /// Accounts are called this and a number from 0
    #[arg(long, value_name = "NAME", default_value = "user")]
    account_prefix: String,
    /// Password of all accounts
    #[arg(long, value_name = "TEXT")]
    password: String,
    /// The last of the accounts, this share of them, are gold, the others bronze
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "0")]
    gold_share: f64,
    /// Seed of sizes and mail
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Prepare {
    pub(super) fn run(&self) -> anyhow::Result<Ending> {
        let accounts = Accounts::numbered(
            &self.account_prefix,
            self.accounts,
            &self.password,
            self.gold_share,
        )
        .map_err(misunderstood)?;
        let database = Database::at(&self.database).map_err(misunderstood)?;
        let bar = bar(self.accounts as u64);
        let on_account = |prepared: Prepared| {
            bar.set_position(prepared.accounts);
            bar.set_message(format!("{} messages", format::count(prepared.messages)));
        };
        let prepared = tamarisk_arashi_load::prepare(&database, &accounts, self.seed, on_account);
        bar.finish_and_clear();
        let Prepared { accounts, messages } =
            prepared.with_context(|| "the mailboxes are not complete")?;
        println!("{} accounts, {} messages", format::count(accounts), format::count(messages));
        Ok(Ending::Done)
    }
}

fn bar(accounts: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:20.green/dim} {pos}/{len} accounts · {msg}")
        .expect("the template is well-formed");
    ProgressBar::new(accounts).with_style(style.progress_chars("━━─"))
}
