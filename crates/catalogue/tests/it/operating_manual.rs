//! The manual names every law and every constant, with its default and range.

use tamarisk_catalogue::{ADMISSION, BATCHING, Entry, GLOBAL, QUALITY, TERMINATION, WORKERS};

const MANUAL: &str = include_str!("../../../../docs/OPERATING.md");

fn check<L: ?Sized>(entries: &[Entry<L>]) {
    for entry in entries {
        let row = format!("| `{}` | {} |", entry.name, entry.summary);
        assert!(MANUAL.contains(&row), "{row}");
        for knob in entry.knobs {
            let constant =
                format!("`{}` {} ({} … {})", knob.name, knob.default, knob.least, knob.greatest);
            assert!(MANUAL.contains(&constant), "{}: {constant}", entry.name);
        }
    }
}

#[test]
fn every_law_and_every_constant_is_in_the_manual() {
    check(ADMISSION);
    check(WORKERS);
    check(BATCHING);
    check(QUALITY);
    check(TERMINATION);
    check(GLOBAL);
}
