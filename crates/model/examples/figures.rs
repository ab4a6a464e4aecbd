//! Writes the figures of [Welsh02 ch. 4] that come from the model, as CSV.
//! ```text
//! cargo run --release -p tamarisk-model --example figures -- out/figures
//! ```

use std::path::PathBuf;
use std::{env, fs, io};

use tamarisk_model::figures;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "out/figures".to_owned()));
    fs::create_dir_all(&folder)?;
    for figure in figures::all() {
        let path = folder.join(format!("welsh02-{}.csv", figure.number));
        fs::write(&path, figure.to_csv())?;
        println!("{}: {}", path.display(), figure.title);
        for line in &figure.lines {
            let limit =
                line.limit.map_or_else(String::new, |rate| format!("stable below {rate:.4}"));
            println!("    {:<24} {limit}", line.name);
        }
    }
    Ok(())
}
