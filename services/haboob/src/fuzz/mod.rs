//! What must hold whatever bytes come: one property a module, each a function
//! `check` that panics when it does not.
//!
//! libFuzzer looks for such bytes (`fuzz` at the root); the tests below replay
//! those it has found, with random changes, on any compiler.

pub mod condition;
pub mod host;
pub mod path;
pub mod range;
pub mod site;

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

/// The first line of an input, and what is behind it.
fn first_line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::replay::replay;

    #[test]
    fn parts_of_a_file_are_those_that_a_plain_reading_finds() {
        replay("range", super::range::check);
    }

    #[test]
    fn no_path_leaves_its_folder_and_routes_see_what_folders_see() {
        replay("path", super::path::check);
    }

    #[test]
    fn conditions_are_judged_alike_however_they_are_said() {
        replay("condition", super::condition::check);
    }

    #[test]
    fn a_host_is_the_one_that_a_plain_search_finds() {
        replay("host", super::host::check);
    }

    #[test]
    fn a_site_holds_together_or_shows_where_it_does_not() {
        replay("site", super::site::check);
    }
}
