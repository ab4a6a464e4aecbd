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
/// Known vulnerabilities of dependencies. Their database comes from the network.
const ADVISORIES: Step =
    step("advisories", "deny --workspace --locked check --disable-fetch advisories");
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
/// What cargo-fuzz instruments its targets with. Without a sanitizer the ordinary compiler will do.
const COVERAGE: &str = "-Cpasses=sancov-module -Ccodegen-units=1 -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// How long each target looks for inputs that break it: that it runs, not that nothing is found.
const FUZZ_SECONDS: u32 = 5;
/// Inputs do not grow beyond this, in bytes, as in the replay of the corpora.
const FUZZ_LENGTH: u32 = 4096;
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
pub(crate) const ALL_TABLES: [Step; 3] = [
    step("tables", "run --release --package tamarisk-model --example law_table -- all"),
    UPSTREAM_WIDTHS,
    RANDOM_SITUATIONS,
];
pub(crate) const TABLES_ANEW: [Step; 3] = [
    step("tables", "run --release --package tamarisk-model --example law_table -- anew"),
    UPSTREAM_WIDTHS,
    RANDOM_SITUATIONS,
];
const UPSTREAM_WIDTHS: Step =
    step("tables", "run --release --package tamarisk-model --example upstream_widths");
const RANDOM_SITUATIONS: Step =
    step("tables", "run --release --package tamarisk-model --example random_situations -- --page");
pub(crate) const FIGURES: [Step; 4] = [
    step("figures", "run --release --package tamarisk-model --example figures docs/figures"),
    step("figures", "run --release --package tamarisk-model --example fair07 docs/figures"),
    step("figures", "run --release --package tamarisk-model --example paper_figures docs/figures"),
    step(
        "figures",
        "run --release --package tamarisk-laws-papers --example fair_figures docs/figures",
    ),
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

/// The targets are a workspace of their own, with the versions that the other one has.
fn lock_fuzz(workspace: &Path) -> Result<()> {
    let lock = |folder: &str| workspace.join(folder).join("Cargo.lock");
    fs::copy(lock(""), lock("fuzz")).context("fuzz: Cargo.lock cannot be copied")?;
    Ok(())
}

/// Runs each fuzz target for some seconds.
pub(crate) fn fuzz() -> Result<()> {
    let workspace = Path::new(WORKSPACE);
    lock_fuzz(workspace)?;
    // With a target named, the flags are not those of build scripts, which would not link.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let instrumented = [("CARGO_PROFILE_DEV_OPT_LEVEL", "1"), ("RUSTFLAGS", COVERAGE)];
    let build = ["build", "--manifest-path", "fuzz/Cargo.toml", "--target", &target];
    cargo("fuzz", &instrumented, &[&build[..], &["--target-dir", "target/fuzz"]].concat())?;
    let programs = workspace.join("target/fuzz").join(target).join("debug");
    let corpora = fs::read_dir(workspace.join("fuzz/corpus")).context("fuzz: fuzz/corpus")?;
    for corpus in corpora {
        let corpus = corpus.context("fuzz: fuzz/corpus")?;
        fuzz_target(workspace, &programs.join(corpus.file_name()), &corpus.path())?;
    }
    Ok(())
}

/// What it finds goes into a folder that is thrown away, and an input that breaks the target into
/// `target/fuzz`.
fn fuzz_target(workspace: &Path, program: &Path, corpus: &Path) -> Result<()> {
    let target = corpus.file_name().unwrap_or_default().to_string_lossy();
    eprintln!("xtask: fuzz: {target} for {FUZZ_SECONDS} s");
    let found = workspace.join("target/fuzz/found").join(&*target);
    let _ = fs::remove_dir_all(&found);
    fs::create_dir_all(&found).with_context(|| format!("fuzz: {}", found.display()))?;
    let output = Command::new(program)
        .args([&found, corpus])
        .arg(format!("-max_total_time={FUZZ_SECONDS}"))
        .arg(format!("-max_len={FUZZ_LENGTH}"))
        .arg("-artifact_prefix=target/fuzz/")
        .current_dir(workspace)
        .output()
        .with_context(|| format!("fuzz: {target} does not start"))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("fuzz: {target} failed ({}):\n{told}", output.status);
    }
    Ok(())
}

/// Checks for known vulnerabilities, where their database can be had.
pub(crate) fn advisories() -> Result<()> {
    let fetched = command(&[], &["deny", "--workspace", "--locked", "fetch", "db"]).output();
    if fetched.is_ok_and(|output| output.status.success()) {
        return run(&[ADVISORIES]);
    }
    eprintln!("xtask: advisories: not checked, their database cannot be had");
    Ok(())
}

/// The checks of one crate: lints, and all its tests but those of its documentation.
pub(crate) fn of_crate(name: &str) -> Result<()> {
    let all_features = ["--package", name, "--all-features", "--locked"];
    let lint = [&["clippy", "--all-targets"], &all_features[..], &["--", "--deny", "warnings"]];
    cargo("lint", &[], &lint.concat())?;
    let tests = [&["test", "--lib", "--bins", "--tests"], &all_features[..]];
    cargo("tests", &[], &tests.concat())
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
