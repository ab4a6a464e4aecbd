//! `tamarisk mail remove`: removes a user.

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, bail, ensure};
use clap::Args;
use console::Term;
use tamarisk_arashi::store::Untimed;

use super::MailPlace;
use crate::ending::Ending;

const EXAMPLES: &str = "\
Examples:
  The name is asked for again, because mail is deleted:
    tamarisk mail remove bob
  From a script:
    tamarisk mail remove bob --yes";

/// Remove a user with all mail of the user, for good
///
/// The user's sessions end. What the user has sent to others stays with them. The service may be running.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MailRemove {
    /// Name of the user
    name: String,
    #[command(flatten)]
    place: MailPlace,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl MailRemove {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let database = self.place.existing_database()?;
        let mut store = database.connect().context("cannot open the database")?;
        let name = &self.name;
        let unknown = || format!("no user of this database has the name `{name}`");
        store.account(&Untimed, name)?.with_context(unknown)?;
        if !self.yes {
            confirm(name)?;
        }
        ensure!(store.remove_account(&Untimed, name)?, unknown());
        writeln!(io::stdout(), "User `{name}` removed.")?;
        Ok(Ending::Done)
    }
}

fn confirm(name: &str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() {
        bail!("all mail of `{name}` would be deleted: add --yes if that is meant");
    }
    let terminal = Term::stderr();
    terminal.write_str(&format!("All mail of `{name}` will be deleted. Type the name again: "))?;
    ensure!(terminal.read_line()?.trim() == name, "the names differ: nothing was deleted");
    Ok(())
}
