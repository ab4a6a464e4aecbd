//! Clients that open streams on HTTP/2 and take nothing. The file has a process of its own, whose
//! memory it measures.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;

use crate::support::frames::{DATA, NO_FLAGS, PING, RawHttp2};
use crate::support::{Folder, within};
use tamarisk_haboob::{config, start};

const CONNECTIONS: usize = 100;
const STREAMS: u32 = 100;

/// Longer than any window.
const LONG: usize = 2 << 20;

/// What this process holds in memory, in KiB.
fn resident_kib() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Asks for a long file on each stream, and takes one byte of each.
async fn stall(client: &mut RawHttp2) {
    for stream in 0..STREAMS {
        assert!(client.get(2 * stream + 1, "/long").await);
    }
    let mut begun = BTreeSet::new();
    while begun.len() < STREAMS as usize {
        let frame = client.read_frame().await.expect("the connection stays open");
        if frame.kind == DATA && frame.payload.len() == 1 {
            begun.insert(frame.stream);
        }
    }
    settle(client).await;
}

/// Waits until the server has come round to this connection once more.
async fn settle(client: &mut RawHttp2) {
    client.frame(PING, NO_FLAGS, 0, &[0; 8]).await;
    while client.read_frame().await.expect("the connection stays open").kind != PING {}
}

#[tokio::test]
async fn streams_that_take_nothing_hold_little_memory() {
    let site = "listen = \"127.0.0.1:0\"\ncores = 2\n[[host]]\nroot = \"a\"\n";
    let long = vec![b'x'; LONG];
    let folder = Folder::with([("site.toml", site.as_bytes()), ("a/long", &long)]);
    let running = start(config::load(&folder.join("site.toml")).unwrap()).await.unwrap();
    let mut stalled = RawHttp2::connect(running.local_addr(), 1).await;
    stall(&mut stalled).await;

    let before = resident_kib();
    let mut others = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = RawHttp2::connect(running.local_addr(), 1).await;
        stall(&mut client).await;
        others.push(client);
    }
    let grown = resident_kib().saturating_sub(before);
    println!("{} KiB for each connection", grown / CONNECTIONS);
    // A connection has a budget of 256 KiB, its streams have 4 KiB each, and the rest of them
    // (task, request, state of h2) takes as much again.
    assert!(grown < CONNECTIONS * 1200, "{grown} KiB for {CONNECTIONS} connections");

    // Who takes one of them gets it, whatever the others hold.
    drop(others);
    assert!(stalled.allow(1, LONG as u32).await);
    let mut length = 1;
    within(async {
        while length < LONG {
            let frame = stalled.read_frame().await.expect("the connection stays open");
            if frame.kind == DATA && frame.stream == 1 {
                length += frame.payload.len();
                let taken = u32::try_from(frame.payload.len()).unwrap();
                stalled.allow(0, taken.max(1)).await;
            }
        }
    })
    .await;
    assert_eq!(length, LONG);
}
