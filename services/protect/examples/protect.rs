//! Overload control in front of any HTTP service, in a dozen lines:
//!
//! `cargo run --release -p tamarisk-protect --example protect -- http://127.0.0.1:3000 127.0.0.1:8080 200`
//!
//! The arguments: the service, where to listen, and the target of the 90th
//! percentile in milliseconds.

use std::time::Duration;

use tamarisk_control::Target;
use tamarisk_protect::Options;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("arguments: service, listen address, milliseconds");
    let (service, listen, millis) = (next()?.parse()?, next()?.parse()?, next()?.parse()?);
    let target = Target::p90(Duration::from_millis(millis))?;

    let mut options = Options::single(listen, service, target);
    if let Ok(cores) = next() {
        options.front.cores = cores.parse()?;
    }
    let running = tamarisk_protect::start(options).await?;
    println!("serving on http://{}", running.local_addr());

    tokio::signal::ctrl_c().await?;
    running.shutdown(Duration::from_secs(10)).await;
    Ok(())
}
