//! An upstream: its options, and starting it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tamarisk_catalogue::admission;
use tamarisk_control::Classes;
use tamarisk_laws::{Laws, ResourceBounds};
use tamarisk_proxy::classify::Client;
use tamarisk_proxy::{HostHeader, Origin, RequestBuffering, Upstream};
use tamarisk_settings::{Mistakes, Several};
use tamarisk_stage::{BuildError, Discipline, StageBuilder};
use tamarisk_trace::Recorder;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::overflow::{OverflowOptions, shown_host};

/// A service behind the proxy.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// What the operator calls it.
    pub name: String,
    /// Where it listens.
    pub origin: Origin,
    /// The kinds of requests to it, and what each is promised.
    pub classes: Classes,
    /// Which `Host` it is told.
    pub host_header: HostHeader,
    /// The longest wait for a connection.
    pub connect_time: Duration,
    /// The longest wait for the head of an answer.
    pub answer_time: Duration,
    /// The longest wait for the next part of an answer that has begun and is no stream.
    pub stall_time: Duration,
    /// Whether request bodies are read before their requests are let in.
    pub request_buffering: RequestBuffering,
    /// How its clients are told apart.
    pub client: Client,
    /// Above which use of memory, descriptors and processors its requests are rejected.
    pub resources: ResourceBounds,
    /// Who records what its law is told and decides, if anybody does.
    pub recorder: Option<Recorder>,
    /// The laws before it; where none is chosen for admission, `work-limit`.
    pub laws: Laws,
    overflow: Option<OverflowOptions>,
}

/// An upstream's host has no address.
#[derive(Debug, thiserror::Error)]
#[error("cannot resolve {host:?}, the host of the upstream {name:?}")]
pub struct UnknownHost {
    /// What the operator calls the upstream.
    pub name: String,
    /// Its host.
    pub host: String,
    /// What the system said.
    pub source: io::Error,
}

/// What a stage rejects would go to the service that it protects.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the overflow of {name:?} is {origin}, the service itself; give the URL of another service"
)]
pub struct OverflowsIntoItself {
    /// What the operator calls the upstream.
    pub name: String,
    /// Where both are.
    pub origin: Origin,
}

/// A service is at the address at which this process listens.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is at {origin}, where this process itself listens ({listen}); give the URL of the service behind"
)]
pub struct LeadsBack {
    /// What the operator calls the upstream.
    pub name: String,
    /// Where it is, or its overflow.
    pub origin: Origin,
    /// Where this process listens.
    pub listen: SocketAddr,
}

impl UpstreamOptions {
    /// A service with the default times: 5 s to connect, 60 s to answer, 60 s for each part of the
    /// answer.
    pub fn new(name: impl Into<String>, origin: Origin, classes: Classes) -> Self {
        Self {
            name: name.into(),
            origin,
            classes,
            host_header: HostHeader::default(),
            connect_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(60),
            stall_time: Duration::from_secs(60),
            request_buffering: RequestBuffering::default(),
            client: Client::default(),
            resources: ResourceBounds::new(),
            recorder: None,
            laws: Laws::new(),
            overflow: None,
        }
    }

    /// Where requests go that its stage rejects, if anywhere.
    pub fn overflow(&self) -> Option<&OverflowOptions> {
        self.overflow.as_ref()
    }

    /// The same, which requests that its stage rejects go to `overflow`, or nowhere.
    ///
    /// # Errors
    /// [`OverflowsIntoItself`].
    pub fn with_overflow(
        self,
        overflow: Option<OverflowOptions>,
    ) -> Result<Self, OverflowsIntoItself> {
        match overflow {
            Some(OverflowOptions { origin, .. }) if origin.is_same_place(&self.origin) => {
                Err(OverflowsIntoItself { name: self.name, origin })
            }
            overflow => Ok(Self { overflow, ..self }),
        }
    }

    /// Looks for the addresses of its host, and of its overflow's, for ten seconds. That it can
    /// do without the latter for a while is only a warning.
    ///
    /// # Errors
    /// [`UnknownHost`] if its host has no address at present.
    pub fn resolve(&self) -> impl Future<Output = Result<(), UnknownHost>> + Send + use<> {
        let (name, origin) = (self.name.clone(), self.origin.clone());
        let overflow = self.overflow.as_ref().map(|overflow| overflow.origin.clone());
        async move {
            let of_overflow = async {
                if let Some(overflow) = overflow
                    && let Err(error) = in_time(overflow.resolve()).await
                {
                    tracing::warn!(
                        "Cannot resolve {:?}, the host of the overflow of {name:?}: {error}. Until it can \
                         be resolved, requests that the stage rejects get the ordinary 503.",
                        overflow.host()
                    );
                }
            };
            let (found, ()) = tokio::join!(in_time(origin.resolve()), of_overflow);
            found.map_err(|source| UnknownHost {
                name: name.clone(),
                host: origin.host().to_owned(),
                source,
            })
        }
    }

