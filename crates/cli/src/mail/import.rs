//! `tamarisk mail import`: mail from files into a user's folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use tamarisk_arashi::import::{Import, ImportEvent};
use tamarisk_arashi::mail::new_message_and_defects;
use tamarisk_arashi::store::{
    Account, Database, FolderId, FolderKind, NewMessage, Store, StoreError, Untimed,
};

use super::ensure_there;
use super::import_progress::ImportProgress;
use super::import_summary::{ImportSummary, Place};
use crate::arguments::misunderstood;
use crate::ending::Ending;
use crate::interrupt::interrupted;
use crate::output::{Destination, Output};

const EXAMPLES: &str = "\
Examples:
  An mbox and a Maildir into the inbox of the user that the first start of `tamarisk mail` has made:
    tamarisk mail import --user owner archive.mbox ~/Maildir
  A folder of single messages into a folder, which is made if it is not there:
    tamarisk mail import --database sqlite:/srv/mail/mail.db --user alice --folder Lists lists/

Messages that are damaged are kept as they came and shown as far as they can be read. An import
that is repeated imports all messages again.";

/// Import mail from mboxes, Maildirs, single messages (.eml), and folders of these
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportMail {
    /// What to import
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Database: `sqlite:FILE`, `postgres://USER:PASSWORD@HOST:PORT/NAME` or `mariadb://…`
    #[arg(long, value_name = "URL", default_value = "sqlite:mail/mail.db")]
    database: String,
    /// User whose mail it is
    #[arg(long, value_name = "NAME")]
    user: String,
    /// Folder to put it into [default: the inbox]
    #[arg(long, value_name = "NAME")]
    folder: Option<String>,
    /// Write the summary as JSON (`-` for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Destination>,
}

impl ImportMail {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let is_interrupted = watch_for_interrupt()?;
        let mut messages = Import::open(&self.paths).map_err(|(path, error)| {
            anyhow!(error).context(format!("cannot read {}", path.display()))
        })?;
        let output = self.json.as_ref().map(Output::open).transpose()?;
        let database = Database::at(&self.database).map_err(misunderstood)?;
        ensure_there(&database)?;
        let mut store = database.connect().context("cannot open the database")?;
        let account = self.account(&mut store)?;
        let folder = self.folder(&mut store, &account)?;

        let mut summary = ImportSummary::new(&account.name, self.folder.as_deref());
        let mut progress = ImportProgress::new(messages.total_bytes());
        let mut failed = None;
        while failed.is_none() && !is_interrupted.load(Ordering::Relaxed) {
            let mut batch = Batch {
                messages: &mut messages,
                summary: &mut summary,
                is_interrupted: &is_interrupted,
                progress: &mut progress,
            };
            let mut of_batch = std::iter::from_fn(|| batch.next());
            // In one transaction: if the next one fails, it is known how many are in.
            match store.deliver_next(&Untimed, account.id, folder, &mut of_batch) {
                Ok(0) => break,
                Ok(count) => summary.imported += count,
                Err(error) => failed = Some(error),
            }
        }
        progress.finish();
        summary.is_interrupted = is_interrupted.load(Ordering::Relaxed);
        match output {
            Some(output) => output.write(&serde_json::to_vec_pretty(&summary)?)?,
            None => eprint!("{summary}"),
        }
        if let Some(error) = failed {
            return Err(error).with_context(|| {
                format!("{} messages were imported before the database failed", summary.imported)
            });
        }
        Ok(if summary.is_interrupted { Ending::Interrupted } else { Ending::Done })
    }

    fn account(&self, store: &mut Store) -> anyhow::Result<Account> {
        match store.account(&Untimed, &self.user)? {
            Some(account) => Ok(account),
            None => bail!("no user {:?} in this database", self.user),
        }
    }

    /// The folder, made if it is not there.
    fn folder(&self, store: &mut Store, account: &Account) -> Result<FolderId, StoreError> {
        let folders = store.folders(&Untimed, account.id)?;
        let found = folders.iter().find(|folder| match &self.folder {
            None => folder.kind == FolderKind::Inbox,
            Some(name) => folder.name == *name,
        });
        match (found, &self.folder) {
            (Some(folder), _) => Ok(folder.id),
            (None, Some(name)) => store.create_folder(&Untimed, account.id, name),
            (None, None) => Err(StoreError::NotFound),
        }
    }
}

/// The messages of an import that go into the database together.
struct Batch<'a> {
    messages: &'a mut Import,
    summary: &'a mut ImportSummary,
    progress: &'a mut ImportProgress,
    is_interrupted: &'a AtomicBool,
}

impl Batch<'_> {
    fn next(&mut self) -> Option<NewMessage> {
        while !self.is_interrupted.load(Ordering::Relaxed) {
            let event = self.messages.next()?;
            self.progress.show(self.messages.read_bytes(), self.summary);
            match event {
                ImportEvent::Skipped { place, reason } => {
                    self.summary.skipped.note(Place { place, reason });
                }
                ImportEvent::Message(message) => {
                    let received = message.received_seconds;
                    let (mut mail, defects) = new_message_and_defects(message.raw, received);
                    mail.is_read = message.is_read;
                    if !defects.is_empty() {
                        let (place, reason) = (message.place, defects.join("; "));
                        self.summary.damaged.note(Place { place, reason });
                    }
                    return Some(mail);
                }
            }
        }
        None
    }
}

/// Set by Ctrl-C; a second one ends the process at once, as when the database does not answer.
fn watch_for_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let interrupt = Arc::clone(&is_interrupted);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("interrupt".into()).spawn(move || {
        runtime.block_on(async {
            interrupted().await;
            interrupt.store(true, Ordering::Relaxed);
            interrupted().await;
            std::process::exit(130);
        });
    })?;
    Ok(is_interrupted)
}
