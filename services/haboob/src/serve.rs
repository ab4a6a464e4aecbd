//! Starts a site: listening sockets, cores and site snapshot.

use std::net::SocketAddr;
use std::time::Duration;

use tamarisk_observe::status::Board;
use tamarisk_server::Listeners;
use tamarisk_service::{
    Front, FrontError, FrontOptions, LeadsBack, PreparedFront, Reloaded, RunningFront, UnknownHost,
    UpstreamOptions,
};
use tamarisk_settings::{Mistakes, Several};
use tamarisk_stage::StageObservation;

use crate::site::options::SiteOptions;
use crate::site::{Site, SiteError};

/// Descriptors kept beside connections and open files: 256 for pages in files in memory, and the
/// others for files that threads have found and not read.
const FILES_RESERVED: usize = 1024;

/// Files that may be open besides, and their share of the descriptors if that is more: of eight
/// clients hardly more than one is sent a long file of its own.
const OPEN_FILES_MIN: usize = 512;
const OPEN_FILES_SHARE: usize = 8;

/// What is served, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients are served.
    pub front: FrontOptions,
    /// The files.
    pub site: SiteOptions,
}

impl Options {
    /// One thread for each core, and as many connections as there are descriptors left beside open
    /// files, or half as many if each may need another one to a service behind; in clear text.
    pub fn new(listen: SocketAddr, site: SiteOptions) -> Self {
        Self::with_front(FrontOptions::new(listen), site)
    }

    /// The same where `front` says, as many connections as there may be.
    pub(crate) fn with_front(mut front: FrontOptions, mut site: SiteOptions) -> Self {
        let half = front.server.connections_limit();
        site.open_files_max = (2 * half / OPEN_FILES_SHARE).max(OPEN_FILES_MIN);
        let possible = if site.has_proxies() { half } else { 2 * half };
        let connections = possible.saturating_sub(FILES_RESERVED + site.open_files_max);
        front.server = front.server.connections_max(connections.max(64));
        Self { front, site }
    }

    /// The site, which clients reach by `front`.
    fn site_behind(&self, front: &FrontOptions) -> SiteOptions {
        let (scheme, limits) = (front.scheme(), front.server.limits_of_clients().clone());
        SiteOptions { scheme, limits, ..self.site.clone() }
    }
}

