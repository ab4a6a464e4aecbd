//! The outcome of a reload: what changed, and what needs a restart.

use std::collections::BTreeMap;

use tamarisk_server::tls::Tls;

/// A longer value would hide the names in its line.
const SHOWN_MAX: usize = 64;

/// The outcome of a reload: what changed, and what needs a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// What has changed, in words.
    pub changed: Vec<String>,
    /// What differs and stays as it was until the next start.
    pub needs_restart: Vec<String>,
    /// From which value to which, of those of the above whose values are short.
    pub values: BTreeMap<String, [String; 2]>,
    /// Certificates and keys were read again, changed or not.
    pub has_read_certificates: bool,
}

impl Reloaded {
    /// Names the settings of which these say that they are not the same.
    pub fn compare(&mut self, same: &[(&str, bool)]) {
        let differs = same.iter().filter(|(_, same)| !same).map(|(key, _)| (*key).to_owned());
        self.needs_restart.extend(differs);
    }

    /// Keeps from which value to which `name` differs, if both are known, short and unlike.
    pub fn keep_values(&mut self, name: &str, values: [Option<String>; 2]) {
        let [Some(from), Some(to)] = values else { return };
        if from != to && from.len().max(to.len()) <= SHOWN_MAX {
            self.values.insert(name.to_owned(), [from, to]);
        }
    }

    /// These `names`, of those above, with their values: `cores: 2 → 1, tls (added)`.
    pub fn in_words(&self, names: &[String]) -> String {
        let in_words = |name: &String| match self.values.get(name) {
            Some([from, to]) => format!("{name}: {from} → {to}"),
            None => name.clone(),
        };
        names.iter().map(in_words).collect::<Vec<_>>().join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_that_are_short_and_differ() {
        let mut reloaded = Reloaded::default();
        reloaded.compare(&[("listen", true), ("cores", false), ("log", false), ("url", false)]);
        let shown = |text: &str| Some(text.to_owned());
        reloaded.keep_values("cores", [shown("2"), shown("1")]);
        reloaded.keep_values("log", [shown("a.log"), shown("a.log")]);
        reloaded.keep_values("url", [shown("http://a"), shown(&"a".repeat(65))]);
        let told = reloaded.in_words(&reloaded.needs_restart);
        assert_eq!(told, "cores: 2 → 1, log, url");
    }
}
