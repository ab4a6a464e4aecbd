//! `tamarisk mail user`: adds a user.

use std::io::{self, BufRead, Read};

use anyhow::Context;
use clap::Args;
use console::Term;
use tamarisk_arashi::store::{AccountClass, Untimed};

use super::MailPlace;
use crate::ending::Ending;

/// The longest password, and its line feed.
const LINE_BYTES_MAX: u64 = 1026;

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
        let mut store = self.place.database()?.connect().context("cannot open the database")?;
        let password = read_password()?;
        let class = if self.gold { AccountClass::Gold } else { AccountClass::Bronze };
        let account = store.create_account(&Untimed, &self.name, &password, class)?;
        println!("User `{}` added.", account.name);
        Ok(Ending::Done)
    }
}

/// Asks for a password twice, or reads it once if nobody is there to be asked.
fn read_password() -> anyhow::Result<String> {
    let terminal = Term::stderr();
    if !io::IsTerminal::is_terminal(&io::stdin()) {
        let mut line = String::new();
        let read = io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line);
        read.context("cannot read the password from standard input")?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    terminal.write_str("Password: ")?;
    let password = terminal.read_secure_line()?;
    terminal.write_str("The same again: ")?;
    anyhow::ensure!(terminal.read_secure_line()? == password, "the passwords differ: try again");
    Ok(password)
}
