//! `tamarisk mail`: the webmail Arashi.

mod import;
mod import_progress;
mod import_summary;

use clap::{Args, Subcommand};

use self::import::ImportMail;
use crate::ending::Ending;

/// Webmail
#[derive(Debug, Args)]
pub(crate) struct Mail {
    #[command(subcommand)]
    command: MailCommand,
}

#[derive(Debug, Subcommand)]
enum MailCommand {
    Import(ImportMail),
}

impl Mail {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        match self.command {
            MailCommand::Import(import) => import.run(),
        }
    }
}
