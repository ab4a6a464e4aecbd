//! Serving webmail until the process is told to stop.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;

use anyhow::Context;
use clap::Args;
use tamarisk::axum::Service;
use tamarisk_arashi::Arashi;
use tamarisk_arashi::store::Database;
use tamarisk_service::{SameAddress, ensure_apart};
use tokio::net::TcpListener;

use super::first_start::{self, OWNER};
use super::settings::MailSettings;
use crate::arguments::misunderstood;
use crate::ending::Ending;
use crate::interrupt::{SignalWatch, asked_to_end, ignore_restarts};
use crate::messages::MessageOptions;
use crate::serving::say_drained;
use crate::serving::watch::{self, Watch};

/// Serve webmail.
#[derive(Debug, Args)]
pub(super) struct MailServe {
    #[command(flatten)]
    settings: MailSettings,
    #[command(flatten)]
    messages: MessageOptions,
}

impl MailServe {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        self.messages.start();
        self.messages.told(serve(&self.settings))
    }
}

/// Serves webmail until the process is told to stop.
pub(crate) fn serve(settings: &MailSettings) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve_until_the_end(settings))
}

async fn serve_until_the_end(settings: &MailSettings) -> anyhow::Result<Ending> {
    check_addresses(settings)?;
    let database = settings.place.database()?;
    let listener = listen(settings.listen).await?;
    let status = match settings.status {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let arashi = open(settings, database.clone())?;
    let ended = asked_to_end();
    let (hung_up, restart) = (SignalWatch::read_again(), SignalWatch::restart());
    // Last: the password of a new user is shown once.
    let status_address = status.as_ref().map(TcpListener::local_addr).transpose()?;
    greet(settings, listener.local_addr()?, status_address, &database)?;
    let service = status.into_iter().fold(arashi.service(), Service::status_on);
    let served = service.serve_until(listener, arashi.router(), ended);
    let reports = tokio::select! {
        reports = served => reports?,
        never = answer_hang_ups(hung_up) => match never {},
        never = ignore_restarts(restart) => match never {},
        never = watch_stages(&arashi) => match never {},
    };
    say_drained(&reports);
    Ok(Ending::Done)
}

/// Opens what is to be served, and neither a port nor the database.
pub(crate) fn check(settings: &MailSettings) -> anyhow::Result<Ending> {
    check_addresses(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { open(settings, settings.place.stated_database()?) })?;
    writeln!(io::stdout(), "Configuration valid: webmail.")?;
    Ok(Ending::Done)
}

/// That the status page has an address of its own.
fn check_addresses(settings: &MailSettings) -> Result<(), SameAddress> {
    settings.status.map_or(Ok(()), |status| ensure_apart(settings.listen, status))
}

fn open(settings: &MailSettings, database: Database) -> anyhow::Result<Arashi> {
    // With its cause: a file that cannot be read is among them.
    Arashi::open(settings.options(database))
        .map_err(|error| misunderstood(format!("{:#}", anyhow::Error::from(error))))
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}"))
}

/// SIGHUP would end the process at once, with its open requests.
async fn answer_hang_ups(mut hung_up: SignalWatch) -> Infallible {
    loop {
        hung_up.asked().await;
        tracing::warn!(
            "SIGHUP changes nothing: webmail reads its configuration at the start only."
        );
    }
}

/// Tells of overloads and failures.
async fn watch_stages(arashi: &Arashi) -> Infallible {
    let mut looks = tokio::time::interval(watch::EVERY);
    let mut watch = Watch::default();
    loop {
        let now = looks.tick().await;
        watch.look(now, &arashi.observe(), &[]);
    }
}

/// Says where the service is, and as whom to log in. The first start of a folder makes a user.
fn greet(
    settings: &MailSettings,
    address: SocketAddr,
    status: Option<SocketAddr>,
    database: &Database,
) -> anyhow::Result<()> {
    let mut text = match status {
        Some(status) => format!("Status page: http://{status}/\n"),
        None => String::new(),
    };
    if settings.place.database.is_some() {
        text += &format!(
            "Mail is served at http://{address}/\n\
             Add users with: tamarisk mail user NAME --database URL\n"
        );
    } else if let Some(password) = first_start::make_owner(database)? {
        let folder = settings.place.folder.display();
        text += &format!(
            "The folder {folder} had no user `{OWNER}`. It has one now, with sample mail.\n\
             Log in at http://{address}/ as `{OWNER}` with the password {password}\n\
             The password is not shown again; `tamarisk mail password {OWNER} --folder {folder}` \
             sets another.\n"
        );
    } else {
        text += &format!(
            "Log in at http://{address}/ as `{OWNER}`, or as a user that you have added.\n"
        );
    }
    // In one write: a reader that closes the pipe after the first lines makes no error.
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
