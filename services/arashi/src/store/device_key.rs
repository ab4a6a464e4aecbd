//! The key that signs cookies of devices.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::session::hexadecimal;

/// Signs cookies of devices by HMAC-SHA256. It is drawn once, and kept, so that they outlive the
/// process.
#[derive(Clone)]
pub(crate) struct DeviceKey(Hmac<Sha256>);

impl DeviceKey {
    /// By this text as the key.
    pub(crate) fn new(key: &str) -> Self {
        let hmac = Hmac::new_from_slice(key.as_bytes());
        Self(hmac.expect("HMAC takes keys of every length"))
    }

    /// The signature of `text`, in 64 hexadecimal digits.
    pub(crate) fn sign(&self, text: &str) -> String {
        hexadecimal(&self.0.clone().chain_update(text).finalize().into_bytes())
    }
}
