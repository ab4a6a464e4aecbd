//! Folders of more files than a reader surveys.

use std::collections::BTreeMap;

use super::{Finding, Tree};

/// What fits a screen, and the eye.
const FILES_MAX: usize = 20;

/// The folders with too many Rust files.
pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for path in tree.keys() {
        *folders.entry(path.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default() += 1;
    }
    let crowded = folders.into_iter().filter(|(_, count)| *count > FILES_MAX);
    crowded
        .map(|(folder, count)| Finding {
            check: "files",
            place: folder.to_owned(),
            count,
            details: vec![format!("{count} files in one folder; at most {FILES_MAX}")],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_files_fit_a_folder_and_one_more_does_not() {
        let mut tree: Tree = (0..20).map(|n| (format!("a/src/{n}.rs"), String::new())).collect();
        tree.insert("a/src/deeper/b.rs".into(), String::new());
        assert_eq!(findings(&tree), []);
        tree.insert("a/src/20.rs".into(), String::new());
        let found = findings(&tree);
        assert_eq!((found.len(), found[0].place.as_str(), found[0].count), (1, "a/src", 21));
    }
}
