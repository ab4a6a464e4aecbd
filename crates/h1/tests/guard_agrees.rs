//! The codec and the server's guard read the same requests in the same bytes.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "../examples/differential/compare.rs"]
mod compare;

use std::fs;
use std::path::Path;

use compare::{Mutator, compare};

#[test]
fn the_stored_corpus_is_read_alike_however_it_is_cut() {
    for (name, input) in stored() {
        for piece in [1, 2, 3, 7, usize::MAX] {
            compare(&input, |_| piece).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn mutated_inputs_are_read_alike() {
    let mut mutator = Mutator::new(0);
    for _ in 0..20_000 {
        mutator.run_one().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The inputs of the fuzz target that watches the guard; each is led by a line of its own.
fn stored() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../http/fuzz/corpus/watch");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let inputs: Vec<_> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            let line = bytes.iter().position(|&byte| byte == b'\n').unwrap();
            (path.display().to_string(), bytes[line + 1..].to_vec())
        })
        .collect();
    assert!(!inputs.is_empty(), "no corpus in {folder:?}");
    inputs
}
