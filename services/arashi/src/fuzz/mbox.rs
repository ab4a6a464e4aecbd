//! Mboxes: how they are split.

use std::io::BufReader;

use crate::import::mbox::Mbox;

/// The mbox `input` is split alike whatever pieces it is read in, its messages are what is
/// between its separators, and a bound on them leaves the others as they are.
///
/// # Panics
/// If it is not.
pub fn check(input: &[u8]) {
    let whole = messages(input, 1 << 20, usize::MAX);
    assert_eq!(messages(input, 1, usize::MAX), whole);
    assert_eq!(messages(input, 7, usize::MAX), whole);
    let bounded = messages(input, 1 << 20, 100);
    assert_eq!(bounded.len(), whole.len());
    for (bounded, whole) in bounded.iter().zip(&whole) {
        let whole = whole.as_ref().expect("there is no bound");
        match bounded {
            Ok(bounded) => assert_eq!(bounded, whole),
            // With the empty line behind it.
            Err(size) => assert!(*size > 100 && size.abs_diff(whole.len() as u64) <= 2),
        }
    }
    let size: usize = whole.iter().flatten().map(Vec::len).sum();
    assert!(size <= input.len());
}

fn messages(input: &[u8], buffer: usize, bytes_max: usize) -> Vec<Result<Vec<u8>, u64>> {
    let mut mbox = Mbox::new(BufReader::with_capacity(buffer, input), bytes_max);
    let mut all = Vec::new();
    while let Some(message) = mbox.next_message().expect("bytes can be read") {
        all.push(message.content);
    }
    assert_eq!(mbox.position, input.len() as u64);
    all
}
