//! A certificate and its key, for servers that are measured with TLS.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::Scratch;

/// A key of the kind that sites have today, and a certificate for it.
pub struct Identity {
    /// The file of the certificate.
    pub certificate: String,
    /// The file of the key.
    pub key: String,
}

impl Identity {
    /// Makes both in the folder of `scratch`.
    ///
    /// # Errors
    /// If openssl cannot.
    pub fn make(scratch: &Scratch) -> Result<Self> {
        let file = |name| scratch.path().join(name).display().to_string();
        let (certificate, key) = (file("cert.pem"), file("key.pem"));
        #[rustfmt::skip]
        let arguments = [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-addext", "basicConstraints=critical,CA:FALSE",
            "-keyout", &key, "-out", &certificate,
        ];
        let made = Command::new("openssl").args(arguments).output();
        let made = made.context("openssl could not be started")?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Ok(Self { certificate, key })
    }

    /// As `serve` takes it.
    pub fn arguments(&self) -> [&str; 4] {
        ["--tls-cert", &self.certificate, "--tls-key", &self.key]
    }

    /// As nginx takes it.
    pub fn of_nginx(&self) -> String {
        let Self { certificate, key } = self;
        format!(
            "ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;"
        )
    }
}
