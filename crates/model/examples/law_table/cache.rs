//! What is known from earlier runs: a text file to which each run is added when it is finished, so
//! that an hour of them can be interrupted and goes on where it was.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::cell::Numbers;

/// Runs by what they depend on and their seed.
pub(crate) struct Cache {
    runs: HashMap<(u64, u64), Numbers>,
    file: File,
}

impl Cache {
    /// What `path` has; what cannot be read, such as a line that was cut off, is not known.
    ///
    /// # Errors
    /// If the file can neither be opened nor made.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let text = io::read_to_string(&mut file)?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        Ok(Self { runs: text.lines().filter_map(parse).collect(), file })
    }

    pub(crate) fn get(&self, key: (u64, u64)) -> Option<Numbers> {
        self.runs.get(&key).copied()
    }

    /// Keeps `numbers`; `what` is for a reader of the file.
    ///
    /// # Errors
    /// If the file cannot be written to.
    pub(crate) fn add(
        &mut self,
        (key, seed): (u64, u64),
        numbers: Numbers,
        what: &str,
    ) -> io::Result<()> {
        let Numbers { goodput, over, needless, more } = numbers;
        let line = format!("{key:016x} {seed} {goodput} {over} {needless} {more} {what}\n");
        self.file.write_all(line.as_bytes())?;
        self.runs.insert((key, seed), numbers);
        Ok(())
    }
}

fn parse(line: &str) -> Option<((u64, u64), Numbers)> {
    let words: Vec<_> = line.splitn(7, ' ').collect();
    // What follows the numbers shows that they are whole.
    let [key, seed, goodput, over, needless, more, _what] = words[..] else { return None };
    let key = u64::from_str_radix(key, 16).ok()?;
    let number = |word: &str| word.parse().ok();
    let (goodput, over) = (number(goodput)?, number(over)?);
    let (needless, more) = (number(needless)?, number(more)?);
    Some(((key, seed.parse().ok()?), Numbers { goodput, over, needless, more }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(goodput: f64) -> Numbers {
        Numbers { goodput, over: 1.0 / 3.0, needless: 0.0, more: 1e-300 }
    }

    #[test]
    fn what_was_added_is_known_to_the_next_run_to_the_last_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells");
        let cell = numbers(0.1 + 0.2);
        let mut cache = Cache::open(&path).unwrap();
        assert_eq!(cache.get((7, 1)), None);
        cache.add((7, 1), cell, "spike, open").unwrap();
        assert_eq!(cache.get((7, 1)), Some(cell));
        let cache = Cache::open(&path).unwrap();
        assert_eq!(cache.get((7, 1)), Some(cell));
        assert_eq!((cache.get((7, 2)), cache.get((8, 1))), (None, None));
    }

    #[test]
    fn a_line_that_was_cut_off_is_not_known_and_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells");
        let mut cache = Cache::open(&path).unwrap();
        cache.add((1, 1), numbers(0.5), "first").unwrap();
        cache.add((2, 1), numbers(0.25), "second").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for cut in 1..text.lines().last().unwrap().len() {
            std::fs::write(&path, &text[..text.len() - cut]).unwrap();
            let mut cache = Cache::open(&path).unwrap();
            assert!(cache.get((2, 1)).is_none_or(|cell| cell == numbers(0.25)), "{cut}");
            cache.add((3, 1), numbers(0.75), "third").unwrap();
            let cache = Cache::open(&path).unwrap();
            assert_eq!(cache.get((1, 1)), Some(numbers(0.5)), "{cut}");
            assert_eq!(cache.get((3, 1)), Some(numbers(0.75)), "{cut}");
        }
    }
}
