//! The certificates of `tamarisk serve` and `tamarisk protect`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use clap::Args;
use tamarisk_control::{Target, parse_duration};
use tamarisk_observe::date::Rfc3339;
use tamarisk_server::tls::{Identity, Tls};

use crate::arguments::misunderstood;

#[derive(Debug, Args)]
pub(crate) struct TlsFiles {
    /// TLS certificate chain in PEM, the server's certificate first. Repeat it, each with its
    /// --tls-key, for more names. Clients that request an unknown name get the first
    #[arg(long, value_name = "FILE")]
    tls_cert: Vec<PathBuf>,
    /// Private key of the --tls-cert at the same position: unencrypted PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Vec<PathBuf>,
    /// Target for TLS handshakes: 90 % within TIME [default: 200ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    tls_p90: Option<Duration>,
}

impl TlsFiles {
    #[cfg(feature = "services")]
    pub(crate) fn are_named(&self) -> bool {
        !self.tls_cert.is_empty() || !self.tls_key.is_empty()
    }

    #[cfg(feature = "services")]
    pub(crate) fn has_target(&self) -> bool {
        self.tls_p90.is_some()
    }

    /// Reads the files, if any are named.
    pub(crate) fn open(&self) -> anyhow::Result<Option<Tls>> {
        if self.tls_cert.len() != self.tls_key.len() {
            return Err(misunderstood(
                "the numbers of --tls-cert and --tls-key differ: every --tls-cert needs a --tls-key",
            ));
        }
        if self.tls_cert.is_empty() {
            return Ok(None);
        }
        let pairs = self.tls_cert.iter().zip(&self.tls_key);
        let identities = pairs.map(|(certificate, key)| {
            let (certificate, key) = (certificate.clone(), key.clone());
            Identity { certificate, key }
        });
        let tls = Tls::open(identities.collect()).context("cannot set up TLS")?;
        warn(&tls);
        Ok(Some(tls))
    }

    /// What a client who asks for a handshake is promised, if that is stated.
    pub(crate) fn target(&self) -> anyhow::Result<Option<Target>> {
        self.tls_p90.map(Target::p90).transpose().map_err(misunderstood)
    }
}

/// Says what is not as it should be in the certificates.
pub(crate) fn warn(tls: &Tls) {
    for warning in tls.warnings() {
        tracing::warn!("{warning}.");
    }
}

/// How often the ends of certificates are looked at.
pub(crate) const EXPIRY_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Says which certificates have expired or do so soon.
pub(crate) fn warn_of_expiry(tls: Option<&Tls>) {
    /// Renewals are usual a month before the end: here one has failed.
    const SOON: Duration = Duration::from_secs(14 * 24 * 3600);
    let now = SystemTime::now();
    for (file, end) in tls.map(Tls::expires).unwrap_or_default() {
        let (file, date) = (file.display(), Rfc3339(end));
        if end <= now {
            tracing::warn!("The certificate in {file} expired on {date}: clients reject it.");
        } else if end <= now + SOON {
            tracing::warn!("The certificate in {file} expires on {date}.");
        }
    }
}
