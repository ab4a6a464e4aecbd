//! The service as a whole.

use std::sync::Arc;

use axum::Router;
use http::HeaderName;
use tamarisk::{Request, Stage};

use super::answer::Answer;
use super::client::ClientAddresses;
use super::cookies::Cookies;
use super::digest;
use super::front::{Front, LongForms, router};
use super::kind::RequestKind;
use super::known_accounts::KnownAccounts;
use super::log_in_limit::LogInLimit;
use super::options::{OpenError, Options};
use super::stage::{MailRequest, Shared, Worker};

/// As many messages as a page can have: fewer are no list, more are slow to read and to make.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 10..=100;

/// The classes of requests, the more important first.
const CLASSES: [&str; 2] = ["gold", "bronze"];

/// With a database on another machine or in another process, a stage may have up to eight
/// connections: all of them together stay below a hundred, which servers take by default.
const CONNECTIONS_MAX: u32 = 8;

/// Webmail: a stage for each kind of request, and the routes to them.
#[derive(Clone)]
pub struct Arashi {
    front: Arc<Front>,
}

impl Arashi {
    /// Starts the stages. The database is connected to when it is first needed, and again after
    /// a loss, so that it may be down.
    ///
    /// # Errors
    /// If the options cannot be, or outside of a tokio runtime.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        if !PAGE_SIZES.contains(&options.page_size) {
            return Err(OpenError::PageSize(options.page_size));
        }
        let class_header = match &options.class_header {
            None => None,
            Some(name) => {
                let parsed = HeaderName::try_from(name.as_str());
                Some(parsed.map_err(|_| OpenError::ClassHeader(name.clone()))?)
            }
        };
        let workers = workers_max(RequestKind::Digest, &options);
        let (site, digest) = digest::open(&options, &CLASSES, workers)?;
        let shared = Arc::new(Shared {
            database: options.database.clone(),
            digest,
            page_size: options.page_size,
            cookies: Cookies::new(options.behind_tls),
            accounts: KnownAccounts::new(),
            log_ins: LogInLimit::new(),
        });
        let kinds: &[_] =
            if options.single_stage { &[RequestKind::List] } else { &RequestKind::ALL };
        let stages = kinds.iter().map(|kind| stage(*kind, &options, &shared));
        let stages = stages.collect::<Result<Vec<_>, _>>()?;
        let class = |name| stages[0].class(name).unwrap_or_default();
        let [gold, bronze] = CLASSES.map(class);
        let addresses = ClientAddresses::new(&options.trusted_proxies, options.behind_tls);
        let long_forms = LongForms::default();
        let front =
            Front { stages, site, gold, bronze, class_header, addresses, long_forms, shared };
        Ok(Self { front: Arc::new(front) })
    }

    /// The routes. Serve them with the addresses of clients
    /// ([`ConnectInfo`](axum::extract::ConnectInfo)), as [`service`](Self::service) does.
    pub fn router(&self) -> Router {
        router(Arc::clone(&self.front))
    }

    /// A service of all stages, to serve the [`router`](Self::router) with.
    pub fn service(&self) -> tamarisk::axum::Service {
        let service = tamarisk::axum::Service::new();
        let service = self.front.stages.iter().fold(service, |service, stage| service.stage(stage));
        service.stage(&self.front.site)
    }

    /// The stages at this instant, in the order of [`RequestKind::ALL`], or the only one.
    pub fn observe(&self) -> Vec<tamarisk::StageObservation> {
        self.front.stages.iter().map(Stage::observe).collect()
    }
}

/// The stage of a kind.
fn stage(
    kind: RequestKind,
    options: &Options,
    shared: &Arc<Shared>,
) -> Result<Stage<Request<MailRequest, Answer>>, tamarisk::BuildError> {
    let mut builder = Stage::builder(kind.name())
        .classes(CLASSES)
        .p90(options.targets.of(kind))
        .batch(1)
        .laws(options.laws.clone());
    let workers = workers_max(kind, options);
    builder = if is_work_for_processors(kind, options) {
        builder.workers(workers)
    } else {
        builder.workers_between(1..=workers)
    };
    if let (RequestKind::List | RequestKind::Search | RequestKind::Digest, Some(least)) =
        (kind, options.least_quality)
    {
        builder = builder.least_quality("gold", least.gold).least_quality("bronze", least.bronze);
    }
    let (database, shared) = (options.database.clone(), Arc::clone(shared));
    builder.threads(move || Worker::new(database.store(), &shared))
}

/// The most workers of a stage.
fn workers_max(kind: RequestKind, options: &Options) -> u32 {
    let processors = u32::try_from(processors()).unwrap_or(u32::MAX);
    match (options.database.is_embedded(), is_work_for_processors(kind, options)) {
        (true, _) => processors,
        (false, true) => processors.min(CONNECTIONS_MAX),
        (false, false) => CONNECTIONS_MAX,
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn is_work_for_processors(kind: RequestKind, options: &Options) -> bool {
    kind == RequestKind::LogIn || options.database.is_embedded()
}
