//! A client that connects anew for each request, and resumes the TLS 1.3 session before.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, Stream};

/// A client that trusts one certificate.
pub(crate) struct Resuming(Arc<ClientConfig>);

impl Resuming {
    /// A client of the server that has the certificate in this file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn of(certificate: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate)?)?;
        // As OpenSSL 3.0 and browsers before 2024: no post-quantum share, which nginx does not know.
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::X25519];
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(8);
        Ok(Self(Arc::new(config)))
    }

    /// Connects again and again for `seconds`; how many requests were answered.
    ///
    /// # Errors
    /// If a connection fails, or any but the first is not resumed.
    pub(crate) fn load(&self, address: SocketAddr, seconds: u64) -> Result<f64> {
        let end = Instant::now() + Duration::from_secs(seconds);
        self.ask(address)?;
        let mut requests = 1.0;
        while Instant::now() < end {
            let kind = self.ask(address)?;
            ensure!(kind == HandshakeKind::Resumed, "the handshake was {kind:?}");
            requests += 1.0;
        }
        Ok(requests)
    }

    fn ask(&self, address: SocketAddr) -> Result<HandshakeKind> {
        let name = ServerName::try_from("localhost").context("it is a name")?;
        let mut tls = ClientConnection::new(Arc::clone(&self.0), name)?;
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let mut stream = Stream::new(&mut tls, &mut socket);
        stream
            .write_all(b"GET /1024.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        ensure!(answer.len() > 1024, "a short answer: {}", String::from_utf8_lossy(&answer));
        tls.handshake_kind().context("the handshake is over")
    }
}
