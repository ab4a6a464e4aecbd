//! The limit of open files, and how many connections it allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything that is not a connection under load: standard
/// streams, the threads' selectors and timers, files of results, the service
/// itself where it shares the process.
const RESERVE: u64 = 256;

/// More connections are needed than the process may have descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{connections} connections need {} file descriptors, but this process may open {limit}; \
     ask for fewer, or raise the limit (`ulimit -n {}`)",
    .connections + RESERVE, .connections + RESERVE
)]
pub struct TooFewDescriptors {
    connections: u64,
    limit: u64,
}

/// Connections that the process may hold, with its soft limit raised as far as
/// the hard limit allows.
pub(crate) fn connections_allowed() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If the kernel rejects, the limit stays what it was, and is what counts.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = getrlimit(Resource::Nofile).current.or(current);
    limit.unwrap_or(u64::MAX).saturating_sub(RESERVE)
}

/// Whether `connections` fit into `allowed` ones.
pub(crate) fn check(connections: u64, allowed: u64) -> Result<(), TooFewDescriptors> {
    if connections <= allowed {
        Ok(())
    } else {
        Err(TooFewDescriptors { connections, limit: allowed.saturating_add(RESERVE) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_says_what_is_needed_and_what_there_is() {
        assert_eq!(check(18_000, 19_744), Ok(()));
        assert_eq!(
            check(20_000, 19_744).unwrap_err().to_string(),
            "20000 connections need 20256 file descriptors, but this process may open 20000; \
             ask for fewer, or raise the limit (`ulimit -n 20256`)"
        );
    }
}
