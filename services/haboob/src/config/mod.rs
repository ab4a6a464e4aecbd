//! A site from a file.
//!
//! ```toml
//! listen = "127.0.0.1:8080"
//! p90 = "200ms"                          # what is promised; or p50, p99 …; 1 s by default
//! status = "127.0.0.1:9090"              # the status page; none by default
//! status_token = { file = "token" }      # or { env = "TAMARISK_TOKEN" }: allows changes there
//! status_hosts = ["status.lan"]          # names that the status answers to, besides localhost and addresses
//! cores = 2                              # all by default
//! cache = "64MiB"                        # memory for pages
//! held = "1MiB"                          # longer files are not kept in memory, but read as they are sent
//! file_threads = 4
//! trusted_proxies = ["10.0.0.0/8"]       # whose X-Forwarded-For is believed
//!
//! [limits]                               # as in the file of `tamarisk protect`
//! connections = 10000
//!
//! [[tls]]                                # clear text by default; one for each certificate
//! certificate = "chain.pem"
//! key = "key.pem"
//!
//! [log]                                  # no log by default
//! file = "access.log"                    # or "-", standard output
//! format = "combined"                    # or "json"
//!
//! [classes.paying]                       # of proxied requests, as in the file of `protect`
//! any = [{ cookie = "plan", value = "gold" }]
//! priority = 0
//!
//! [[host]]
//! names = ["example.org", "*.example.org"]
//! root = "public"                        # beside this file
//! index = ["index.html"]                 # index.html by default
//! listing = true                         # lists folders without an index; false by default
//! hidden = true                          # serves names with a dot in front; false by default
//! cache_control = "max-age=300"
//!
//! [host.errors]                          # pages in the root
//! 404 = "404.html"
//! 503 = "busy.html"
//!
//! [[host.route]]
//! path = "/docs"                         # what is below it is looked for in the root
//! root = "/usr/share/doc"
//! listing = true
//! p90 = "500ms"
//!
//! [[host.route]]
//! path = "/api"
//! proxy = "http://127.0.0.1:3000"        # behind a stage of its own
//! p90 = "100ms"
//! classes = ["paying"]                   # all of them by default
//!
//! [[host.route]]
//! path = "/old"
//! redirect = "/new/"                     # /old/a goes to /new/a; without the last slash to /new
//! status = 301                           # or 302, the default, 307, 308
//!
//! [[host]]                               # without names: whatever no other host has
//! root = "rest"
//! ```
//!
//! **Hosts** are told apart by `Host` or `:authority`, in whatever case and without the port.
//! A name goes before a pattern, and `*.` stands for one name, as in certificates. What no
//! host has is answered with 421, unless one host has no names.
//!
//! **Routes**: of all whose path a request's is, or is below, the longest has it, wherever it
//! stands. Names are compared decoded and whole. The host's own `root` is its route `/`;
//! `index`, `listing`, `hidden` and `cache_control` of a host are also those of its routes.
//! A proxied service is told the path as the client has sent it, and besides `p90` and
//! `classes` takes `name`, `host`, `connect_time`, `answer_time`,
//! `request_buffering`, `client`, `streams` and laws by name, as `[upstreams.…]` and
//! `[[routes]]` of `protect` do.
//!
//! **Errors** are answered with the pages of the host's root, with the status that they are
//! for; answers of proxied services are passed on as they are.
//!
//! **TLS** has the certificate whose names have the one that a client asks for, and the first
//! one for all others.
//!
//! **SIGHUP** makes `tamarisk serve` read all of this again; see
//! [`Running::reload`](crate::Running::reload).
//!
//! A mistake is shown where it stands, with what was expected there; an unknown key is a
//! mistake, and so is a folder that is none.

mod action;
mod host;
mod options;
mod values;

use std::path::Path;

pub use tamarisk_settings::ConfigError;

use tamarisk_service::settings::Disk;

use self::values::FileContext;
use crate::serve::Options;

/// Reads the file at `path`; folders and pages that it names must be there.
///
/// # Errors
/// [`ConfigError`]: the file cannot be read, or says something that cannot be.
pub fn load(path: &Path) -> Result<Options, ConfigError> {
    let place =
        FileContext { folder: path.parent().unwrap_or_else(|| Path::new("")), disk: Disk::Asked };
    tamarisk_settings::load(path, |document| options::read(document, place))
}

/// Reads `text`, which errors call `name`; paths are relative to `folder`, and whether
/// anything is there is not looked at.
///
/// # Errors
/// [`ConfigError::Invalid`] if it says something that cannot be.
pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Options, ConfigError> {
    let place = FileContext { folder, disk: Disk::Unasked };
    tamarisk_settings::parse(name, text, |document| options::read(document, place))
}
