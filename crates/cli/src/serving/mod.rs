//! What `protect` and `serve` have in common while they run: start, signals, messages, end.

pub(crate) mod access_log;
pub(crate) mod announcement;
pub(crate) mod front_args;
mod handover;
mod reload;
mod service_manager;
pub(crate) mod tls;
pub(crate) mod watch;

use std::cell::Cell;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tamarisk_observe::access_log::Log;
use tamarisk_observe::status::TokenSource;
use tamarisk_proxy::Upstream;
use tamarisk_server::{Capacity, Listeners};
use tamarisk_service::{FrontOptions, Reloaded, RunningFront};
use tamarisk_settings::ConfigError;
use tamarisk_stage::StageObservation;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::announcement::Doing;
use self::front_args::FrontArgs;
use self::handover::Handover;
use self::reload::{read_again_or_say_why, say};
use self::watch::Watch;
use crate::ending::Ending;
use crate::interrupt::{SignalWatch, asked_to_end, interrupted};
use crate::messages::MessageOptions;

/// A service that runs.
pub(crate) trait RunningService: Sized {
    /// What it is started with, and may be told again.
    type Options;
    /// Why other options cannot be taken over.
    type ReloadError: Into<anyhow::Error>;

    /// Whether it would start, as far as can be known without listening.
    async fn check(options: &Self::Options) -> anyhow::Result<()>;

    /// Starts it, on `listeners` if another process has passed some on.
    async fn start(options: Self::Options, listeners: Option<Listeners>) -> anyhow::Result<Self>;

    fn front(&self) -> &RunningFront;

    fn observe(&self) -> Vec<StageObservation>;

    fn upstreams(&self) -> Vec<Arc<Upstream>>;

    /// The access log, if there is one.
    fn log(&self) -> Option<Log>;

    /// How many connections the limit of open files allows, where `options` state no number.
    fn connections_by_files(options: &Self::Options) -> usize;

    /// Takes other options over.
    async fn reload(&mut self, options: &Self::Options) -> Result<Reloaded, Self::ReloadError>;

    async fn shutdown(self, timeout: Duration) -> usize;
}

/// Checks whether a service would start with these options, and says that they are `valid`.
pub(crate) fn check<S: RunningService>(
    options: &S::Options,
    valid: &str,
) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let checked = runtime.block_on(S::check(options));
    // A host may still be looked up, which would be waited for.
    runtime.shutdown_background();
    checked?;
    println!("Configuration valid: {valid}.");
    Ok(Ending::Done)
}

/// Runs a service until somebody asks it to end, then lets requests under way finish for as long as `args` say.
/// `read` reads its options again; `beside` runs meanwhile, and must not end.
pub(crate) fn run<S: RunningService>(
    messages: &MessageOptions,
    doing: &Doing,
    start: (FrontOptions, S::Options),
    read: impl Fn() -> anyhow::Result<Result<S::Options, ConfigError>>,
    beside: impl Future<Output = ()>,
    args: &FrontArgs,
) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ending =
        runtime.block_on(run_until_the_end::<S>(messages, doing, start, read, beside, args));
    // A host may still be looked up, which would be waited for.
    runtime.shutdown_background();
    ending
}

async fn run_until_the_end<S: RunningService>(
    messages: &MessageOptions,
    doing: &Doing,
    (front, options): (FrontOptions, S::Options),
    read: impl Fn() -> anyhow::Result<Result<S::Options, ConfigError>>,
    beside: impl Future<Output = ()>,
    args: &FrontArgs,
) -> anyhow::Result<Ending> {
    let drain = args.drain();
    // Also without a file to read again: the signal would end the process.
    let mut read_again = SignalWatch::read_again();
    let mut handover = Handover::watch();
    // A service manager may end us at once, and does not wait for a slow start.
    let mut end = pin!(asked_to_end());
    let listeners = match handover::inherited()? {
        sockets if sockets.is_empty() => None,
        sockets => {
            handover::warn_of_other_address(front.listen, &sockets);
            Some(Listeners::inherited(sockets, front.cores)?)
        }
    };
    let connections_by_files = S::connections_by_files(&options);
    let Some(started) = unless(end.as_mut(), S::start(options, listeners)).await else {
        handover::given_up();
        tracing::info!("Stopped before the start was complete.");
        return Ok(Ending::Done);
    };
    let mut running = started?;
    announce(doing, &running);
    say_if_few(connections_by_files, running.front().connections_limit());
    handover::ready();
    let has_successor = Cell::new(false);
    {
        let passed_on: Arc<[TcpListener]> = running.front().sockets();
        let mut beside = pin!(beside);
        // Later connections are for the process that takes over.
        let mut handed_over = pin!(handover.hand_over(&passed_on, &has_successor));
        let mut watch_stages = Watch::default();
        let mut expiry = tokio::time::interval(tls::EXPIRY_EVERY);
        let mut looks = tokio::time::interval(watch::EVERY);
        loop {
            tokio::select! {
                () = &mut end => break,
                () = &mut beside => {}
                () = &mut handed_over => {}
                _ = expiry.tick() => tls::warn_of_expiry(front.tls.as_ref()),
                now = looks.tick() => {
                    watch_stages.look(now, &running.observe(), &running.upstreams());
                    let lines = running.log().map_or(0, |log| log.lost());
                    watch_stages.look_at_losses(now, lines, running.front().rejected());
                }
                () = read_again.asked() => {
                    service_manager::reloading();
                    let reload = async {
                        reopen(running.log()).await;
                        if let Some(options) = read_again_or_say_why(messages, read()) {
                            say(running.reload(&options).await);
                        }
                    };
                    if unless(end.as_mut(), reload).await.is_none() {
                        break;
                    }
                    tls::warn_of_expiry(front.tls.as_ref());
                    service_manager::tell(&[NotifyState::Ready]);
                }
            }
        }
    }
    if has_successor.get() {
        running.front().pass_on_status(drain);
    } else {
        service_manager::tell(&[NotifyState::Stopping]);
    }
    tracing::info!("Draining for up to {drain:?}; press Ctrl-C again to stop immediately.");
    let cut = tokio::select! {
        cut = running.shutdown(drain) => cut,
        () = interrupted() => return Ok(Ending::Interrupted),
    };
    match cut {
        0 => say_all_completed(),
        count => tracing::warn!("Drain time is over: {count} busy connections were closed."),
    }
    Ok(Ending::Done)
}

