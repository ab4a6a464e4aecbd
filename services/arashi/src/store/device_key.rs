//! The key that signs cookies of devices: drawn once, and kept, so that they outlive the process.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::connection::{Fault, Value};
use super::session::hexadecimal;
use super::store::Store;
use super::{SessionKey, StoreError, Work};

/// What the key is called in the table.
const NAME: &str = "device_key";

/// Signs cookies of devices by HMAC-SHA256.
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

impl Store {
    /// The key of this database, drawn by whoever needs it first.
    ///
    /// # Errors
    /// If the database cannot answer, or the system has no random numbers.
    pub(crate) fn device_key(&mut self, work: &dyn Work) -> Result<DeviceKey, StoreError> {
        if let Some(key) = self.known_device_key() {
            return Ok(key);
        }
        let key = match self.kept_device_key(work)? {
            Some(key) => key,
            None => {
                self.keep_device_key(work, &SessionKey::draw()?.to_string())?;
                let kept = self.kept_device_key(work)?;
                kept.ok_or_else(|| StoreError::Failed("the key of devices was not kept".into()))?
            }
        };
        Ok(self.know_device_key(DeviceKey::new(&key)))
    }

    fn kept_device_key(&mut self, work: &dyn Work) -> Result<Option<String>, StoreError> {
        self.read(work, |statements| {
            let sql = "SELECT value FROM secrets WHERE name = ?";
            let row = statements.row(sql, &[Value::Text(NAME)])?;
            row.map(|mut row| row.text()).transpose()
        })
    }

    fn keep_device_key(&mut self, work: &dyn Work, key: &str) -> Result<(), StoreError> {
        let kept = self.change(work, None, |statements| {
            let sql = "INSERT INTO secrets (name, value) VALUES (?, ?)";
            match statements.insert(sql, &[Value::Text(NAME), Value::Text(key)]) {
                // Another process was first. The transaction is rolled back, whatever else it holds.
                Err(Fault::Duplicate) => Err(Fault::Answer(StoreError::NotFound)),
                inserted => inserted.map(drop),
            }
        });
        match kept {
            Err(StoreError::NotFound) => Ok(()),
            kept => kept,
        }
    }
}
