//! `protect` from a file.
//!
//! ```toml
//! listen = "127.0.0.1:8080"
//! status = "127.0.0.1:9090"             # the status page; none by default
//! status_token = { file = "token" }     # or { env = "TAMARISK_TOKEN" }: allows changes there
//! status_hosts = ["status.lan"]         # names that the status answers to, besides localhost and addresses
//! cores = 2                             # all by default
//! trusted_proxies = ["10.0.0.0/8"]      # whose X-Forwarded-For is believed
//! p90 = "200ms"                         # or p50, p95, p99, p999 …: what is promised
//! log = { file = "access.log", format = "json" } # or "combined"; "-" is standard output
//!
//! [errors]                              # pages in place of the built-in ones, for browsers
//! 503 = "busy.html"                     # {{status}}, {{reason}}, {{request_id}}, {{retry_after}} are filled in
//!
//! [limits]                              # all of them optional
//! request_line = "8KiB"
//! head = "32KiB"
//! body = "10MiB"                        # any size by default
//! head_time = "10s"
//! stall_time = "60s"
//! rate_min = "500B"                     # a second, of bodies and answers
//! idle_time = "75s"
//! connections = 10000
//!
//! [[tls]]                               # clear text by default; one for each certificate
//! certificate = "chain.pem"             # beside this file
//! key = "key.pem"
//!
//! [upstreams.shop]
//! url = "http://127.0.0.1:3000"
//! host = "client"                       # or "upstream", or a name of its own
//! connect_time = "5s"
//! answer_time = "60s"
//! request_buffering = "memory-and-file" # or "off": bodies are passed on as they come
//! client = { header = "X-Api-Key" }     # or { cookie = "…" }; by address by default
//! admission = "predict-gate-trim"       # "work-limit" by default
//! workers = 32                          # only where the admission law sets no limit
//!
//! [stage.shop]                          # more about the same: laws alone
//! quality = { law = "degradation", quality_least_ratio = 0.5 }
//! termination = "termination-threshold"
//! dropping = "selective-dropper"
//!
//! [classes.paying]                      # tried from top to bottom
//! any = [{ cookie = "plan", value = "gold" }, { address = "192.0.2.0/24" }]
//! priority = 0                          # 1 by default; lower ones go first
//! weight = 3                            # its part among those of its priority, 1 to 100
//!
//! [classes.robots]
//! any = [{ header = "x-robot" }, { path = "/feed" }]
//! priority = 2
//! p90 = "2s"
//!
//! [[routes]]                            # the one with the longest path takes a request
//! name = "search"
//! path = "/search"
//! host = "*.example.org"
//! methods = ["GET"]
//! upstream = "shop"                     # may be left out if there is one only
//! classes = ["paying"]                  # all of them by default
//! streams = true                        # its answers are streams; false by default
//! p90 = "1s"
//!
//! [[routes]]
//! name = "rest"
//! path = "/"
//! ```
//!
//! A route's own target comes before its classes' targets, and those before the
//! file's. `[classes.default]` sets the priority and the target of requests that no
//! class takes. Without routes, everything goes to the one upstream. Where a class has a
//! weight, those of its priority share the capacity by their weights when not all can
//! be served; one that states none among them counts as 1.
//!
//! `admission`, `dropping`, `workers`, `quality` and `termination` name laws of the
//! [catalogue](tamarisk_laws::catalogue), in `[upstreams.…]` or in the `[stage.…]` of
//! that name: alone, or as `law` in a table with some of the law's constants. With a
//! quality law each request carries its factor to the upstream, as `X-Quality: 0.42`; at
//! 1 everything is wanted.
//!
//! `client` says how the clients of a service are told apart where its capacity is shared out:
//! by address (that of the client behind `trusted_proxies`; an IPv6 network of 64 bits is one
//! client), or by a header or a cookie, where a request that has none counts by its address.
//! The answers of a route with `streams`, and those of the types `text/event-stream` and
//! `application/grpc`, keep their places to their ends, and are promised their first data.
//!
//! A mistake is shown where it stands, with what was expected there; an unknown key
//! is a mistake.

mod assemble;

use std::path::Path;

use tamarisk_service::settings::Disk;
pub use tamarisk_settings::ConfigError;

use crate::Options;

/// Reads the options of `protect` from the file at `path`, and certificates that it names.
///
/// # Errors
/// [`ConfigError`]: the file cannot be read, or says something that cannot be.
pub fn load(path: &Path) -> Result<Options, ConfigError> {
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    tamarisk_settings::load(path, |document| assemble::options(document, folder, Disk::Asked))
}

/// Reads the options of `protect` from `text`, which errors call `name`; certificates are not
/// looked for.
///
/// # Errors
/// [`ConfigError::Invalid`] if it says something that cannot be.
pub fn parse(name: &str, text: &str) -> Result<Options, ConfigError> {
    let folder = Path::new("");
    tamarisk_settings::parse(name, text, |document| {
        assemble::options(document, folder, Disk::Unasked)
    })
}
