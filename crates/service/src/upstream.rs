//! An upstream: its options, and starting it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tamarisk_control::Classes;
use tamarisk_laws::ResourceBounds;
use tamarisk_laws::catalogue::{Laws, admission};
use tamarisk_proxy::classify::Client;
use tamarisk_proxy::{HostHeader, Origin, RequestBuffering, Upstream};
use tamarisk_stage::{BuildError, Discipline, StageBuilder};
use tamarisk_trace::Recorder;

use crate::overflow::OverflowOptions;

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

impl UpstreamOptions {
    /// A service with the default times: 5 s to connect, 60 s to answer.
    pub fn new(name: impl Into<String>, origin: Origin, classes: Classes) -> Self {
        Self {
            name: name.into(),
            origin,
            classes,
            host_header: HostHeader::default(),
            connect_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(60),
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

    /// Looks for the addresses of its host, and of its overflow's. That it can do without the latter
    /// for a while is only a warning.
    ///
    /// # Errors
    /// [`UnknownHost`] if its host has no address at present.
    pub async fn resolve(&self) -> Result<(), UnknownHost> {
        if let Some(OverflowOptions { origin, .. }) = &self.overflow
            && let Err(error) = origin.resolve().await
        {
            tracing::warn!(
                "Cannot resolve {:?}, the host of the overflow of {:?}: {error}. Until it can be \
                 resolved, requests that the stage rejects get the ordinary 503.",
                origin.host(),
                self.name
            );
        }
        let unknown = |source| UnknownHost {
            name: self.name.clone(),
            host: self.origin.host().to_owned(),
            source,
        };
        self.origin.resolve().await.map_err(unknown)
    }

    /// Whether a service that was started with these options is that of `other`, once its classes
    /// have other targets, and it has another overflow, perhaps.
    pub fn is_like(&self, other: &Self) -> bool {
        let mut classes = self.classes.clone();
        for (id, class) in other.classes.iter() {
            classes.set_target(id, class.target);
        }
        let times = |options: &Self| (options.connect_time, options.answer_time);
        (&self.name, &self.origin, &self.host_header)
            == (&other.name, &other.origin, &other.host_header)
            && (self.request_buffering, &self.client) == (other.request_buffering, &other.client)
            && times(self) == times(other)
            && self.laws == other.laws
            && self.resources == other.resources
            && classes == other.classes
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
