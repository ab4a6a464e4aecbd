//! What request bodies take up: bytes in memory, bytes in files, and the files.

/// What request bodies take up while they are buffered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes in memory.
    pub memory: u64,
    /// Bytes in files.
    pub file: u64,
    /// Files; each takes a descriptor.
    pub files: u64,
}

impl Held {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            memory: self.memory + other.memory,
            file: self.file + other.file,
            files: self.files + other.files,
        }
    }

    pub(crate) fn less(self, other: Self) -> Self {
        Self {
            memory: self.memory - other.memory,
            file: self.file - other.file,
            files: self.files - other.files,
        }
    }

    /// What of it is beyond `bound`.
    pub(crate) fn beyond(self, bound: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(bound.memory),
            file: self.file.saturating_sub(bound.file),
            files: self.files.saturating_sub(bound.files),
        }
    }

    pub(crate) fn is_within(self, bound: Self) -> bool {
        self.beyond(bound) == Self::default()
    }
}
