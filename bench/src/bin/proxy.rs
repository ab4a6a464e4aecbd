//! CPU time that a proxied request costs: `tamarisk protect` with all control on,
//! beside nginx and HAProxy, each on one core, 64 keep-alive connections, tiny answers.
//!
//! `cargo build --profile dist && cargo run --profile dist -p tamarisk-bench --bin proxy`
//!
//! Needs nginx, haproxy and wrk (Debian's packages). The proxy under test has core 0 to
//! itself; upstream and load generator share core 1. All three run side by side and
//! take turns within one run, so that a noisy minute hits all of them.

use std::net::SocketAddr;

use anyhow::Result;
use tamarisk_bench::process::{Scratch, Server, free_address, nginx, tamarisk};
use tamarisk_bench::wrk::{Load, Wrk};
use tamarisk_bench::{Spread, spread};

const REPETITIONS: usize = 7;
const SECONDS: u32 = 4;
const PROXY_CORE: usize = 0;
const OTHER_CORE: usize = 1;
const WRK: Wrk = Wrk { core: OTHER_CORE, connections: 64 };

fn main() -> Result<()> {
    let scratch = Scratch::new("proxy-bench")?;
    let upstream = nginx(&scratch, "upstream", OTHER_CORE, |address| {
        format!("server {{ listen {address}; return 200 ok; }}")
    })?;
    let proxies = [
        ("tamarisk", protect(upstream.address, "1s")?),
        ("haproxy", haproxy(&scratch, upstream.address)?),
        ("nginx", nginx_proxy(&scratch, upstream.address)?),
    ];
    let mut costs = vec![Vec::new(); proxies.len()];
    for (_, proxy) in &proxies {
        load(proxy, 1)?;
    }
    for repetition in 0..REPETITIONS {
        for (index, (name, proxy)) in proxies.iter().enumerate() {
            let (micros, load) = cost(proxy)?;
            anyhow::ensure!(load.rejected == 0.0, "{name} rejected {} requests", load.rejected);
            eprintln!("{}/{REPETITIONS} {name}: {micros:.2} µs", repetition + 1);
            costs[index].push(micros);
        }
    }
    let per_run = |index: usize| costs[index].iter().zip(&costs[1]).zip(&costs[2]);
    println!("µs of CPU time a request: median of {REPETITIONS} (least … greatest)");
    for ((name, _), costs) in proxies.iter().zip(&costs) {
        println!("  {name:<10}{}", spread(costs.clone()));
    }
    let ratios: Vec<f64> =
        per_run(0).map(|((ours, haproxy), nginx)| ours / haproxy.min(*nginx)).collect();
    let Spread { median, least, greatest } = spread(ratios);
    println!("tamarisk ÷ the better of the two, paired: {median:.2}  ({least:.2} … {greatest:.2})");
    rejecting(&proxies[0].1)
}

/// The same proxy with nearly everything rejected, beside it with everything passed on.
fn rejecting(passing: &Server) -> Result<()> {
    let slow = demo_service()?;
    // With all connections waiting for it, its answers would take 160 ms.
    let rejecting = protect(slow.address, "100ms")?;
    let mut ratios = Vec::new();
    let mut costs = Vec::new();
    load(&rejecting, 2)?;
    for _ in 0..REPETITIONS {
        let (passed, _) = cost(passing)?;
        let before = rejecting.cpu_time();
        let load = load(&rejecting, SECONDS)?;
        let micros = (rejecting.cpu_time() - before).as_secs_f64() * 1e6;
        // What was passed on in the meantime is not what is measured here.
        let rejected = (micros - passed * (load.requests - load.rejected)) / load.rejected;
        costs.push(rejected);
        ratios.push(rejected / passed);
    }
    println!("  rejecting  {}", spread(costs));
    let Spread { median, least, greatest } = spread(ratios);
    println!("rejecting ÷ passing on, paired: {median:.2}  ({least:.2} … {greatest:.2})");
    Ok(())
}

/// Microseconds of CPU time a request, and what was asked.
fn cost(proxy: &Server) -> Result<(f64, Load)> {
    WRK.cost(proxy, "/", SECONDS)
}

fn load(proxy: &Server, seconds: u32) -> Result<Load> {
    WRK.load(proxy, "/", seconds)
}

/// A service that can answer 400 requests a second.
fn demo_service() -> Result<Server> {
    let address = free_address()?;
    let (command, listen) = (tamarisk()?.display().to_string(), address.to_string());
    Server::start(OTHER_CORE, &[&command, "demo", "--serve", &listen], address)
}

fn protect(upstream: SocketAddr, p90: &str) -> Result<Server> {
    let address = free_address()?;
    let (command, listen) = (tamarisk()?.display().to_string(), address.to_string());
    let upstream = format!("http://{upstream}");
    let command =
        [&*command, "protect", &upstream, "--listen", &listen, "--p90", p90, "--cores", "1"];
    Server::start(PROXY_CORE, &command, address)
}

fn haproxy(scratch: &Scratch, upstream: SocketAddr) -> Result<Server> {
    let address = free_address()?;
    let config = scratch.write(
        "haproxy.cfg",
        &format!(
            "global\n  nbthread 1\n\
             defaults\n  mode http\n  option http-keep-alive\n  http-reuse always\n\
             \x20 timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
             frontend front\n  bind {address}\n  option forwardfor\n  default_backend back\n\
             backend back\n  server upstream {upstream}\n"
        ),
    )?;
    Server::start(PROXY_CORE, &["haproxy", "-db", "-f", &config], address)
}

fn nginx_proxy(scratch: &Scratch, upstream: SocketAddr) -> Result<Server> {
    nginx(scratch, "proxy", PROXY_CORE, |address| {
        format!(
            "upstream back {{ server {upstream}; keepalive 64; keepalive_requests 1000000; }}\n\
             server {{ listen {address}; location / {{\n\
             proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }} }}"
        )
    })
}
