//! How much of the resources of a process or machine is in use.

use crate::Ratio;

/// Each resource as a share of what there is; `None` where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Of the limit of the control group, or else of the machine's memory.
    pub memory: Option<Ratio>,
    /// Open descriptors, of those that the process may open.
    pub descriptors: Option<Ratio>,
    /// Of the time of the machine's processors.
    pub cpu: Option<Ratio>,
}

impl Usage {
    /// Each with the name of its reading.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, Option<Ratio>)> + use<> {
        [
            ("memory_in_use_ratio", self.memory),
            ("descriptors_in_use_ratio", self.descriptors),
            ("cpu_in_use_ratio", self.cpu),
        ]
        .into_iter()
    }
}
