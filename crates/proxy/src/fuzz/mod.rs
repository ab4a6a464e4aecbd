//! What must hold whatever bytes come: one property a module, each a function
//! `check` that panics when it does not.
//!
//! libFuzzer looks for such bytes (`fuzz` at the root); the tests below replay
//! those it has found, with random changes, on any compiler. Inputs begin with a
//! line of words that says how to use the rest: see `Input`.

pub mod answer;
pub mod forwarded;
#[path = "../../../../fuzz/input.rs"]
mod input;

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn answers_are_read_alike_however_they_are_cut_and_as_hyper_reads_them() {
        replay("answer", super::answer::check);
    }

    #[test]
    fn what_an_upstream_is_told_says_what_the_client_said_and_no_more() {
        replay("forwarded", super::forwarded::check);
    }
}
