//! `tamarisk mail password`: gives a user another password.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use anyhow::{Context, ensure};
use clap::Args;
use console::Term;
use tamarisk_arashi::store::Untimed;

use super::MailPlace;
use crate::ending::Ending;

/// The longest password, and its line feed.
const LINE_BYTES_MAX: u64 = 1026;

const EXAMPLES: &str = "\
Examples:
  The password is asked for:
    tamarisk mail password owner
  It is the first line of standard input, as a script gives it:
    tamarisk mail password bob --database postgres://mail:secret@127.0.0.1:5432/mail < password.txt";

/// Give a user another password, and end all sessions of the user
///
/// The password is asked for, or read from standard input if that is no terminal: an argument would be
/// seen by others on this machine. The service may be running.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MailPassword {
    /// Name of the user
    name: String,
    #[command(flatten)]
    place: MailPlace,
}

impl MailPassword {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let database = self.place.existing_database()?;
        let mut store = database.connect().context("cannot open the database")?;
        let name = &self.name;
        let is_known = store.account(&Untimed, name)?.is_some();
        ensure!(
            is_known,
            "no user of this database has the name `{name}`: `tamarisk mail user` adds users"
        );
        store.set_password(&Untimed, name, &read_password()?)?;
        writeln!(io::stdout(), "User `{name}` has a new password. All sessions have ended.")?;
        Ok(Ending::Done)
    }
}

/// Asks for a password twice, or reads it once if standard input is no terminal.
pub(super) fn read_password() -> anyhow::Result<String> {
    let terminal = Term::stderr();
    if !io::stdin().is_terminal() {
        let mut line = String::new();
        let read = io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line);
        read.context("cannot read the password from standard input")?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    terminal.write_str("Password: ")?;
    let password = terminal.read_secure_line()?;
    terminal.write_str("The same again: ")?;
    ensure!(terminal.read_secure_line()? == password, "the passwords differ: try again");
    Ok(password)
}
