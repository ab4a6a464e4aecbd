//! TLS handshakes, admitted by a stage.

use std::future::poll_fn;
use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use rustls::server::Acceptor;
use tamarisk_control::Target;
use tamarisk_stage::{BuildError, Entry, Gate, StageBuilder, StageObservation};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::Tls;

/// What a client is told whose handshake was rejected: a record with the fatal alert
/// `internal_error` [RFC8446 §6.2], the only one that does not put the blame on it.
pub(crate) const REJECTION: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// Handshakes under admission; clones share the stage.
///
/// What is admitted, timed and counted is the work that a handshake costs us, the exchange of
/// keys and the signature, and not the wait for a client: that is bounded by the
/// [time for a head](crate::guard::Limits::head_time).
#[derive(Clone)]
pub struct Handshakes {
    tls: Tls,
    gate: Gate,
}

/// Nine of ten handshakes are done so soon: a page waits for one or two of them.
const HANDSHAKE_TIME: Duration = Duration::from_millis(200);

impl Handshakes {
    /// What a client is promised where nothing else is said: nine of ten handshakes within 200 ms.
    pub fn default_target() -> Target {
        Target::p90(HANDSHAKE_TIME).expect("it is not zero")
    }

    /// A stage named `handshakes` for `cores` threads, with the default law; it is governed on
    /// the runtime that this is called on. `target` is what a client is promised who has said
    /// hello.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(tls: Tls, cores: NonZeroUsize, target: Target) -> Result<Self, BuildError> {
        // More at once would only take turns.
        let workers = u32::try_from(cores.get()).unwrap_or(u32::MAX);
        let gate = StageBuilder::new("handshakes").target(target).workers(workers).gate()?;
        Ok(Self { tls, gate })
    }

    /// The stage at this instant.
    pub fn observe(&self) -> StageObservation {
        self.gate.observe()
    }

    /// Agrees on keys with the client behind `socket`, and tells when that `has_begun`: when the
    /// client has said hello.
    pub(crate) async fn shake<S>(
        &self,
        socket: S,
        has_begun: &AtomicBool,
    ) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut start = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
        has_begun.store(true, Ordering::Relaxed);
        let Ok(permit) = self.gate.enter(Entry::new()).await else {
            start.io.write_all(&REJECTION).await?;
            start.io.shutdown().await?;
            return Err(io::ErrorKind::ResourceBusy.into());
        };
        // The work is done in here; the poll sends what came of it.
        let mut rest = start.into_stream(self.tls.config());
        let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut rest).poll(cx))).await;
        // Who holds a place lets the requests of this core have their turn before the next
        // one takes it: otherwise handshakes would queue where no law can see them.
        tokio::task::yield_now().await;
        permit.complete();
        match first {
            Poll::Ready(done) => done,
            Poll::Pending => rest.await,
        }
    }
}

impl std::fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handshakes").field("tls", &self.tls).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use tokio::io::{AsyncReadExt, duplex};

    use super::super::Identity;
    use super::*;

    /// The start of what a client says that knows TLS 1.2 and one suite (RFC 5246, 7.4.1.2).
    fn hello() -> Vec<u8> {
        let extensions =
            b"\0\x0a\0\x04\0\x02\0\x17\0\x0d\0\x04\0\x02\x04\x03\0\x0b\0\x02\x01\0\0\x17\0\0";
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend(b"\0\0\x02\xc0\x2b\x01\0");
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let mut message = vec![1, 0, 0, body.len() as u8];
        message.extend(body);
        let mut record = vec![22, 3, 1, 0, message.len() as u8];
        record.extend(message);
        record
    }

    fn handshakes() -> Handshakes {
        let folder = std::env::temp_dir().join(format!("tamarisk-shake-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [certificate, key] = ["certificate", "key"].map(|name| folder.join(name));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-newkey", "ec", "-subj", "/CN=a"])
            .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-addext", "subjectAltName=DNS:a", "-out"])
            .arg(&certificate)
            .arg("-keyout")
            .arg(&key)
            .stderr(Stdio::null())
            .status();
        assert!(made.unwrap().success());
        let tls = Tls::open(vec![Identity { certificate, key }]).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        let target = Target::p90(Duration::from_secs(10)).unwrap();
        Handshakes::new(tls, NonZeroUsize::MIN, target).unwrap()
    }

    #[tokio::test]
    async fn a_handshake_is_rejected_by_an_alert_and_counted() {
        let handshakes = handshakes();
        let (mut client, socket) = duplex(4096);
        let shaking = tokio::spawn({
            let handshakes = handshakes.clone();
            async move { handshakes.shake(socket, &AtomicBool::new(false)).await.map(drop) }
        });
        client.write_all(&hello()).await.unwrap();
        let mut record = [0; 5];
        client.read_exact(&mut record).await.unwrap();
        assert_eq!(record[0], 22, "the server goes on with the handshake");
        drop(client);
        assert!(shaking.await.unwrap().is_err(), "the client has left");

        handshakes.gate.close();
        let (mut client, socket) = duplex(4096);
        let shaking = tokio::spawn({
            let handshakes = handshakes.clone();
            async move { handshakes.shake(socket, &AtomicBool::new(false)).await.map(drop) }
        });
        client.write_all(&hello()).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, REJECTION);
        assert_eq!(shaking.await.unwrap().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        let counts = handshakes.observe().total();
        assert_eq!((counts.offered, counts.completed, counts.rejected), (2, 1, 1));
    }
}
