//! Steps that are one call of cargo. The command is compiled with all its features, as it is
//! shipped.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::WORKSPACE;

/// One call of cargo.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    cargo: &'static str,
    /// In the names of the tests that are run, if not all are.
    tests: Option<&'static str>,
}

pub(crate) const FMT: Step = step("fmt", "fmt --all --check");
pub(crate) const LINT: Step = step(
    "lint",
    "clippy --workspace --all-targets --locked --features tamarisk-cli/full -- --deny warnings",
);
pub(crate) const DENY: Step = step("deny", "deny --workspace --locked check bans licenses sources");
/// Examples and benchmarks are compiled by [`LINT`].
pub(crate) const UNITS: Step =
    step("units", "test --workspace --lib --bins --tests --locked --features tamarisk-cli/full");
pub(crate) const DOCTESTS: Step =
    step("doctests", "test --workspace --doc --locked --features tamarisk-cli/full");
/// Tests of TLS have certificates made by openssl.
pub(crate) const INSIDE: Step = step(
    "unit tests inside of src",
    "test --workspace --lib --bins --locked --features tamarisk-cli/full -- --skip tls::",
);
/// In the folder where [`LINT`] has checked most of what they need.
const FUZZ: Step = step("fuzz", "check --manifest-path fuzz/Cargo.toml --target-dir target");
pub(crate) const MODELS: Step = Step {
    name: "models",
    // In a folder of its own: the flag makes every crate another one.
    environment: &[("RUSTFLAGS", "--cfg tamarisk_loom"), ("CARGO_TARGET_DIR", "target/models")],
    cargo: "test --package tamarisk-stage --lib --locked",
    tests: Some("model::"),
};
pub(crate) const DOCS: Step = Step {
    name: "docs",
    environment: &[("RUSTDOCFLAGS", "--deny warnings")],
    cargo: "doc --workspace --no-deps --document-private-items --locked --features tamarisk-cli/full",
    tests: None,
};
/// The test that compares the pages writes them instead.
pub(crate) const CONFIG: Step = Step {
    name: "config",
    environment: &[("TAMARISK_WRITE_REFERENCE", "1")],
    cargo: "test --package tamarisk-cli --bin tamarisk --locked --features full",
    tests: Some("reference::the_pages_are_current"),
};
/// As tests are compiled, since a release build takes longer than it saves.
pub(crate) const TABLES: Step =
    step("tables", "run --package tamarisk-model --locked --example law_table -- check");
pub(crate) const ALL_TABLES: [Step; 2] = [
    step("tables", "run --release --package tamarisk-model --example law_table -- all"),
    UPSTREAM_WIDTHS,
];
pub(crate) const TABLES_ANEW: [Step; 2] = [
    step("tables", "run --release --package tamarisk-model --example law_table -- anew"),
    UPSTREAM_WIDTHS,
];
const UPSTREAM_WIDTHS: Step =
    step("tables", "run --release --package tamarisk-model --example upstream_widths");
pub(crate) const FIGURES: [Step; 4] = [
    step("figures", "run --release --package tamarisk-model --example figures docs/figures"),
    step("figures", "run --release --package tamarisk-model --example fair07 docs/figures"),
    step("figures", "run --release --package tamarisk-model --example paper_figures docs/figures"),
    step("figures", "run --release --package tamarisk-laws --example fair_figures docs/figures"),
];

const fn step(name: &'static str, cargo: &'static str) -> Step {
    Step { name, environment: &[], cargo, tests: None }
}

/// Runs `steps` up to the first that fails.
pub(crate) fn run(steps: &[Step]) -> Result<()> {
    steps.iter().try_for_each(|Step { name, environment, cargo, tests }| {
        let mut arguments: Vec<&str> = cargo.split(' ').collect();
        if let Some(tests) = tests {
            arguments.push(tests);
            check_there_are_any(name, environment, &arguments)?;
        }
        self::cargo(name, environment, &arguments)
    })
}

/// Tests that have another name now would pass, for cargo runs none.
fn check_there_are_any(name: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Result<()> {
    let listed = command(environment, &[arguments, &["--", "--list"]].concat())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{name}: cargo does not start"))?;
    let shown = arguments.join(" ");
    ensure!(listed.status.success(), "{name} failed: cargo {shown} -- --list ({})", listed.status);
    let listed = String::from_utf8_lossy(&listed.stdout);
    ensure!(names_a_test(&listed), "{name} failed: cargo {shown} runs no test");
    Ok(())
}

/// Whether the list of a test binary names a test.
fn names_a_test(listed: &str) -> bool {
    listed.lines().any(|line| line.ends_with(": test"))
}

/// Checks the fuzz targets, a workspace of their own, with the versions that the other one has.
pub(crate) fn fuzz() -> Result<()> {
    let lock = |folder: &str| Path::new(WORKSPACE).join(folder).join("Cargo.lock");
    fs::copy(lock(""), lock("fuzz")).context("fuzz: Cargo.lock cannot be copied")?;
    run(&[FUZZ])
}

/// Runs cargo with `arguments`, which is the step `name`.
pub(crate) fn cargo(name: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Result<()> {
    let shown = arguments.join(" ");
    eprintln!("xtask: {name}: cargo {shown}");
    let start = Instant::now();
    let status = command(environment, arguments)
        .status()
        .with_context(|| format!("{name}: cargo does not start"))?;
    if !status.success() {
        bail!("{name} failed: cargo {shown} ({status})");
    }
    eprintln!("xtask: {name}: passed in {} s", start.elapsed().as_secs());
    Ok(())
}

fn command(environment: &[(&str, &str)], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(WORKSPACE)
        .env("PATH", crate::tools::path());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_tests_is_told_from_one_with() {
        assert!(names_a_test("model::a: test\nmodel::b: test\n\n2 tests, 0 benchmarks\n"));
        assert!(!names_a_test("\n0 tests, 0 benchmarks\n"));
    }
}
