//! The exit codes of commands.

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
