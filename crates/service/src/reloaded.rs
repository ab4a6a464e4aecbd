//! The outcome of a reload: what changed, and what needs a restart.

use tamarisk_server::tls::Tls;

/// The outcome of a reload: what changed, and what needs a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// What has changed, in words.
    pub changed: Vec<String>,
    /// What differs and stays as it was until the next start.
    pub needs_restart: Vec<String>,
    /// Certificates and keys were read again, changed or not.
    pub has_read_certificates: bool,
}

impl Reloaded {
    /// Names the settings of which these say that they are not the same.
    pub fn compare(&mut self, same: &[(&str, bool)]) {
        let differs = same.iter().filter(|(_, same)| !same).map(|(key, _)| (*key).to_owned());
        self.needs_restart.extend(differs);
    }

    /// Takes the certificates of `new` over, for handshakes that begin from now on. Whether there
    /// is TLS at all cannot change.
    pub fn certificates(&mut self, now: Option<&Tls>, new: Option<&Tls>) {
        let differs = match (now, new) {
            (None, None) => return,
            (None, Some(_)) => "tls (added)",
            (Some(_), None) => "tls (removed)",
            (Some(now), Some(new)) => {
                if now.identities() != new.identities() {
                    self.changed.push("tls".to_owned());
                }
                self.has_read_certificates = true;
                return now.take_over(new);
            }
        };
        self.needs_restart.push(differs.to_owned());
    }
}
