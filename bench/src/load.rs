//! Runs of `tamarisk load`, read by their reports.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process::{pinned, tamarisk};

/// The report of a run with these arguments, on `core` if it is to have one of its own.
///
/// # Errors
/// If the generator cannot be run, or fails.
pub fn load(core: Option<usize>, arguments: &[&str]) -> Result<Value> {
    let tamarisk = tamarisk()?.display().to_string();
    let output = core
        .map_or_else(|| Command::new(&tamarisk), |core| pinned(core, &[&tamarisk]))
        .arg("load")
        .args(arguments)
        .args(["--json", "-"])
        .stderr(Stdio::null())
        .output()
        .context("the load generator could not be started")?;
    ensure!(output.status.success(), "load failed: {}", arguments.join(" "));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A number of a report.
///
/// # Errors
/// If it is none.
pub fn number(value: &Value) -> Result<f64> {
    value.as_f64().with_context(|| format!("{value} is no number"))
}
