//! `tamarisk mail`: webmail, with its data in a folder or in a database.

mod file;
mod first_start;
mod import;
mod import_progress;
mod import_summary;
mod password;
mod remove;
mod serve;
mod settings;
mod user;
mod users;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use tamarisk_arashi::store::Database;

pub(crate) use self::file::load;
#[cfg(test)]
pub(crate) use self::file::{FILE, parse};
use self::import::ImportMail;
use self::password::MailPassword;
use self::remove::MailRemove;
use self::serve::MailServe;
pub(crate) use self::serve::{check, serve};
use self::user::MailUser;
use self::users::MailUsers;
use crate::arguments::misunderstood;
use crate::ending::Ending;

const EXAMPLES: &str = "\
Examples:
  Try it: the first start makes the folder `mail` with a user and sample mail, and prints the password:
    tamarisk mail
  Another address and folder, and a status page:
    tamarisk mail --listen 127.0.0.1:8025 --folder /srv/mail --status 127.0.0.1:9090
  Mail in PostgreSQL or MariaDB; the tables are made by whoever connects first:
    tamarisk mail user ada --gold --database postgres://mail:secret@127.0.0.1:5432/mail
    tamarisk mail --database postgres://mail:secret@127.0.0.1:5432/mail
  Another password for a user who has lost it:
    tamarisk mail password owner
  A target for all kinds of requests, and another for searches:
    tamarisk mail --p90 200ms --p90 search=1s
  Behind a proxy that ends TLS:
    tamarisk mail --behind-tls --trusted-proxy 127.0.0.1
  The same options from a file, docs/examples/mail.toml:
    tamarisk serve mail.toml

Kinds of requests: log-in, log-out, folders, list, message, delete, refile, search, digest,
create-folder, delete-folder, compose. Each is a stage: while searches are rejected, messages can be read.

SIGTERM and Ctrl-C drain: open requests are completed for up to ten seconds.";

/// Serve webmail
///
/// Without arguments, mail is kept in the folder `mail` and served at http://127.0.0.1:8080/.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Mail {
    #[command(subcommand)]
    command: Option<MailCommand>,
    #[command(flatten)]
    serve: MailServe,
}

#[derive(Debug, Subcommand)]
enum MailCommand {
    User(MailUser),
    Users(MailUsers),
    Password(MailPassword),
    Remove(MailRemove),
    Import(ImportMail),
}

/// Where mail is kept.
#[derive(Debug, Args)]
struct MailPlace {
    /// Database: sqlite:FILE, postgres://USER:PASSWORD@HOST:PORT/NAME or mariadb://USER:PASSWORD@HOST:PORT/NAME
    #[arg(long, value_name = "URL", conflicts_with = "folder")]
    database: Option<String>,
    /// Folder for a SQLite database
    #[arg(long, value_name = "DIR", default_value = "mail")]
    folder: PathBuf,
}

impl Mail {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        match self.command {
            None => self.serve.run(),
            Some(MailCommand::User(user)) => user.run(),
            Some(MailCommand::Users(users)) => users.run(),
            Some(MailCommand::Password(password)) => password.run(),
            Some(MailCommand::Remove(remove)) => remove.run(),
            Some(MailCommand::Import(import)) => import.run(),
        }
    }
}

/// What is misspelt is not made.
fn ensure_there(database: &Database) -> anyhow::Result<()> {
    if let Some(file) = database.file() {
        let file_shown = file.display();
        ensure!(file.exists(), "there is no mail at {file_shown}: is it the right place?");
    }
    Ok(())
}

impl MailPlace {
    /// The database; its folder is made if it is not there.
    fn database(&self) -> anyhow::Result<Database> {
        if self.database.is_none() {
            // Other users of this machine cannot read the mail.
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
            made.with_context(|| format!("cannot create the folder {}", self.folder.display()))?;
        }
        self.stated_database()
    }

    /// The same where there is mail already: what is misspelt is not made.
    fn existing_database(&self) -> anyhow::Result<Database> {
        let database = self.stated_database()?;
        ensure_there(&database)?;
        Ok(database)
    }

    fn stated_database(&self) -> anyhow::Result<Database> {
        if let Some(url) = &self.database {
            return Database::at(url).map_err(misunderstood);
        }
        let file = self.folder.join("mail.db");
        let file = file.to_str().ok_or_else(|| {
            misunderstood(format!("the path of the folder is not UTF-8: {}", file.display()))
        })?;
        Database::at(&format!("sqlite:{file}")).map_err(misunderstood)
    }
}
