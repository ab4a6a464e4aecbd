//! The `tamarisk` command. Each subcommand is a module of its name; this file
//! says which there are, and what the process's exit code means.

mod arguments;
mod columns;
mod completions;
mod demo;
mod ending;
mod interrupt;
mod load;
#[cfg(feature = "services")]
mod mail;
mod man;
mod messages;
mod model;
#[cfg(not(feature = "services"))]
mod not_built;
mod output;
mod protect;
#[cfg(feature = "services")]
mod pytec;
#[cfg(feature = "services")]
#[cfg(test)]
mod reference;
mod serve;
mod serving;
mod sim;
mod size;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::ending::{Ending, Errors};

/// A request through the proxy allocates some dozen times: an allocator made for
/// that saves several per cent of its cost (`bench`, `proxy`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Internet services that stay well-conditioned under more load than they can serve.
#[derive(Debug, Parser)]
#[command(name = "tamarisk", version, propagate_version = true, after_help = EXIT_CODES)]
struct Tamarisk {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Protect(Box<protect::Protect>),
    Serve(Box<serve::Serve>),
    #[cfg(feature = "services")]
    Pytec(pytec::Pytec),
    /// Serve pages of Python embedded in HTML (left out of this build)
    #[cfg(not(feature = "services"))]
    Pytec(not_built::NotBuilt),
    #[cfg(feature = "services")]
    Mail(Box<mail::Mail>),
    /// Serve webmail (left out of this build)
    #[cfg(not(feature = "services"))]
    Mail(not_built::NotBuilt),
    Demo(demo::Demo),
    Load(Box<load::Load>),
    Sim(sim::Sim),
    Model(model::Model),
    Completions(completions::Completions),
    Man(man::Man),
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the command failed, or the service under load answered nothing in time
  2    the command line is not understood
  130  ended by Ctrl-C, or a load by SIGTERM";

fn main() -> ExitCode {
    raise_open_files();
    match Tamarisk::parse().command.run() {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Unsuccessful) => ExitCode::FAILURE,
        // As a shell reports a process that SIGINT ended: 128 + 2.
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(misunderstood) => misunderstood.exit(),
            // The reader of the pipe has seen enough.
            Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                Errors::lines(&error).iter().for_each(|line| eprintln!("error: {line}"));
                ExitCode::FAILURE
            }
        },
    }
}

impl Command {
    fn run(self) -> anyhow::Result<Ending> {
        match self {
            Self::Protect(protect) => protect.run(),
            Self::Serve(serve) => serve.run(),
            #[cfg(feature = "services")]
            Self::Pytec(pytec) => pytec.run(),
            #[cfg(not(feature = "services"))]
            Self::Pytec(pytec) => pytec.run("`pytec`"),
            #[cfg(feature = "services")]
            Self::Mail(mail) => mail.run(),
            #[cfg(not(feature = "services"))]
            Self::Mail(mail) => mail.run("`mail`"),
            Self::Demo(demo) => demo.run(),
            Self::Load(load) => load.run(),
            Self::Sim(sim) => sim.run(),
            Self::Model(model) => model.run(),
            Self::Completions(completions) => completions.run(Tamarisk::command()),
            Self::Man(man) => man.run(Tamarisk::command()),
        }
    }
}

/// Takes as many open files as the system lets us have: each connection is one or two, and shells
/// start programs with 1024 for the sake of old ones.
fn raise_open_files() {
    /// More than anyone needs; some systems have no bound at all.
    const ENOUGH: u64 = 1 << 20;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if current.is_some_and(|current| current < wanted) {
        // Else the limit stays, and commands that it bounds say so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.root_cause().downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Tamarisk::command().debug_assert();
    }
}
