//! The proxies that stand before the upstream.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use super::situations::Situation;
use crate::process::{Scratch, Server, free_address, nginx};

/// nginx is given a core by [`nginx`]; the upstream and the clients use what is left.
const NGINX_CORE: usize = 0;
/// Where the upstream has no limit, the others are given one that bounds nothing.
const UNLIMITED: usize = 10_000;

/// Which proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Front {
    /// This command's `protect`, told the target and what the situation's file says.
    Tamarisk(PathBuf),
    /// nginx with `limit_conn`, told how many workers there are.
    Nginx,
    /// HAProxy with `maxconn` and a queue of the target's length, told how many workers there are.
    Haproxy,
    /// Envoy (a command or a file) with its adaptive concurrency and the defaults of that.
    Envoy(PathBuf),
}

impl Front {
    /// Starts it before `upstream`.
    ///
    /// # Errors
    /// As for [`Server::start`], and if its file cannot be written.
    pub fn start(
        &self,
        scratch: &Scratch,
        situation: &Situation,
        upstream: SocketAddr,
    ) -> Result<Server> {
        let workers = situation.upstream.workers.unwrap_or(UNLIMITED);
        match self {
            Self::Tamarisk(command) => protect(scratch, command, situation, upstream),
            Self::Nginx => nginx(scratch, "front", NGINX_CORE, |address| {
                format!(
                    "limit_conn_zone $server_name zone=all:1m; limit_conn_status 503;\n\
                     upstream back {{ server {upstream}; keepalive 256; }}\n\
                     server {{ listen {address}; server_name all; location / {{\n\
                     limit_conn all {}; proxy_buffering off;\n\
                     proxy_pass http://back; proxy_http_version 1.1;\n\
                     proxy_set_header Connection \"\"; }} }}",
                    2 * workers
                )
            }),
            Self::Haproxy => {
                let address = free_address()?;
                let config = scratch.write(
                    "haproxy.cfg",
                    &format!(
                        "global\n  nbthread 1\n\
                         defaults\n  mode http\n  option http-keep-alive\n  http-reuse always\n\
                         \x20 timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
                         \x20 timeout queue {}ms\n\
                         frontend front\n  bind {address}\n  default_backend back\n\
                         backend back\n  server upstream {upstream} maxconn {workers}\n",
                        situation.p90.as_millis()
                    ),
                )?;
                Server::start_anywhere(&["haproxy", "-db", "-f", &config], address)
            }
            Self::Envoy(command) => envoy(scratch, command, upstream),
        }
    }
}

/// Envoy as its documents describe adaptive concurrency: the gradient controller with the defaults
/// of what may be left out, and nothing else between the client and the upstream. Its limits on
/// connections and requests to an upstream (1,024 unless set) are raised, and its timeout of 15 s
/// for an answer is as long as the others'.
fn envoy(scratch: &Scratch, command: &Path, upstream: SocketAddr) -> Result<Server> {
    const TYPES: &str = "type.googleapis.com/envoy.extensions.filters";
    let address = free_address()?;
    let (ip, port) = (address.ip(), address.port());
    let (upstream_ip, upstream_port) = (upstream.ip(), upstream.port());
    let socket = |ip, port| json!({ "socket_address": { "address": ip, "port_value": port } });
    let config = json!({ "static_resources": {
        "listeners": [{
            "address": socket(ip, port),
            "filter_chains": [{ "filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": {
                    "@type": format!("{TYPES}.network.http_connection_manager.v3.HttpConnectionManager"),
                    "stat_prefix": "front",
                    "route_config": { "virtual_hosts": [{
                        "name": "all",
                        "domains": ["*"],
                        "routes": [{
                            "match": { "prefix": "/" },
                            "route": { "cluster": "upstream", "timeout": "60s" },
                        }],
                    }] },
                    "http_filters": [
                        {
                            "name": "envoy.filters.http.adaptive_concurrency",
                            "typed_config": {
                                "@type": format!("{TYPES}.http.adaptive_concurrency.v3.AdaptiveConcurrency"),
                                "gradient_controller_config": {
                                    "concurrency_limit_params": { "concurrency_update_interval": "0.1s" },
                                    "min_rtt_calc_params": { "interval": "60s" },
                                },
                            },
                        },
                        {
                            "name": "envoy.filters.http.router",
                            "typed_config": { "@type": format!("{TYPES}.http.router.v3.Router") },
                        },
                    ],
                },
            }] }],
        }],
        "clusters": [{
            "name": "upstream",
            "connect_timeout": "5s",
            "circuit_breakers": { "thresholds": [{
                "max_connections": UNLIMITED,
                "max_pending_requests": UNLIMITED,
                "max_requests": UNLIMITED,
            }] },
            "load_assignment": { "cluster_name": "upstream", "endpoints": [{ "lb_endpoints": [{
                "endpoint": { "address": socket(upstream_ip, upstream_port) },
            }] }] },
        }],
    } });
    let config = scratch.write("envoy.json", &config.to_string())?;
    let command = command.display().to_string();
    let arguments = ["-c", &config, "--concurrency", "1", "--disable-hot-restart"];
    Server::start_anywhere(&[&[&*command], &arguments[..]].concat(), address)
}

fn protect(
    scratch: &Scratch,
    command: &Path,
    situation: &Situation,
    upstream: SocketAddr,
) -> Result<Server> {
    let address = free_address()?;
    let config = scratch.write(
        "protect.toml",
        &format!(
            "listen = \"{address}\"\np90 = \"{}ms\"\n[upstreams.app]\nurl = \"http://{upstream}\"\n{}",
            situation.p90.as_millis(),
            situation.config
        ),
    )?;
    let command = command.display().to_string();
    Server::start_anywhere(&[&command, "protect", "--config", &config], address)
}