/// Why serving could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Clients cannot be served.
    #[error(transparent)]
    Front(#[from] FrontError),
    /// The host of a service behind has no address.
    #[error(transparent)]
    Unknown(#[from] UnknownHost),
    /// A service behind is where clients are served.
    #[error(transparent)]
    LeadsBack(#[from] LeadsBack),
    /// The site cannot be served.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// Several of these.
    #[error("{}, and {} more", .0[0], .0.len() - 1)]
    Several(Vec<Self>),
}

impl Several for StartError {
    fn several(reasons: Vec<Self>) -> Self {
        Self::Several(reasons)
    }
}

impl StartError {
    /// Each reason by itself.
    pub fn reasons(self) -> Vec<Self> {
        match self {
            Self::Several(reasons) => reasons,
            reason => vec![reason],
        }
    }
}

/// A site that is being served.
pub struct Running {
    /// What it was started with; what of it cannot change on the way has not.
    options: Options,
    site: Site,
    front: RunningFront,
}

/// Serves a site on threads of its own; its stages are governed on the runtime that this
/// is called on.
///
/// # Errors
/// [`StartError`], before anything serves.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let prepared = Prepared::new(&options, None).await?;
    prepared.serve(PreparedFront::bind, options)
}

/// The same on `listeners` that there are already, whatever the options say of an address.
///
/// # Errors
/// [`StartError`], before anything serves.
pub async fn start_on(listeners: Listeners, options: Options) -> Result<Running, StartError> {
    let prepared = Prepared::new(&options, Some(listeners.local_addr())).await?;
    prepared.serve(|front| front.inherit(listeners), options)
}

/// Whether [`start`] would start with these options, as far as can be known without listening: another process
/// may serve with them. Files that are written are made if they are not there.
///
/// # Errors
/// [`StartError`], with all reasons that are found.
pub async fn check(options: &Options) -> Result<(), StartError> {
    let prepared = Prepared::new(options, None).await?;
    prepared.site.close();
    Ok(())
}

/// All that serves, before anything listens.
struct Prepared {
    front: PreparedFront,
    site: Site,
}

impl Prepared {
    /// What `options` say, for clients who come by sockets that were `inherited`, if any were.
    async fn new(options: &Options, inherited: Option<SocketAddr>) -> Result<Self, StartError> {
        let mut mistakes = Mistakes::<StartError>::default();
        let front = PreparedFront::new(&options.front, inherited, &mut mistakes);
        let listening = options.front.listening(inherited);
        let services: Vec<_> = options.site.services().collect();
        UpstreamOptions::reach_all(services, &listening, &mut mistakes).await;
        let site = mistakes.note(Site::open(options.site_behind(&options.front)));
        mistakes.done(|| Some(Self { front: front?, site: site? }))
    }

    fn serve(
        self,
        listen: impl FnOnce(PreparedFront) -> Result<Front, FrontError>,
        options: Options,
    ) -> Result<Running, StartError> {
        let Self { front, site } = self;
        let (shown, served) = (site.clone(), site.clone());
        let show = move |board| show(board, &shown);
        let front = listen(front)?.serve(show, async move |server, listener, drain| {
            let site = served.on_core();
            server.serve(listener, |client| site.connect(client), drain).await
        })?;
        Ok(Running { options, site, front })
    }
}

/// What is shown of a site, whatever its stages are at the time.
fn show(mut board: Board, site: &Site) -> Board {
    for stage in 0..site.observe().len() {
        let site = site.clone();
        board = board.stage(move || {
            let [files, chunks] = site.observe();
            if stage == 0 { files } else { chunks }
        });
    }
    board = board.rejections(&site.rejections());
    board = site.gates().fold(board, |board, gate| board.gate(&gate));
    site.log().iter().fold(board, Board::log)
}

impl Running {
    /// The sockets, the cores and the status port.
    pub fn front(&self) -> &RunningFront {
        &self.front
    }

    /// Where clients are served.
    pub fn local_addr(&self) -> SocketAddr {
        self.front.local_addr()
    }

    /// The stage for TLS handshakes at this instant, if there is one.
    pub fn handshakes(&self) -> Option<StageObservation> {
        self.front.handshakes()
    }

    /// Looks for the addresses of the services that `options` add, as the start does for all. A
    /// [reload](Self::reload) does not: call this before.
    ///
    /// # Errors
    /// [`UnknownHost`] if one of them has no address at present.
    pub async fn resolve_new(&self, options: &Options) -> Result<(), UnknownHost> {
        let now = self.site.snapshot();
        let is_known = |service: &UpstreamOptions| {
            now.options.services().any(|known| known.origin == service.origin)
        };
        let new = options.site.services().filter(|service| !is_known(service));
        UpstreamOptions::resolve_all(new).await.into_iter().next().map_or(Ok(()), Err)
    }

    /// Takes over what can change on the way: the [site](Site::reload) and certificates. Everything
    /// else that differs is named, and stays as it was. No request and no connection is lost.
    ///
    /// # Errors
    /// [`SiteError`]; then nothing has changed.
    pub fn reload(&self, options: &Options) -> Result<Reloaded, SiteError> {
        let now = &self.options;
        let changed = self.site.reload(options.site_behind(&now.front))?;
        let mut reloaded = Reloaded { changed, ..Reloaded::default() };
        now.front.compare(&options.front, &mut reloaded);
        let same_threads = now.site.file_workers == options.site.file_workers;
        reloaded.compare(&[("file_threads", same_threads)]);
        let threads = [&now.site, &options.site].map(|site| Some(site.file_workers.to_string()));
        reloaded.keep_values("file_threads", threads);
        reloaded.certificates(now.front.tls.as_ref(), options.front.tls.as_ref());
        self.front.renew_status();
        Ok(reloaded)
    }

    /// All stages at this instant.
    pub fn observe(&self) -> Vec<StageObservation> {
        let gates = self.site.gates().map(|gate| gate.observe());
        self.site.observe().into_iter().chain(gates).chain(self.handshakes()).collect()
    }

    /// Where the status is shown.
    pub fn status_addr(&self) -> Option<SocketAddr> {
        self.front.status_addr()
    }

    /// The site.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Takes no new connections, lets requests finish within `timeout`, and ends; how many
    /// connections were still busy then. The status is shown until the very end.
    pub async fn shutdown(mut self, timeout: Duration) -> usize {
        let cut = self.front.drain(timeout).await;
        self.site.close();
        cut
    }
}
