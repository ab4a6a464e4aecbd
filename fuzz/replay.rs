use std::fs;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Random changes tried of a corpus: a few seconds of a debug build.
const CHANGES: usize = 10_000;

/// Inputs do not grow beyond this.
const LENGTH_MAX: usize = 4096;

/// Shows `check` the stored corpus of `target`, and then random changes of it, the
/// same ones each time. An input at which it panics is printed.
pub(crate) fn replay(target: &str, check: fn(&[u8])) {
    let corpus = stored(target);
    assert!(!corpus.is_empty(), "no corpus is stored for {target}");
    corpus.iter().for_each(|input| show(check, input));
    let mut random = StdRng::seed_from_u64(0);
    for _ in 0..CHANGES {
        show(check, &changed(&corpus, &mut random));
    }
}

/// All inputs, in the order of their names.
fn stored(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn show(check: fn(&[u8]), input: &[u8]) {
    struct Told<'a>(&'a [u8]);
    impl Drop for Told<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("the input was b\"{}\"", self.0.escape_ascii());
            }
        }
    }
    let _told = Told(input);
    check(input);
}

/// One of `corpus` with up to four changes: a byte turned into another one, a piece
/// taken out or doubled, or a piece of another input put in.
fn changed(corpus: &[Vec<u8>], random: &mut StdRng) -> Vec<u8> {
    let mut any = || &corpus[random.random_range(0..corpus.len())];
    let (mut input, other) = (any().clone(), any());
    for _ in 0..random.random_range(1..=4) {
        match random.random_range(0..5) {
            0 if !input.is_empty() => {
                let at = random.random_range(0..input.len());
                input[at] = random.random();
            }
            1 if !input.is_empty() => {
                let at = random.random_range(0..input.len());
                input[at] ^= 1 << random.random_range(0..8);
            }
            2 => drop(input.drain(piece(&input, random))),
            3 => {
                let doubled = input[piece(&input, random)].to_vec();
                insert(&mut input, &doubled, random);
            }
            _ => insert(&mut input, &other[piece(other, random)], random),
        }
    }
    input.truncate(LENGTH_MAX);
    input
}

/// A place in `input`, most often a short one.
fn piece(input: &[u8], random: &mut StdRng) -> std::ops::Range<usize> {
    let start = random.random_range(0..=input.len());
    let most = if random.random() { 8 } else { input.len() };
    start..random.random_range(start..=input.len().min(start + most))
}

fn insert(input: &mut Vec<u8>, piece: &[u8], random: &mut StdRng) {
    let at = random.random_range(0..=input.len());
    input.splice(at..at, piece.iter().copied());
}
