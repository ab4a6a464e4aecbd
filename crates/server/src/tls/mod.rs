//! TLS 1.2 and 1.3 for the server, by rustls [RFC8446 §2].
//!
//! A server has any number of certificates. Which one a client gets follows from the name that
//! it asks for [RFC6066 §3] and the names in the certificates themselves, so there is nothing to
//! configure twice. [`Tls::take_over`] takes those of others, or of the same files read again;
//! connections that are open do not notice, and those that resume a session go on with it.
//!
//! A server name with a port is invalid [RFC6066 §3]: rustls ends that handshake with an alert.
//!
//! A handshake costs as much as ten requests or more, and anyone may ask for one. So it is work
//! like any other, and [`Handshakes`] is the stage that admits it.
//!
//! What this module does not do: it asks no client for a certificate, takes no early data (it
//! can be replayed [RFC8446 §8]) and fetches no certificates from an authority.

mod certificates;
mod handshakes;
mod identity;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::{ClientHello, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;

use self::certificates::Certificates;
pub use self::handshakes::Handshakes;
pub(crate) use self::handshakes::REJECTION;
pub use self::identity::{Identity, TlsError, Warning};

/// Protocols that a client may choose from, what we like best first [RFC7301 §3.1].
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Sessions kept for TLS 1.2 clients that know no tickets: hardly any do, and a session takes a
/// few hundred bytes.
const SESSIONS_MAX: usize = 1024;

/// Certificates and sessions of a server; clones share them.
#[derive(Clone, Debug)]
pub struct Tls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

/// The certificates for handshakes that begin now.
#[derive(Debug)]
struct Current(RwLock<Arc<Certificates>>);

impl Tls {
    /// Reads the files of `identities`. The first one is for clients that ask for no name, or
    /// for one that no certificate has.
    ///
    /// # Errors
    /// [`TlsError`], with the file and what is wrong with it.
    ///
    /// # Panics
    /// If the system has no random numbers.
    pub fn open(identities: Vec<Identity>) -> Result<Self, TlsError> {
        let provider = default_provider();
        let certificates = Certificates::read(identities, &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(certificates))));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for both versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<_>);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
        config.ticketer = Ticketer::new().expect("the system has random numbers");
        Ok(Self(Arc::new(Shared { current, config: Arc::new(config) })))
    }

    /// Has the certificates of `other` for handshakes that begin from now on. Sessions that were
    /// begun here can be resumed.
    pub fn take_over(&self, other: &Self) {
        let certificates = Arc::clone(&other.0.current.0.read());
        *self.0.current.0.write() = certificates;
    }

    /// The files that the certificates are from.
    pub fn identities(&self) -> Vec<Identity> {
        self.0.current.0.read().identities().to_vec()
    }

    /// What is not as it should be in the files that were read last.
    pub fn warnings(&self) -> Vec<Warning> {
        self.0.current.0.read().warnings().to_vec()
    }

    /// Until when the certificates are valid, each with the file that it is from: the first one of
    /// the file, which is the server's own.
    pub fn expires(&self) -> Vec<(PathBuf, SystemTime)> {
        self.0.current.0.read().expires().to_vec()
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.config)
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificates = Arc::clone(&self.0.read());
        Some(certificates.choose(hello.server_name(), hello.signature_schemes()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// Has openssl make a certificate that is valid until then, as `YYMMDDHHMMSSZ`, in `folder`.
    fn certificate(folder: &Path, end: &str) -> Identity {
        let openssl = |args: &[&str]| {
            let done = Command::new("openssl")
                .args(args)
                .current_dir(folder)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            assert!(done.unwrap().success(), "openssl {args:?}");
        };
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("index"), "").unwrap();
        let authority = "[ca]\ndefault_ca = own\n[own]\nnew_certs_dir = .\ndatabase = index\n\
             rand_serial = yes\ndefault_md = sha256\npolicy = any\nx509_extensions = names\n\
             [any]\ncommonName = supplied\n[names]\nsubjectAltName = DNS:a\n";
        std::fs::write(folder.join("ca.cnf"), authority).unwrap();
        openssl(&["ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", "key"]);
        openssl(&["req", "-new", "-key", "key", "-subj", "/CN=a", "-out", "request"]);
        openssl(&[
            "ca",
            "-batch",
            "-selfsign",
            "-config",
            "ca.cnf",
            "-keyfile",
            "key",
            "-in",
            "request",
            "-startdate",
            "190101000000Z",
            "-enddate",
            end,
            "-notext",
            "-out",
            "certificate",
        ]);
        Identity { certificate: folder.join("certificate"), key: folder.join("key") }
    }

    #[test]
    fn the_end_of_each_certificate_is_told_though_it_is_past() {
        let folder = std::env::temp_dir().join(format!("tamarisk-expiry-{}", std::process::id()));
        let past = certificate(&folder.join("past"), "200102030405Z");
        let future = certificate(&folder.join("future"), "491231235959Z");
        let tls = Tls::open(vec![past.clone(), future.clone()]).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        // `date -u -d '2020-01-02 03:04:05' +%s`, and the same of 2049-12-31 23:59:59.
        let end = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let expected = [(past.certificate, 1_577_934_245), (future.certificate, 2_524_607_999)];
        assert_eq!(tls.expires(), expected.map(|(file, seconds)| (file, end(seconds))));
        assert!(tls.expires()[0].1 < SystemTime::now());
    }
}
