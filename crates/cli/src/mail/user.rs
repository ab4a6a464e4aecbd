//! `tamarisk mail user`: adds a user.

use std::io::{self, Write};

use anyhow::Context;
use clap::Args;
use tamarisk_arashi::store::{AccountClass, Untimed};

use super::MailPlace;
use super::password::read_password;
use crate::ending::Ending;

const EXAMPLES: &str = "\
Examples:
  The password is asked for:
    tamarisk mail user ada --gold
  It is the first line of standard input, as a script gives it:
    tamarisk mail user bob --database postgres://mail:secret@127.0.0.1:5432/mail < password.txt";

/// Add a user
///
/// The password is asked for, or read from standard input if that is no terminal: an argument would be
/// seen by others on this machine.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MailUser {
    /// Name to log in by, and to send mail to
    name: String,
    #[command(flatten)]
    place: MailPlace,
    /// Serve this user first under overload
    #[arg(long)]
    gold: bool,
}

impl MailUser {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let database = self.place.database()?;
        let mut store = database.connect().context("cannot open the database")?;
        let password = read_password()?;
        let class = if self.gold { AccountClass::Gold } else { AccountClass::Bronze };
        let account = store.create_account(&Untimed, &self.name, &password, class)?;
        let place = database.file().map(|file| format!(" to {}", file.display()));
        writeln!(io::stdout(), "User `{}` added{}.", account.name, place.unwrap_or_default())?;
        Ok(Ending::Done)
    }
}
