//! Writes figures 4-11, 4-14 and 4-15 of Fair07 as CSV into a directory.
//! ```text
//! cargo run --release -p tamarisk-control --example fair_figures -- target/fair-figures
//! ```

#![allow(clippy::disallowed_macros, reason = "it says what it wrote")]

#[path = "../tests/fair_figures/mod.rs"]
mod fair_figures;

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| "target/fair-figures".into());
    let directory = PathBuf::from(directory);
    std::fs::create_dir_all(&directory)?;
    for figure in [fair_figures::p_precompensated(), fair_figures::pi(), fair_figures::pd()] {
        let path = directory.join(format!("figure-{}.csv", figure.number));
        std::fs::write(&path, figure.csv())?;
        println!(
            "{}: settles in {} samples, overshoot {:.3}, sum of errors {:.3}",
            path.display(),
            figure.settling(),
            figure.overshoot(),
            figure.absolute_error(),
        );
    }
    Ok(())
}
