//! The files of the SPECweb99 benchmark, and how often each is asked for: the load of
//! [Welsh02 §6.1.3].
//!
//! A directory has four classes of nine files: from 102 to 921 bytes, from 1 to 9 KB, from 10 to
//! 90 KB, and from 100 to 900 KB (921,600 bytes). Which class, is drawn by shares that are fixed;
//! which directory, and which file of the class, by Zipf's law. Of the files of a class the one in
//! the middle is the most popular.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};

/// Shares of the accesses that go to each class.
const CLASSES: [f64; 4] = [0.35, 0.50, 0.14, 0.01];

/// The place of each file of a class among the most popular.
const RANKS: [u32; 9] = [9, 6, 4, 2, 1, 3, 5, 7, 8];

/// The weight of the file that is asked for most: the greatest that `tamarisk load` takes.
const WEIGHT_MAX: f64 = 1e6;

/// A set of so many directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSet {
    directories: u32,
}

/// One of its files.
#[derive(Clone, Copy, Debug, PartialEq)]
struct File {
    directory: u32,
    class: u32,
    /// From 1 to 9.
    number: u32,
}

impl FileSet {
    /// 205 MB.
    pub const SMALL: Self = Self { directories: 40 };

    /// The paper's 3.31 GB: what SPECweb99 has for 1000 connections, 25 directories and one for
    /// every 1.525 connections.
    pub const FULL: Self = Self { directories: 681 };

    /// Bytes of all files.
    pub fn bytes(self) -> u64 {
        self.files().map(File::length).sum()
    }

    /// How many files there are.
    pub fn count(self) -> usize {
        self.files().count()
    }

    /// Where each file is, below the folder and on the server.
    pub fn paths(self) -> impl Iterator<Item = String> {
        self.files().map(File::path)
    }

    /// Whether `folder` has the whole set.
    pub fn is_in(self, folder: &Path) -> bool {
        let is_there = |file: File| {
            let metadata = fs::metadata(folder.join(file.path()));
            metadata.is_ok_and(|metadata| metadata.len() == file.length())
        };
        self.files().all(is_there)
    }

    /// Writes the files into `folder`, the same every time, and such as no server would compress.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn write(self, folder: &Path) -> Result<()> {
        let noise = noise(921_600);
        for file in self.files() {
            let path = folder.join(file.path());
            if file.class == 0 && file.number == 1 {
                let directory = path.parent().context("a file is in a directory")?;
                fs::create_dir_all(directory)?;
            }
            fs::write(&path, &noise[..file.length() as usize])
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// The URLs of all files on the server at `address`, with their weights, as `tamarisk load`
    /// reads them.
    pub fn urls(self, address: SocketAddr) -> String {
        let popularity = |file: File| {
            let class = CLASSES[file.class as usize];
            let file_rank = RANKS[file.number as usize - 1];
            class / f64::from(file_rank) / f64::from(file.directory + 1)
        };
        let most = self.files().map(popularity).fold(0.0, f64::max);
        let line = |file: File| {
            let weight = (WEIGHT_MAX * popularity(file) / most).round().max(1.0);
            format!("{weight}=http://{address}/{}\n", file.path())
        };
        self.files().map(line).collect()
    }

    fn files(self) -> impl Iterator<Item = File> {
        let of_class =
            |directory, class| (1..=9).map(move |number| File { directory, class, number });
        let of_directory =
            move |directory| (0..4).flat_map(move |class| of_class(directory, class));
        (0..self.directories).flat_map(of_directory)
    }
}

impl File {
    fn path(self) -> String {
        format!("dir{:05}/class{}_{}", self.directory, self.class, self.number)
    }

    /// Bytes of it: as many tenths of KB, KB, ten KB or hundred KB as its number says.
    fn length(self) -> u64 {
        u64::from(self.number) * 1024 * 10_u64.pow(self.class) / 10
    }
}

/// Bytes without order, the same every time (splitmix64).
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0_u64;
    let next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Some(mixed ^ (mixed >> 31))
    };
    std::iter::from_fn(next).flat_map(u64::to_le_bytes).take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn files_range_from_102_to_921600_bytes() {
        let lengths: Vec<_> = FileSet { directories: 1 }.files().map(File::length).collect();
        assert_eq!(lengths.len(), 36);
        assert_eq!(lengths[..3], [102, 204, 307]);
        assert_eq!(lengths[8..11], [921, 1024, 2048]);
        assert_eq!(lengths[27..], [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|n| n * 102_400));
    }

    #[test]
    fn the_papers_set_is_of_its_size() {
        // 3.31 GB there, in blocks on a disk.
        assert_eq!(FileSet::FULL.bytes(), 3_486_368_604);
        assert_eq!(FileSet::FULL.count(), 24_516);
    }

    /// Shares of the accesses, by what `part` takes from a URL's path.
    fn shares(set: FileSet, part: fn(&str) -> String) -> BTreeMap<String, f64> {
        let urls = set.urls("127.0.0.1:80".parse().unwrap());
        let mut weights = BTreeMap::new();
        for line in urls.lines() {
            let (weight, url) = line.split_once('=').unwrap();
            *weights.entry(part(url)).or_insert(0.0) += weight.parse::<f64>().unwrap();
        }
        let sum: f64 = weights.values().sum();
        weights.into_iter().map(|(key, weight)| (key, weight / sum)).collect()
    }

    #[test]
    fn classes_are_asked_for_by_their_shares() {
        for set in [FileSet::SMALL, FileSet::FULL] {
            let of_class = shares(set, |url| url[url.len() - 3..url.len() - 2].to_owned());
            for (share, expected) in of_class.values().zip(CLASSES) {
                assert!((share / expected - 1.0).abs() < 0.01, "{of_class:?}");
            }
        }
    }

    #[test]
    fn directories_are_asked_for_by_zipfs_law() {
        let of_directory = shares(FileSet::FULL, |url| url[20..28].to_owned());
        let first = of_directory["dir00000"];
        for (directory, share) in [("dir00001", 2.0), ("dir00009", 10.0), ("dir00679", 680.0)] {
            assert!((of_directory[directory] * share / first - 1.0).abs() < 0.01, "{directory}");
        }
    }
}
