//! `tamarisk completions`: scripts that let a shell complete the command line.

use std::io::{self, Write};

use clap::Args;
use clap_complete::Shell;

use crate::ending::Ending;

const EXAMPLES: &str = "\
Examples:
  tamarisk completions bash > ~/.local/share/bash-completion/completions/tamarisk
  tamarisk completions zsh > ~/.zfunc/_tamarisk
  tamarisk completions fish > ~/.config/fish/completions/tamarisk.fish";

/// Print a script that completes `tamarisk` in a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell to complete in
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut command: clap::Command) -> anyhow::Result<Ending> {
        let mut script = vec![];
        clap_complete::generate(self.shell, &mut command, "tamarisk", &mut script);
        io::stdout().write_all(&script)?;
        Ok(Ending::Done)
    }
}
