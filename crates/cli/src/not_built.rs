//! Subcommands that were left out of this build.

use std::ffi::OsString;

use anyhow::anyhow;
use clap::Args;

use crate::ending::Ending;

/// In place of a subcommand that this build lacks: it fails and names the feature.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct NotBuilt {
    #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
    _arguments: Vec<OsString>,
}

impl NotBuilt {
    pub(crate) fn run(&self, name: &str) -> anyhow::Result<Ending> {
        Err(left_out(name))
    }
}

/// The error for a part that needs the feature `services`.
pub(crate) fn left_out(name: &str) -> anyhow::Error {
    anyhow!("{name} is not in this build: build with `--features services`")
}