    /// Does so for all `upstreams` at once: those that have no address at present.
    pub async fn resolve_all(upstreams: impl IntoIterator<Item = &Self>) -> Vec<UnknownHost> {
        let mut lookups = JoinSet::new();
        for (place, upstream) in upstreams.into_iter().enumerate() {
            let lookup = upstream.resolve();
            lookups.spawn(async move { (place, lookup.await) });
        }
        let mut found = lookups.join_all().await;
        found.sort_by_key(|(place, _)| *place);
        found.into_iter().filter_map(|(_, found)| found.err()).collect()
    }

    /// Notes which of `upstreams` have no address, and which, or whose overflow, are where this process
    /// listens.
    pub async fn reach_all<'u, E>(
        upstreams: impl IntoIterator<Item = &'u Self> + Clone,
        listening: &[SocketAddr],
        mistakes: &mut Mistakes<E>,
    ) where
        E: Several + From<UnknownHost> + From<LeadsBack>,
    {
        Self::resolve_all(upstreams.clone()).await.into_iter().for_each(|it| mistakes.add(it));
        for upstream in upstreams {
            for listen in listening {
                mistakes.note(upstream.leads_elsewhere(*listen).await);
            }
        }
    }

    /// Whether neither it nor its overflow is where this process listens.
    async fn leads_elsewhere(&self, listen: SocketAddr) -> Result<(), LeadsBack> {
        let overflow = self.overflow.as_ref().map(|overflow| &overflow.origin);
        for origin in std::iter::once(&self.origin).chain(overflow) {
            if origin.is_at(listen).await {
                return Err(LeadsBack { name: self.name.clone(), origin: origin.clone(), listen });
            }
        }
        Ok(())
    }

    /// Whether a service that was started with these options is that of `other`, once its classes
    /// have other targets, and it has another overflow, perhaps.
    pub fn is_like(&self, other: &Self) -> bool {
        let mut classes = self.classes.clone();
        for (id, class) in other.classes.iter() {
            classes.set_target(id, class.target);
        }
        self.name == other.name
            && self.changed_keys(other).next().is_none()
            && self.laws == other.laws
            && classes == other.classes
    }

    /// The keys whose values are others in `new`, of those that hold for as long as a service that
    /// was started with them: all but laws, classes and the overflow.
    pub fn changed_keys(&self, new: &Self) -> impl Iterator<Item = &'static str> + use<> {
        // Every field is listed, so that one more is not forgotten.
        let Self {
            name: _,
            origin,
            classes: _,
            host_header,
            connect_time,
            answer_time,
            stall_time,
            request_buffering,
            client,
            resources,
            recorder: _,
            laws: _,
            overflow: _,
        } = self;
        let same = [
            ("url", *origin == new.origin),
            ("host", *host_header == new.host_header),
            ("connect_time", *connect_time == new.connect_time),
            ("answer_time", *answer_time == new.answer_time),
            ("stall_time", *stall_time == new.stall_time),
            ("request_buffering", *request_buffering == new.request_buffering),
            ("client", *client == new.client),
            ("resources", *resources == new.resources),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(key, _)| key)
    }

    /// The value of one of these keys, as a line shows it.
    pub fn value(&self, key: &str) -> Option<String> {
        match key {
            "url" => Some(self.origin.to_string()),
            "host" => shown_host(&self.host_header),
            "connect_time" => Some(format!("{:?}", self.connect_time)),
            "answer_time" => Some(format!("{:?}", self.answer_time)),
            "stall_time" => Some(format!("{:?}", self.stall_time)),
            _ => None,
        }
    }

    /// The laws before it, that for admission among them.
    pub fn ruling(&self) -> Laws {
        let mut laws = self.laws.clone();
        let default = || admission("work-limit").expect("it is listed").named();
        laws.admission.get_or_insert_with(default);
        laws
    }

    /// The service, behind a gate that is governed on the runtime that this is called on.
    ///
    /// # Errors
    /// [`BuildError`] if a gate cannot be made of the laws.
    pub fn start(&self) -> Result<Arc<Upstream>, BuildError> {
        let gate = StageBuilder::new(&self.name).classes(self.classes.clone());
        let gate = gate.discipline(Discipline::EarliestDue).resources(self.resources);
        let gate = match &self.recorder {
            Some(recorder) => recorded(gate, self, recorder)?,
            None => gate.laws(self.ruling()),
        };
        let gate = gate.gate()?;
        let upstream = Upstream::new(&self.origin, gate)
            .host_header(self.host_header.clone())
            .connect_time(self.connect_time)
            .answer_time(self.answer_time)
            .stall_time(self.stall_time)
            .request_buffering(self.request_buffering)
            .client(self.client.clone())
            .tells_quality(self.laws.quality.is_some());
        self.set_overflow(&upstream)?;
        Ok(Arc::new(upstream))
    }

    /// Gives `upstream`, which was started with other options perhaps, the overflow of these.
    ///
    /// # Errors
    /// [`BuildError`] if there is no runtime to govern its gate.
    pub fn set_overflow(&self, upstream: &Upstream) -> Result<(), BuildError> {
        match &self.overflow {
            Some(overflow) => overflow.install(upstream),
            None => {
                upstream.set_overflow(None);
                Ok(())
            }
        }
    }
}

