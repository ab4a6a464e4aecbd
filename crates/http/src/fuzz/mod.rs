//! What must hold whatever bytes come: one property a module, each a function
//! `check` that panics when it does not.
//!
//! libFuzzer looks for such bytes (`crates/http/fuzz`); the tests below replay
//! those it has found, with random changes, on any compiler. Inputs to the parsers
//! of streams begin with a line of words that says how to use the rest: see `Input`.

mod input;

pub mod config;
pub mod watch;

pub(crate) use input::Input;

pub use crate::proxy::fuzz::{answer, forwarded};

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn the_watch_judges_alike_however_requests_are_cut() {
        replay("watch", super::watch::check);
    }

    #[test]
    fn answers_are_read_alike_however_they_are_cut_and_as_hyper_reads_them() {
        replay("answer", super::answer::check);
    }

    #[test]
    fn a_configuration_holds_together_or_shows_where_it_does_not() {
        replay("config", super::config::check);
    }

    #[test]
    fn what_an_upstream_is_told_says_what_the_client_said_and_no_more() {
        replay("forwarded", super::forwarded::check);
    }
}
