//! The shape of the house: no circle of imports between the files of a crate, nor between its modules,
//! no folder of more files than a reader surveys, no type's name twice in a crate.
//!
//! And that `rust-toolchain.toml` has the version of Rust that `Cargo.toml` calls the oldest.
//!
//! What does not hold yet is counted in `xtask/tidy-allowed.txt`, whose numbers only fall.

mod allowed;
mod circles;
mod folders;
mod modules;
mod names;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The Rust files of the workspace by path from its root, with `/` between folders.
pub(crate) type Tree = BTreeMap<String, String>;

/// What a check found in one place.
#[derive(Debug, PartialEq)]
struct Finding {
    check: &'static str,
    /// A folder, or a crate's root file.
    place: String,
    /// How much of it: this number may only fall.
    count: usize,
    /// What it is, for the reader.
    details: Vec<String>,
}

const ALLOWED: &str = "xtask/tidy-allowed.txt";

/// Checks the workspace.
///
/// # Errors
/// If something is found that is not allowed, or less than is.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let faults = allowed::faults(&findings(&read(workspace)?)?, &listed(workspace)?)?;
    if !faults.is_empty() {
        bail!("tidy failed:\n{}", faults.join("\n"));
    }
    let file = |path: &str| std::fs::read_to_string(workspace.join(path)).context(path.to_owned());
    same_rust(&file("Cargo.toml")?, &file("rust-toolchain.toml")?)?;
    eprintln!("xtask: tidy: passed");
    Ok(())
}

/// That the compiler in use is the oldest that is supported.
fn same_rust(manifest: &str, toolchain: &str) -> Result<()> {
    let stated = |text: &str, key: &str| -> Option<String> {
        let value = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(value.trim_start_matches([' ', '=']).trim_matches('"').to_owned())
    };
    let oldest = stated(manifest, "rust-version");
    let used = stated(toolchain, "channel");
    match (&oldest, &used) {
        (Some(oldest), Some(used)) if used == oldest || *used == format!("{oldest}.0") => Ok(()),
        _ => bail!(
            "rust-version of Cargo.toml is {oldest:?}, channel of rust-toolchain.toml {used:?}"
        ),
    }
}

/// Writes the list of what is allowed anew, with what there is where that is less.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn lower(workspace: &Path) -> Result<()> {
    let lowered = allowed::lowered(&findings(&read(workspace)?)?, &listed(workspace)?)?;
    std::fs::write(workspace.join(ALLOWED), lowered).context(ALLOWED)
}

fn listed(workspace: &Path) -> Result<String> {
    std::fs::read_to_string(workspace.join(ALLOWED)).context(ALLOWED)
}

fn findings(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = folders::findings(tree);
    for root in tree.keys().filter(|path| modules::is_root(path)) {
        let files = modules::read(tree, root)?;
        findings.extend(circles::findings(root, &files));
        findings.extend(names::finding(root, &files));
    }
    Ok(findings)
}

/// The Rust files of the workspace.
///
/// # Errors
/// If one cannot be read.
pub(crate) fn read(workspace: &Path) -> Result<Tree> {
    let mut tree = Tree::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(workspace.join(&folder)).with_context(|| folder.clone())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if entry.file_type()?.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(entry.path()).with_context(|| path.clone())?;
                tree.insert(path, text);
            }
        }
    }
    Ok(tree)
}

#[cfg(test)]
pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_in_use_is_the_oldest_supported() {
        let check = |oldest: &str, used: &str| {
            let manifest = format!("[workspace.package]\nrust-version = \"{oldest}\"\n");
            same_rust(&manifest, &format!("[toolchain]\nchannel = \"{used}\"\n")).is_ok()
        };
        assert!(check("1.95", "1.95.0") && check("1.95.1", "1.95.1"));
        assert!(!check("1.95", "1.96.0") && !check("1.95.1", "1.95.0") && !check("1.95", "stable"));
    }
}
