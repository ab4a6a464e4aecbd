//! The name of this proxy among others, by which it knows a request that it has passed on itself.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use http::{HeaderValue, Version};

/// The name of a proxy in `Via` [RFC9110 §7.6.3]: `tamarisk-` and eight digits. Clones have one.
#[derive(Clone, Debug)]
pub struct Instance(Arc<Names>);

#[derive(Debug)]
struct Names {
    name: String,
    /// What it adds to a request of each version of HTTP.
    http10: String,
    http11: String,
    http2: String,
}

impl Default for Instance {
    /// A new one.
    fn default() -> Self {
        // The standard library's random keys; nothing secret hangs on them.
        let random = RandomState::new().hash_one(0_u64) as u32;
        let name = format!("tamarisk-{random:08x}");
        let line = |version| format!("via: {version} {name}\r\n");
        let (http10, http11, http2) = (line("1.0"), line("1.1"), line("2"));
        Self(Arc::new(Names { name, http10, http11, http2 }))
    }
}

impl Instance {
    /// The line that adds it to those who passed on a request of this version.
    pub(crate) fn via(&self, version: Version) -> &str {
        let Names { http10, http11, http2, .. } = &*self.0;
        match version {
            Version::HTTP_10 => http10,
            Version::HTTP_2 => http2,
            _ => http11,
        }
    }

    /// Whether a `Via` names it: the request has been here before.
    pub(crate) fn is_in(&self, via: &HeaderValue) -> bool {
        let name = self.0.name.as_bytes();
        via.as_bytes().windows(name.len()).any(|part| part == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_itself_and_no_other() {
        let (one, other) = (Instance::default(), Instance::default());
        let line = one.via(Version::HTTP_2).trim_end();
        let via =
            HeaderValue::from_bytes(format!("1.1 b\u{fc}ro, {}", &line[5..]).as_bytes()).unwrap();
        assert!(line.starts_with("via: 2 tamarisk-"), "{line}");
        assert!(one.is_in(&via) && one.clone().is_in(&via) && !other.is_in(&via), "{via:?}");
        assert!(!one.is_in(&HeaderValue::from_static("1.1 tamarisk")));
    }
}
