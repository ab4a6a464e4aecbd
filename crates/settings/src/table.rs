//! Declarations of tables and keys: a [`Section`](crate::Section) accepts these keys
//! and no others, and the reference for users and editors is made of them.

use crate::percentile::is_percentile;

/// A table of a file.
#[derive(Debug)]
pub struct Table {
    /// How it is written, such as `[limits]`, `[upstreams.NAME]` or `[[routes]]`; what it is if it
    /// stands inline.
    pub heading: &'static str,
    /// What it is for.
    pub summary: &'static str,
    /// Its keys, in groups that tables share.
    pub groups: &'static [&'static [Key]],
}

/// A key of a table.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its value may be.
    pub form: Form,
    /// What holds without it.
    pub absent: Absent,
    /// What it does.
    pub summary: &'static str,
}

/// What holds where a key is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// That is a mistake.
    Fault,
    /// What this value says, written as in a file.
    Value(&'static str),
    /// What these words say.
    Means(&'static str),
}

/// What a value may be.
#[derive(Debug)]
pub enum Form {
    /// A string, and what it is.
    Text(&'static str),
    /// A time such as `"200ms"`.
    Time,
    /// A size such as `"8KiB"`.
    Size,
    /// A time within which a share of the answers comes; the key, `p90` by default, says which.
    Target,
    /// A whole number between these two.
    Whole(u64, u64),
    /// A number between these two; the greatest may be infinite.
    Number(f64, f64),
    /// `true` or `false`.
    Bool,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// A list.
    List(&'static Self),
    /// A table.
    Table(&'static Table),
    /// Tables by names that the user gives.
    Named(&'static Table),
    /// Values by keys, and what the keys are.
    Map(&'static str, &'static Self),
    /// One of several forms.
    Either(&'static [Self]),
    /// A law by its name, or a table of its name and constants.
    Law(LawKind),
    /// Nothing: stating it is a mistake, with this reason.
    Never {
        /// What is wrong with it.
        message: &'static str,
        /// What to state instead.
        expected: &'static str,
    },
}

/// What a law decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LawKind {
    /// Whether an event is admitted.
    Admission,
    /// Whether a queued event is dropped.
    Dropping,
    /// How many workers there are.
    Workers,
    /// How many events are handled together.
    Batching,
    /// At which quality events are handled.
    Quality,
    /// When a running event is ended.
    Termination,
    /// What the stages together do.
    Global,
}

impl Table {
    /// Its keys.
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.groups.iter().copied().flatten()
    }

    /// The key of this name; every percentile is the name of a target.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        let is_it = |key: &&Key| {
            key.name == name || matches!(key.form, Form::Target) && is_percentile(name)
        };
        self.keys().find(is_it)
    }
}

/// A key that may be absent, which means nothing by itself.
pub const fn key(name: &'static str, form: Form, summary: &'static str) -> Key {
    Key { name, form, absent: Absent::Means("none"), summary }
}

impl Key {
    /// The key must be there.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { absent: Absent::Fault, ..self }
    }

    /// Without the key, it is as if it had `value`, written as in a file.
    #[must_use]
    pub const fn default(self, value: &'static str) -> Self {
        Self { absent: Absent::Value(value), ..self }
    }

    /// Without the key, it is as these words say.
    #[must_use]
    pub const fn otherwise(self, words: &'static str) -> Self {
        Self { absent: Absent::Means(words), ..self }
    }
}
