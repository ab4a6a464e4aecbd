//! The exit codes of commands.

use std::fmt;

/// How a command ended that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It did what it was asked to.
    Done,
    /// It ran to its end, and the end was not a good one.
    Unsuccessful,
    /// The user stopped it.
    Interrupted,
}

impl Ending {
    /// A file says something that cannot be: shows the place.
    pub(crate) fn mistaken(mistake: tamarisk_settings::ConfigError) -> Self {
        eprintln!("{:?}", miette::Report::new(mistake));
        Self::Unsuccessful
    }
}

/// Several errors, each of them reported by itself.
#[derive(Debug)]
pub(crate) struct Errors(Vec<anyhow::Error>);

impl Errors {
    /// These errors as one, which is the only one perhaps.
    pub(crate) fn joined<E: std::error::Error + Send + Sync + 'static>(
        errors: Vec<E>,
    ) -> anyhow::Error {
        let mut errors: Vec<_> = errors.into_iter().map(anyhow::Error::from).collect();
        match errors.len() {
            1 => errors.remove(0),
            _ => Self(errors).into(),
        }
    }

    /// The lines that report `error`: one, unless it is several.
    pub(crate) fn lines(error: &anyhow::Error) -> Vec<String> {
        match error.downcast_ref::<Self>() {
            Some(Self(errors)) => errors.iter().map(|error| format!("{error:#}")).collect(),
            None => vec![format!("{error:#}")],
        }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(|error| format!("{error:#}")).collect();
        f.write_str(&lines.join("; "))
    }
}

impl std::error::Error for Errors {}
