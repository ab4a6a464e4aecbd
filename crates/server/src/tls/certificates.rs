//! Certificate selection by server name (SNI).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::SignatureScheme;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;

use super::identity::{self, Identity, TlsError, Warning};

/// Certificates by their names.
#[derive(Debug)]
pub(super) struct Certificates {
    /// For clients that ask for no known name.
    default: Arc<CertifiedKey>,
    /// Names may begin with `*.`; several certificates of one name differ in their keys.
    named: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// The files that they are from.
    identities: Vec<Identity>,
    warnings: Vec<Warning>,
    /// Until when each of them is valid, as far as that can be read.
    expires: Vec<(PathBuf, SystemTime)>,
}

impl Certificates {
    pub(super) fn read(
        identities: Vec<Identity>,
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let (mut warnings, mut expires) = (Vec::new(), Vec::new());
        let mut named: HashMap<String, Vec<_>> = HashMap::new();
        let mut default = None;
        for identity in &identities {
            let certified = Arc::new(identity.read(provider, &mut warnings)?);
            let names = identity::names(&certified, &identity.certificate)?;
            if names.is_empty() {
                warnings.push(Warning::Nameless { file: identity.certificate.clone() });
            }
            let end = certified.end_entity_cert().ok().and_then(identity::end_of_validity);
            expires.extend(end.map(|end| (identity.certificate.clone(), end)));
            for name in names {
                named.entry(name).or_default().push(Arc::clone(&certified));
            }
            default.get_or_insert(certified);
        }
        let default = default.ok_or(TlsError::None)?;
        Ok(Self { default, named, identities, warnings, expires })
    }

    pub(super) fn identities(&self) -> &[Identity] {
        &self.identities
    }

    pub(super) fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    pub(super) fn expires(&self) -> &[(PathBuf, SystemTime)] {
        &self.expires
    }

    /// The first certificate for `name`, with a dot at its end or without, that can be signed for by
    /// one of `schemes`.
    pub(super) fn choose(
        &self,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Arc<CertifiedKey> {
        let name = name.map(|name| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase());
        let candidates = name.map_or(&[][..], |name| self.of(&name));
        let signs = |certified: &&Arc<CertifiedKey>| certified.key.choose_scheme(schemes).is_some();
        let chosen = candidates.iter().find(signs).or_else(|| candidates.first());
        Arc::clone(chosen.unwrap_or(&self.default))
    }

    /// A star stands for one label, the first [RFC6125 §6.4.3].
    fn of(&self, name: &str) -> &[Arc<CertifiedKey>] {
        let wild =
            || name.split_once('.').and_then(|(_, rest)| self.named.get(&format!("*.{rest}")));
        self.named.get(name).or_else(wild).map_or(&[], Vec::as_slice)
    }
}
