//! Resources that stages share: processors and connection pools.

use super::speed::Speed;

/// Something that stages share.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// What steps call it.
    pub name: String,
    /// How it is shared.
    pub kind: ResourceKind,
}

/// How a resource is shared.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceKind {
    /// All work at once, each with the same speed: cores of a processor.
    Shared(Speed),
    /// So many at once at full speed, the others wait first in, first out: the
    /// connections of a database, or the workers of an upstream that nobody sees into.
    Pool(u32),
}

impl Resource {
    /// So many cores, in equal parts for all who compute.
    pub fn cores(name: impl Into<String>, cores: f64) -> Self {
        Self { name: name.into(), kind: ResourceKind::Shared(Speed::Cores(cores)) }
    }

    /// So many connections, each for one at a time.
    pub fn pool(name: impl Into<String>, connections: u32) -> Self {
        Self { name: name.into(), kind: ResourceKind::Pool(connections) }
    }
}
