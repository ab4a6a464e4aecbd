//! What an import did, as text and as JSON.

use std::fmt;

use serde::Serialize;

/// How many places are told as JSON,
const PLACES_MAX: usize = 1_000;
/// and as text.
const PLACES_SHOWN: usize = 20;

/// What an import did.
#[derive(Debug, Serialize)]
pub(super) struct ImportSummary {
    user: String,
    /// None for the inbox.
    folder: Option<String>,
    /// Messages that are in the database.
    pub(super) imported: u64,
    /// Of these, the ones that could not be parsed, or not all of them: kept as they came.
    pub(super) damaged: Places,
    /// What is too large, no message, or cannot be read.
    pub(super) skipped: Places,
    /// Whether the import was ended before its end.
    pub(super) is_interrupted: bool,
}

/// Where something was, the first ones.
#[derive(Debug, Default, Serialize)]
pub(super) struct Places {
    count: u64,
    first: Vec<Place>,
}

/// Where something was, and what it was.
#[derive(Debug, Serialize)]
pub(super) struct Place {
    pub(super) place: String,
    pub(super) reason: String,
}

impl ImportSummary {
    pub(super) fn new(user: &str, folder: Option<&str>) -> Self {
        Self {
            user: user.to_owned(),
            folder: folder.map(ToOwned::to_owned),
            imported: 0,
            damaged: Places::default(),
            skipped: Places::default(),
            is_interrupted: false,
        }
    }
}

impl Places {
    pub(super) fn note(&mut self, place: Place) {
        self.count += 1;
        if self.first.len() < PLACES_MAX {
            self.first.push(place);
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, title: &str) -> fmt::Result {
        if self.count == 0 {
            return Ok(());
        }
        writeln!(f, "{title}: {}", self.count)?;
        for Place { place, reason } in self.first.iter().take(PLACES_SHOWN) {
            // Names of files come from outside: none moves the cursor.
            writeln!(f, "  {}: {}", place.escape_debug(), reason.escape_debug())?;
        }
        let more = self.count.saturating_sub(PLACES_SHOWN as u64);
        if more > 0 {
            writeln!(f, "  and {more} more (--json lists up to {PLACES_MAX})")?;
        }
        Ok(())
    }
}

impl fmt::Display for ImportSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder =
            self.folder.as_ref().map_or_else(|| "the inbox".to_owned(), |name| format!("{name:?}"));
        let messages = if self.imported == 1 { "message" } else { "messages" };
        writeln!(f, "imported {} {messages} into {folder} of {}", self.imported, self.user)?;
        self.damaged.write(f, "damaged, kept as they came and shown as far as they can be read")?;
        self.skipped.write(f, "skipped")?;
        if self.is_interrupted {
            writeln!(f, "interrupted: the messages behind these are not imported")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_was_done_and_where_something_is_wrong() {
        let mut summary = ImportSummary::new("alice", None);
        summary.imported = 1;
        assert_eq!(summary.to_string(), "imported 1 message into the inbox of alice\n");
        let place = |place: String| Place { place, reason: "too large".into() };
        summary.damaged.note(place("a\x1b[2J".into()));
        (0..25).for_each(|index| summary.skipped.note(place(format!("{index}"))));
        summary.is_interrupted = true;
        let text = summary.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[2], "  a\\u{1b}[2J: too large");
        assert_eq!(lines[3], "skipped: 25");
        assert_eq!(lines[24], "  and 5 more (--json lists up to 1000)");
        assert_eq!(lines[25], "interrupted: the messages behind these are not imported");
    }
}
