//! `tamarisk mail users`: lists the users.

use std::io::{self, BufWriter, Write};

use anyhow::Context;
use clap::Args;
use tamarisk_arashi::store::{Account, AccountClass, Untimed};

use super::MailPlace;
use crate::ending::Ending;

/// How many are read at once.
const USERS_AT_ONCE: u32 = 1000;

const EXAMPLES: &str = "\
Examples:
  tamarisk mail users
  tamarisk mail users --json --database postgres://mail:secret@127.0.0.1:5432/mail";

/// List the users, by name
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MailUsers {
    #[command(flatten)]
    place: MailPlace,
    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

impl MailUsers {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let database = self.place.existing_database()?;
        let mut store = database.connect().context("cannot open the database")?;
        let mut output = BufWriter::new(io::stdout().lock());
        let mut last = String::new();
        loop {
            let accounts = store.accounts(&Untimed, &last, USERS_AT_ONCE)?;
            let Some(account) = accounts.last() else { break };
            last.clone_from(&account.name);
            for account in &accounts {
                self.write(&mut output, account)?;
            }
        }
        output.flush()?;
        Ok(Ending::Done)
    }

    fn write(&self, output: &mut impl Write, account: &Account) -> anyhow::Result<()> {
        let Account { name, class, .. } = account;
        let class = match class {
            AccountClass::Gold => "gold",
            AccountClass::Bronze => "bronze",
        };
        if self.json {
            serde_json::to_writer(
                &mut *output,
                &serde_json::json!({ "name": name, "class": class }),
            )?;
            writeln!(output)?;
        } else {
            writeln!(output, "{class:<6}  {name}")?;
        }
        Ok(())
    }
}
