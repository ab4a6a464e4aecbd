//! CPU time that a request for a file costs: `tamarisk serve` beside nginx, h2o and
//! lighttpd, each on one core, 64 keep-alive connections.
//!
//! `cargo build --profile dist && cargo run --profile dist -p tamarisk-bench --bin site`
//!
//! Needs nginx, h2o, lighttpd and wrk (Debian's packages). All four run side by side and
//! take turns on core 0, the load generator has core 1.

use anyhow::Result;
use tamarisk_bench::process::{Scratch, Server, free_address, h2o, nginx, serve};
use tamarisk_bench::wrk::Wrk;
use tamarisk_bench::{Spread, spread};

const REPETITIONS: usize = 7;
const SECONDS: u32 = 3;
const SERVER_CORE: usize = 0;
const WRK: Wrk = Wrk { core: 1, connections: 64 };

const FILES: [(&str, usize); 3] = [("1 KB", 1024), ("16 KB", 16 * 1024), ("1 MB", 1024 * 1024)];

fn main() -> Result<()> {
    let scratch = Scratch::new("site-bench")?;
    for (_, length) in FILES {
        scratch.write(&format!("{length}.bin"), &"x".repeat(length))?;
    }
    let folder = scratch.path().display().to_string();
    let servers = [
        ("tamarisk", serve(SERVER_CORE, &folder, &[])?),
        (
            "nginx",
            nginx(&scratch, "nginx", SERVER_CORE, |address| {
                format!(
                    "sendfile on; tcp_nopush on; open_file_cache max=1000;\n\
                 server {{ listen {address}; root {folder}; }}"
                )
            })?,
        ),
        ("h2o", h2o(&scratch, SERVER_CORE, &folder)?),
        ("lighttpd", lighttpd(&scratch)?),
    ];
    for (what, length) in FILES {
        compare(&servers, what, &format!("/{length}.bin"))?;
    }
    Ok(())
}

fn compare(servers: &[(&str, Server); 4], what: &str, path: &str) -> Result<()> {
    let mut costs = vec![Vec::new(); servers.len()];
    for (_, server) in servers {
        WRK.load(server, path, 1)?;
    }
    for repetition in 0..REPETITIONS {
        for (index, (name, server)) in servers.iter().enumerate() {
            let (micros, load) = WRK.cost(server, path, SECONDS)?;
            anyhow::ensure!(load.rejected == 0.0, "{name} rejected {} requests", load.rejected);
            eprintln!("{what}: {}/{REPETITIONS} {name}: {micros:.2} µs", repetition + 1);
            costs[index].push(micros);
        }
    }
    println!("{what}: µs of CPU time a request: median of {REPETITIONS} (least … greatest)");
    for ((name, _), costs) in servers.iter().zip(&costs) {
        println!("  {name:<10}{}", spread(costs.clone()));
    }
    let of_peers = |run: usize| costs[1..].iter().map(|costs| costs[run]).fold(f64::MAX, f64::min);
    let ratios = costs[0].iter().enumerate().map(|(run, ours)| ours / of_peers(run)).collect();
    let Spread { median, least, greatest } = spread(ratios);
    println!(
        "  tamarisk ÷ the best of the others, paired: {median:.2}  ({least:.2} … {greatest:.2})"
    );
    Ok(())
}

fn lighttpd(scratch: &Scratch) -> Result<Server> {
    let address = free_address()?;
    let folder = scratch.path().display();
    let config = scratch.write(
        "lighttpd.conf",
        &format!(
            "server.document-root = \"{folder}\"\nserver.bind = \"{}\"\nserver.port = {}\n\
             server.max-keep-alive-requests = 65535\nserver.network-backend = \"sendfile\"\n\
             mimetype.assign = ( \".bin\" => \"application/octet-stream\" )\n",
            address.ip(),
            address.port()
        ),
    )?;
    Server::start(SERVER_CORE, &["lighttpd", "-D", "-f", &config], address)
}