/// A name server that is silent is asked twice for five seconds, unless the system is told
/// otherwise [resolv.conf(5)].
const LOOK_UP_TIME: Duration = Duration::from_secs(10);

/// What `lookup` finds in this time.
async fn in_time<T>(lookup: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(LOOK_UP_TIME, lookup).await?
}

/// `gate` with the laws of `options`, that for admission listened to.
fn recorded(
    gate: StageBuilder,
    options: &UpstreamOptions,
    recorder: &Recorder,
) -> Result<StageBuilder, BuildError> {
    let (stage, classes, mut laws) = (&options.name, &options.classes, options.ruling());
    let Some(chosen) = laws.admission.take() else { return Ok(gate.laws(laws)) };
    let law = chosen
        .make(classes)
        .map_err(|reason| BuildError::Laws { stage: stage.clone(), reason: reason.to_string() })?;
    let knobs: Vec<_> = chosen.knobs().collect();
    Ok(gate.law(recorder.trace(law, stage, classes, &knobs)).laws(laws))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tamarisk_control::Target;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_look_up_ends_within_ten_seconds() {
        let start = Instant::now();
        let silent = in_time(pending::<io::Result<()>>()).await.map_err(|error| error.kind());
        assert_eq!((silent, start.elapsed().as_secs()), (Err(io::ErrorKind::TimedOut), 10));
    }

    #[tokio::test]
    async fn all_hosts_are_looked_up_and_those_without_an_address_are_named() {
        let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
        let upstream = |name: &str, url: &str| {
            UpstreamOptions::new(name, url.parse().unwrap(), classes.clone())
        };
        let known = upstream("known", "http://127.0.0.1:3000");
        assert!(UpstreamOptions::resolve_all(&[known.clone(), known.clone()]).await.is_empty());
        let unknown = upstream("unknown", "http://no-such-host.invalid:80");
        let other = upstream("other", "http://no-other-host.invalid:80");
        let found = UpstreamOptions::resolve_all(&[unknown, known, other]).await;
        let found: Vec<_> = found.iter().map(|error| (&*error.name, &*error.host)).collect();
        let expected = [("unknown", "no-such-host.invalid"), ("other", "no-other-host.invalid")];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_differs_between_two_options_is_named() {
        let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
        let url = "http://127.0.0.1:3000".parse().unwrap();
        let options = UpstreamOptions::new("app", url, classes);
        let mut other = options.clone();
        assert!(options.is_like(&other) && options.changed_keys(&other).next().is_none());
        other.classes = Classes::single(Target::p90(Duration::from_secs(2)).unwrap());
        assert!(options.is_like(&other), "targets can change");
        other.answer_time = Duration::from_secs(7);
        other.client = Client::Cookie("session".to_owned());
        let changed: Vec<_> = options.changed_keys(&other).collect();
        assert_eq!(changed, ["answer_time", "client"]);
        let values = [&options, &other].map(|options| options.value("answer_time"));
        assert_eq!(values, ["60s", "7s"].map(|time| Some(time.to_owned())));
        assert!(!options.is_like(&other));
    }
}