/// What `start` comes to, unless `end` does before.
async fn unless<T>(
    end: Pin<&mut impl Future<Output = ()>>,
    start: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        started = start => Some(started),
        () = end => None,
    }
}

/// Says how a service ended whose stages have drained so.
#[cfg(feature = "services")]
pub(crate) fn say_drained(reports: &[tamarisk_stage::DrainReport]) {
    match reports.iter().map(|report| report.dropped + report.terminated + report.left).sum() {
        0 => say_all_completed(),
        cut => tracing::warn!("Drain time is over: {cut} requests were cut."),
    }
}

fn say_all_completed() {
    tracing::info!("Drained: all requests were completed.");
}

/// A disk that hangs holds up neither a reload nor the end.
const REOPEN_TIME: Duration = Duration::from_secs(2);

/// Opens the log again, which has been moved away perhaps, whatever the configuration says now.
async fn reopen(log: Option<Log>) {
    let Some(log) = log else { return };
    let (tell, told) = oneshot::channel();
    log.reopen_then(move |reopened| {
        let reopened = reopened.map_err(|error| format!("{error}: {}", error.source));
        // The reload may have given up waiting.
        let _ = tell.send(reopened);
    });
    match timeout(REOPEN_TIME, told).await {
        Ok(Ok(Ok(()))) => tracing::info!("Access log reopened."),
        Ok(Ok(Err(error))) => tracing::warn!(
            "Access log not reopened: {error}. Lines are written to the file that was open before."
        ),
        Ok(Err(_)) | Err(_) => tracing::warn!(
            "Access log not reopened after {REOPEN_TIME:?}: the disk does not take its lines."
        ),
    }
}

fn announce(doing: &Doing, running: &impl RunningService) {
    let front = running.front();
    let scheme = if front.handshakes().is_some() { "https" } else { "http" };
    for line in announcement::lines(doing, scheme, front.local_addr(), &running.upstreams()) {
        tracing::info!("{line}");
    }
    if let Some(address) = front.status_addr() {
        tracing::info!("Status on http://{address}/");
    }
}

/// Says how many connections the limits of open files and memory allow, if that is less than a server
/// of today may be expected to take. Where fewer are `allowed` anyway, other limits would change nothing.
fn say_if_few(connections: usize, allowed: usize) {
    if connections < 4096 && connections <= allowed {
        let Capacity { memory, files } = Capacity::of_process();
        tracing::warn!(
            "At most {connections} connections are possible with {files} open files and {} MiB of memory; raise \
             the limit of open files (`ulimit -n`), or of memory, for more.",
            memory >> 20
        );
    }
}

/// Warns of a token that others on this machine can read.
pub(crate) fn warn_of_readable(token: Option<&TokenSource>) {
    let Some(TokenSource::File(file)) = token else { return };
    let mode = std::fs::metadata(file).map(|metadata| metadata.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o044 != 0) {
        let file = file.display();
        tracing::warn!("Other users can read the token in {file}: run `chmod 600 {file}`.");
    }
}

/// A number of things, such as `1 route` and `2 routes`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_start_that_takes_long_can_be_ended() {
        assert_eq!(unless(pin!(ready(())), pending::<u8>()).await, None);
        assert_eq!(unless(pin!(pending()), ready(7)).await, Some(7));
    }
}
