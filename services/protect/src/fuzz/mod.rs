//! What must hold whatever bytes come: one property a module, each a function
//! `check` that panics when it does not.
//!
//! libFuzzer looks for such bytes (`fuzz` at the root); the tests below replay
//! those it has found, with random changes, on any compiler.

pub mod config;

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn a_configuration_holds_together_or_shows_where_it_does_not() {
        replay("config", super::config::check);
    }
}
