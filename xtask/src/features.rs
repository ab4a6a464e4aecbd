//! Each feature compiles alone, and so does each crate without any; the tower layer and the status port bring few
//! crates, and no law but the defaults.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::WORKSPACE;
use crate::steps::cargo;

/// What the tower layer may bring, itself included: who adds it to a service adds all of them.
const LAYER_CRATES_MAX: usize = 40;

/// The same of the library with the status port. TLS, HTTP/2, configuration files and PNG would be
/// twice as many.
const STATUS_CRATES_MAX: usize = 80;

/// Every law by name: who adds the layer or the status port to a service compiles no law that the
/// service cannot name.
const ALL_LAWS: &str = "tamarisk-catalogue";

/// Checks every crate that has features: without any, and with each alone; and that the layer and the status port are small.
pub(crate) fn check() -> Result<()> {
    check_crates("tamarisk-tower", &[], LAYER_CRATES_MAX)?;
    check_crates("tamarisk", &["--features", "status"], STATUS_CRATES_MAX)?;
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .current_dir(WORKSPACE)
        .output()
        .context("cargo metadata does not start")?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    for (package, feature) in combinations(&metadata) {
        let check = ["check", "--locked", "--package", &package, "--no-default-features"];
        let with = ["--features", &feature];
        let arguments =
            if feature.is_empty() { check.to_vec() } else { [&check[..], &with].concat() };
        cargo("features", &[], &arguments)?;
    }
    Ok(())
}

/// Checks that `package` with these features brings at most `most` crates, and not all laws.
fn check_crates(package: &str, features: &[&str], most: usize) -> Result<()> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--package", package, "--edges", "normal"])
        .args(["--prefix", "none"])
        .args(features)
        .current_dir(WORKSPACE)
        .output()
        .context("cargo tree does not start")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout)?;
    let (count, with) = (crates(&tree).len(), features.join(" "));
    ensure!(
        count <= most,
        "{package} {with} brings {count} crates, and may bring {most}; \
         cargo tree --package {package} {with} --edges normal shows them"
    );
    ensure!(
        !crates(&tree).iter().any(|name| name.split(' ').next() == Some(ALL_LAWS)),
        "{package} {with} brings {ALL_LAWS}; stages are to take laws, not names"
    );
    println!("xtask: features: {package} {with} brings {count} crates, itself included");
    Ok(())
}

/// Those of a tree without its branches, which repeats some and says where others are.
fn crates(tree: &str) -> BTreeSet<&str> {
    tree.lines()
        .filter_map(|line| line.split(" (").next())
        .filter(|line| !line.is_empty())
        .collect()
}

/// What the fuzz targets call, which is checked with them.
const FUZZING: &str = "fuzzing";

/// Packages and the feature to check them with; the empty one is none.
fn combinations(metadata: &Value) -> Vec<(String, String)> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.flat_map(of_package).collect()
}

fn of_package(package: &Value) -> Vec<(String, String)> {
    let name = package["name"].as_str().unwrap_or_default();
    let features = package["features"].as_object().into_iter().flat_map(|all| all.keys());
    let own: Vec<_> = features.filter(|feature| *feature != FUZZING).collect();
    if own.is_empty() {
        return Vec::new();
    }
    let alone = own.into_iter().map(String::as_str).filter(|feature| *feature != "default");
    std::iter::once("").chain(alone).map(|feature| (name.to_owned(), feature.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_counts_once() {
        let tree = "own v0.1.0 (/folder/own)\nslab v0.4.12\nquote v1.0.47 (proc-macro)\nslab v0.4.12 (*)\n\n";
        assert_eq!(crates(tree), BTreeSet::from(["own v0.1.0", "quote v1.0.47", "slab v0.4.12"]));
    }

    #[test]
    fn each_feature_is_checked_alone_and_none_too() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "plain", "features": {} },
            { "name": "fuzzed", "features": { "fuzzing": [] } },
            { "name": "rich", "features": { "default": ["a"], "a": [], "b": [] } },
        ] });
        let expected = [("rich", ""), ("rich", "a"), ("rich", "b")];
        assert_eq!(combinations(&metadata), expected.map(|(p, f)| (p.to_owned(), f.to_owned())));
    }
}
