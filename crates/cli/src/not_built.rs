//! Subcommands that were left out of this build.

use anyhow::anyhow;
use clap::Args;

use crate::ending::Ending;

/// In place of a subcommand: whatever it is asked for, it says how to build it.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct NotBuilt {
    #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
    _arguments: Vec<String>,
}

impl NotBuilt {
    pub(crate) fn run(&self, name: &str) -> anyhow::Result<Ending> {
        Err(left_out(name))
    }
}

/// What to do about something of the feature `services`.
pub(crate) fn left_out(name: &str) -> anyhow::Error {
    anyhow!("{name} is not in this build: build with `--features services`")
}
