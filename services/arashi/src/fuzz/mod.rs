//! What must hold whatever bytes come: one property a module, each a function
//! `check` that panics when it does not.
//!
//! libFuzzer looks for such bytes (`fuzz` at the root); the tests below replay
//! those it has found, with random changes, on any compiler.

pub mod mail;
pub mod mbox;

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn something_safe_is_shown_of_any_message() {
        replay("mail", super::mail::check);
    }

    #[test]
    fn an_mbox_is_split_alike_however_it_is_read() {
        replay("mbox", super::mbox::check);
    }
}
