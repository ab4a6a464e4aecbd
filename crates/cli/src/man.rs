//! `tamarisk man`: the manual pages, made from the command line's own help.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::ending::Ending;

const EXAMPLES: &str = "\
Examples:
  tamarisk man | man -l -
  tamarisk man --dir ~/.local/share/man/man1";

/// Print the manual page, or write those of all commands
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Write a page for each command into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self, command: clap::Command) -> anyhow::Result<Ending> {
        match self.dir {
            Some(dir) => {
                std::fs::create_dir_all(&dir)
                    .and_then(|()| clap_mangen::generate_to(command, &dir))
                    .with_context(|| format!("cannot write manual pages into {}", dir.display()))?;
            }
            None => {
                let mut page = vec![];
                clap_mangen::Man::new(command).render(&mut page)?;
                io::stdout().write_all(&page)?;
            }
        }
        Ok(Ending::Done)
    }
}
