//! What a stage is asked, and what all stages share.

use std::net::IpAddr;

use crate::store::{Database, SessionKey};
use crate::web::action::Action;
use crate::web::cookies::Cookies;
use crate::web::device::DeviceTokens;
use crate::web::digest::DigestPage;
use crate::web::known_accounts::KnownAccounts;
use crate::web::log_in_limit::{Guesser, LogInLimit};

/// What a stage is asked.
pub(crate) struct MailRequest {
    pub(crate) action: Action,
    /// The session that its cookie names.
    pub(crate) key: Option<SessionKey>,
    /// What its form has in it to show that it is one of ours.
    pub(crate) csrf: String,
    /// Where the client is.
    pub(crate) address: IpAddr,
    /// What its device cookie has in it.
    pub(crate) device: DeviceTokens,
    /// Path and query.
    pub(crate) path: String,
}

/// What routes and all workers share.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) page_size: u32,
    pub(crate) cookies: Cookies,
    pub(crate) accounts: KnownAccounts,
    pub(crate) log_ins: LogInLimit,
    pub(crate) digest: DigestPage,
}

impl Shared {
    /// Who tries to log in by this name. As long as no connection has read the key of devices,
    /// none is known.
    pub(crate) fn guesser(&self, name: &str, device: &DeviceTokens, address: IpAddr) -> Guesser {
        let now_seconds = self.database.now_seconds();
        let key = self.database.device_key();
        match key.and_then(|key| device.known(key, name, now_seconds)) {
            Some(id) => Guesser::Device(id),
            None => Guesser::Unknown(address),
        }
    }
}
