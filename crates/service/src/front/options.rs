//! Options of the front: addresses, cores, TLS, limits, access log, status port.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use tamarisk_control::Target;
use tamarisk_observe::profile::ProfileOptions;
use tamarisk_observe::status::TokenSource;
use tamarisk_proxy::Scheme;
use tamarisk_server::tls::{Handshakes, Tls};
use tamarisk_server::{AlreadyListening, Server};
use tamarisk_stage::BuildError;

use crate::Reloaded;

/// Where a service is served, and how.
#[derive(Clone, Debug)]
pub struct FrontOptions {
    /// Where clients are served; with port 0, on a free port.
    pub listen: SocketAddr,
    /// Where the status is shown, if anywhere: an address for operators alone.
    pub status: Option<SocketAddr>,
    /// Who may listen there already.
    pub status_beside: AlreadyListening,
    /// Where the token is that allows changes over the status port; without one they are rejected.
    pub status_token: Option<TokenSource>,
    /// Host names that the status port answers to, besides addresses, `localhost` and the name of
    /// the machine.
    pub status_hosts: Vec<String>,
    /// Where the profiler writes, if anywhere.
    pub profile: Option<ProfileOptions>,
    /// How many threads serve, each with a runtime of its own.
    pub cores: NonZeroUsize,
    /// How connections are served.
    pub server: Server,
    /// With whose certificates; without any, in clear text.
    pub tls: Option<Tls>,
    /// What a client who asks for a TLS handshake is promised.
    pub handshake_target: Target,
}

impl FrontOptions {
    /// On `listen` in clear text, by one thread for each core; no status is shown.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            status: None,
            status_beside: AlreadyListening::Nobody,
            status_token: None,
            status_hosts: Vec::new(),
            profile: None,
            cores: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            server: Server::default(),
            tls: None,
            handshake_target: Handshakes::default_target(),
        }
    }

    /// Where this process listens, for clients who come by sockets that were `inherited`, if any
    /// were.
    pub fn listening(&self, inherited: Option<SocketAddr>) -> Vec<SocketAddr> {
        let listen = inherited.unwrap_or(self.listen);
        let status = self.status.filter(|status| *status != listen);
        std::iter::once(listen).chain(status).collect()
    }

    /// How clients come here.
    pub fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// Names what differs in `new` and cannot change while the service runs.
    pub fn compare(&self, new: &Self, reloaded: &mut Reloaded) {
        let same = [
            ("listen", self.listen == new.listen),
            ("status", self.status == new.status),
            ("status_token", self.status_token == new.status_token),
            ("status_hosts", self.status_hosts == new.status_hosts),
            ("profile", self.profile == new.profile),
            ("cores", self.cores == new.cores),
            ("limits", self.server.is_like(&new.server)),
        ];
        reloaded.compare(&same);
        for (key, _) in same.iter().filter(|(_, same)| !same) {
            reloaded.keep_values(key, [self.value(key), new.value(key)]);
        }
    }

    /// The value of `key`, as a line shows it.
    fn value(&self, key: &str) -> Option<String> {
        match key {
            "listen" => Some(self.listen.to_string()),
            "status" => {
                let status = self.status.map(|status| status.to_string());
                Some(status.unwrap_or_else(|| "none".to_owned()))
            }
            "status_hosts" => Some(format!("{:?}", self.status_hosts)),
            "cores" => Some(self.cores.to_string()),
            _ => None,
        }
    }

    pub(super) fn handshakes(&self) -> Result<Option<Handshakes>, BuildError> {
        let (cores, target) = (self.cores, self.handshake_target);
        self.tls.as_ref().map(|tls| Handshakes::new(tls.clone(), cores, target)).transpose()
    }
}
