//! Reads a certificate and its private key from PEM files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

/// The most bytes read of a file: chains have some ten thousand.
const FILE_MAX: u64 = 1 << 20;

/// Who a server can prove to be: two files in PEM [RFC7468 §5, §10].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and behind it those that lead to an authority.
    pub certificate: PathBuf,
    /// Its private key, not encrypted: PKCS #8, PKCS #1 (RSA) or SEC 1 (EC).
    pub key: PathBuf,
}

/// Why a server cannot prove who it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// There is no identity.
    #[error("TLS needs a certificate and its key")]
    None,
    /// A file is missing, or not ours to read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A pipe, a device, a socket or a folder.
    #[error("{} is not a regular file: copy the PEM text into one", file.display())]
    NotRegular {
        /// The file.
        file: PathBuf,
    },
    /// A file is too long to be what it should.
    #[error("{} is larger than 1 MiB, the limit for PEM files", file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
    },
    /// Something in the file looks like PEM and is none.
    #[error("{} is not valid PEM: {reason}", file.display())]
    Pem {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: pem::Error,
    },
    /// The file has no section `BEGIN CERTIFICATE`.
    #[error("{} contains no PEM certificate", file.display())]
    NoCertificate {
        /// The file.
        file: PathBuf,
    },
    /// The file has no section `BEGIN PRIVATE KEY`; an encrypted one does not count.
    #[error("{} contains no unencrypted PEM private key", file.display())]
    NoKey {
        /// The file.
        file: PathBuf,
    },
    /// The first certificate in the file cannot be understood.
    #[error("the certificate in {} is unusable: {reason}", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The key is of a kind that we cannot sign with.
    #[error("the key in {} is unusable: {source}", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: Error,
    },
    /// The key is not that of the first certificate.
    #[error("the key in {} does not match the first certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
}

/// What can be served with, and should not stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// Every user of this machine may read the key.
    #[error("other users can read the key in {}: chmod 600", file.display())]
    WorldReadable {
        /// The key's file.
        file: PathBuf,
    },
    /// The certificate has no DNS names, so that no client can ask for it.
    #[error("the certificate in {} contains no DNS names", file.display())]
    Nameless {
        /// The certificate's file.
        file: PathBuf,
    },
}

impl Identity {
    /// Reads both files; adds what is not as it should be to `warnings`.
    pub(super) fn read(
        &self,
        provider: &CryptoProvider,
        warnings: &mut Vec<Warning>,
    ) -> Result<CertifiedKey, TlsError> {
        let file = self.certificate.clone();
        let chain = sections(&self.certificate)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate { file });
        }
        let key = self.read_key(warnings)?;
        let file = self.key.clone();
        let key = provider.key_provider.load_private_key(key);
        let certified =
            CertifiedKey::new(chain, key.map_err(|source| TlsError::Key { file, source })?);
        match certified.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
            Err(Error::InconsistentKeys(_)) => {
                let Self { certificate, key } = self.clone();
                Err(TlsError::Mismatch { certificate, key })
            }
            Err(error) => {
                let file = self.certificate.clone();
                Err(TlsError::Certificate { file, reason: error.to_string() })
            }
        }
    }

    fn read_key(&self, warnings: &mut Vec<Warning>) -> Result<PrivateKeyDer<'static>, TlsError> {
        let file = self.key.clone();
        let key = sections(&file)?.into_iter().next();
        let key = key.ok_or_else(|| TlsError::NoKey { file: file.clone() })?;
        let everyone = fs::metadata(&file).is_ok_and(|file| file.permissions().mode() & 0o004 != 0);
        if everyone {
            warnings.push(Warning::WorldReadable { file });
        }
        Ok(key)
    }
}

/// The sections of one kind in a PEM file.
fn sections<T: PemObject>(file: &Path) -> Result<Vec<T>, TlsError> {
    let unread = |source| TlsError::Read { file: file.to_owned(), source };
    // A pipe would be waited for.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = File::options().read(true).custom_flags(flags).open(file).map_err(unread)?;
    if !opened.metadata().map_err(unread)?.is_file() {
        return Err(TlsError::NotRegular { file: file.to_owned() });
    }
    let mut text = Vec::new();
    opened.take(FILE_MAX + 1).read_to_end(&mut text).map_err(unread)?;
    if text.len() as u64 > FILE_MAX {
        return Err(TlsError::TooLong { file: file.to_owned() });
    }
    let broken = |reason| TlsError::Pem { file: file.to_owned(), reason };
    T::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(broken)
}

/// The last instant at which a certificate is valid [RFC5280 §4.1.2.5].
pub(super) fn end_of_validity(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let seconds = certificate.validity().not_after.timestamp();
    let since_1970 = Duration::from_secs(seconds.unsigned_abs());
    match seconds {
        0.. => UNIX_EPOCH.checked_add(since_1970),
        _ => UNIX_EPOCH.checked_sub(since_1970),
    }
}

/// The DNS names of a certificate [RFC5280 §4.2.1.6], in lower case.
pub(super) fn names(certified: &CertifiedKey, file: &Path) -> Result<Vec<String>, TlsError> {
    let unusable = |reason: String| TlsError::Certificate { file: file.to_owned(), reason };
    let certificate = certified.end_entity_cert().map_err(|error| unusable(error.to_string()))?;
    let certificate = webpki::EndEntityCert::try_from(certificate)
        .map_err(|error| unusable(error.to_string()))?;
    Ok(certificate.valid_dns_names().map(str::to_ascii_lowercase).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_not_read() {
        let pipe = std::env::temp_dir().join(format!("tamarisk-pipe-{}", std::process::id()));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (told, read) = mpsc::channel();
        for file in [pipe.clone(), "/dev/zero".into(), std::env::temp_dir()] {
            let told = told.clone();
            // Of its own, for it would not come to an end.
            thread::spawn(move || told.send(sections::<CertificateDer<'_>>(&file)));
            let error = read.recv_timeout(Duration::from_secs(20)).unwrap().unwrap_err();
            assert!(matches!(error, TlsError::NotRegular { .. }), "{error}");
        }
        fs::remove_file(pipe).unwrap();
    }
}
