//! What must hold whatever bytes come: one property a module, each a function
//! `check` that panics when it does not.
//!
//! libFuzzer looks for such bytes (`fuzz` at the root); the tests below replay
//! those it has found, with random changes, on any compiler. Inputs begin with a
//! line of words that says how to use the rest: see `Input`.

#[path = "../../../../fuzz/input.rs"]
#[allow(dead_code, reason = "other crates use its other part")]
mod input;
pub mod trailers;
pub mod watch;

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn the_watch_judges_alike_however_requests_are_cut() {
        replay("watch", super::watch::check);
    }

    #[test]
    fn trailers_are_marked_however_frames_are_cut() {
        replay("trailers", super::trailers::check);
    }
}
