//! The rows: which servers, and what is asked of them.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::Result;
use tamarisk_bench::identity::Identity;
use tamarisk_bench::process::{Scratch, Server, free_address, nginx};

use crate::contest::{Contender, Effort, Load, OTHER_CORE, SERVER_CORE, compare};
use crate::resuming::Resuming;

type Row = fn(&Effort) -> Result<()>;

/// All rows, by their names.
pub(crate) const ALL: [(&str, Row); 8] = [
    ("routes", routes),
    ("hosts", hosts),
    ("misses", misses),
    ("http2", http2),
    ("resumed", resumed),
    ("http2-proxied", http2_proxied),
    ("post", post),
    ("log", log),
];

/// Routes or hosts of the largest file.
const MANY: usize = 1000;

fn routes(effort: &Effort) -> Result<()> {
    let route = |index| format!("name = \"r{index}\"\npath = \"/r{index}\"\n");
    many(effort, "a thousand routes", route, |_, index| format!("/r{index}/x"), |_| None)
}

fn hosts(effort: &Effort) -> Result<()> {
    let route = |index| format!("name = \"h{index}\"\nhost = \"h{index}.example.org\"\n");
    let host = |index| Some(format!("Host: h{index}.example.org"));
    many(effort, "a thousand hosts", route, |_, _| "/x".to_owned(), host)
}

/// `protect` and nginx with one route and with a thousand; the last of them is asked for.
fn many(
    effort: &Effort,
    what: &str,
    route: impl Fn(usize) -> String,
    path: impl Fn(usize, usize) -> String,
    host: impl Fn(usize) -> Option<String>,
) -> Result<()> {
    let scratch = Scratch::new("costs-bench")?;
    let upstream = upstream(&scratch)?;
    let load = |count: usize| {
        let host = host(count - 1).into_iter();
        let fields = host.flat_map(|host| ["-H".to_owned(), host]).collect();
        Load::Http1(path(count, count - 1), fields)
    };
    let ours = |count| {
        let routes = (0..count).fold(String::new(), |mut routes, index| {
            let _ = write!(routes, "[[routes]]\n{}", route(index));
            routes
        });
        protect(effort, &scratch, upstream.address, &routes, "")
    };
    let theirs = |count: usize| {
        nginx(&scratch, &format!("nginx-{count}"), SERVER_CORE, |address| {
            nginx_many(address, upstream.address, count, &host)
        })
    };
    let (one, thousand) = (ours(1)?, ours(MANY)?);
    let (their_one, their_thousand) = (theirs(1)?, theirs(MANY)?);
    compare(
        effort,
        what,
        &[
            Contender { name: "tamarisk, a thousand", server: &thousand, load: load(MANY) },
            Contender { name: "tamarisk, one", server: &one, load: load(1) },
            Contender { name: "nginx, a thousand", server: &their_thousand, load: load(MANY) },
            Contender { name: "nginx, one", server: &their_one, load: load(1) },
        ],
    )
}

fn nginx_many(
    address: SocketAddr,
    upstream: SocketAddr,
    count: usize,
    host: &impl Fn(usize) -> Option<String>,
) -> String {
    let pass = "proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\";";
    let mut text = format!(
        "server_names_hash_max_size 8192; server_names_hash_bucket_size 128;\n\
         upstream back {{ server {upstream}; keepalive 64; keepalive_requests 1000000; }}\n"
    );
    match host(0) {
        Some(_) => (0..count).for_each(|index| {
            let name = host(index).unwrap_or_default();
            let name = name.trim_start_matches("Host: ");
            let _ = writeln!(
                text,
                "server {{ listen {address}; server_name {name}; location / {{ {pass} }} }}"
            );
        }),
        None => {
            let _ = writeln!(text, "server {{ listen {address};");
            for index in 0..count {
                let _ = writeln!(text, "location /r{index} {{ {pass} }}");
            }
            text.push('}');
        }
    }
    text
}

fn misses(effort: &Effort) -> Result<()> {
    let scratch = Scratch::new("costs-bench")?;
    let folder = site(&scratch)?;
    let ours = serve(effort, &folder, &[])?;
    let theirs = nginx(&scratch, "nginx", SERVER_CORE, |address| {
        format!(
            "open_file_cache max=1000; server {{ listen {address}; root {folder}; log_not_found off; }}"
        )
    })?;
    let h2o = h2o(&scratch, &folder, "")?;
    let asks = |path: &str| Load::Http1(path.to_owned(), Vec::new());
    let with = |field: &str| vec!["-H".to_owned(), field.to_owned()];
    for (what, path, fields) in [
        ("404", "/missing.bin", Vec::new()),
        ("404 of a page", "/missing.html", Vec::new()),
        ("301 of a folder", "/folder", Vec::new()),
        ("304", "/1024.bin", with("If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT")),
    ] {
        let load = || Load::Http1(path.to_owned(), fields.clone());
        compare(
            effort,
            what,
            &[
                Contender { name: "tamarisk", server: &ours, load: load() },
                Contender { name: "tamarisk, a hit", server: &ours, load: asks("/1024.bin") },
                Contender { name: "nginx", server: &theirs, load: load() },
                Contender { name: "h2o", server: &h2o, load: load() },
            ],
        )?;
    }
    Ok(())
}

fn http2(effort: &Effort) -> Result<()> {
    let scratch = Scratch::new("costs-bench")?;
    let (folder, identity) = (site(&scratch)?, Identity::make(&scratch)?);
    let ours = serve(effort, &folder, &identity.arguments())?;
    let theirs = nginx(&scratch, "nginx", SERVER_CORE, |address| {
        format!(
            "open_file_cache max=1000; server {{ listen {address} ssl http2; root {folder}; {} }}",
            identity.of_nginx()
        )
    })?;
    let ssl = format!(
        "  ssl:\n    certificate-file: {}\n    key-file: {}\n",
        identity.certificate, identity.key
    );
    let h2o = h2o(&scratch, &folder, &ssl)?;
    let load = || Load::Http2("/1024.bin".to_owned());
    compare(
        effort,
        "1 KB over HTTP/2 and TLS",
        &[
            Contender { name: "tamarisk", server: &ours, load: load() },
            Contender { name: "nginx", server: &theirs, load: load() },
            Contender { name: "h2o", server: &h2o, load: load() },
        ],
    )
}

fn resumed(effort: &Effort) -> Result<()> {
    let scratch = Scratch::new("costs-bench")?;
    let (folder, identity) = (site(&scratch)?, Identity::make(&scratch)?);
    let ours = serve(effort, &folder, &identity.arguments())?;
    let theirs = nginx(&scratch, "nginx", SERVER_CORE, |address| {
        format!(
            "ssl_session_cache shared:bench:10m; server {{ listen {address} ssl; root {folder}; {} }}",
            identity.of_nginx()
        )
    })?;
    let load = || Ok::<_, anyhow::Error>(Load::Resumed(Resuming::of(&identity.certificate)?));
    compare(
        effort,
        "TLS 1.3, resumed, and 1 KB",
        &[
            Contender { name: "tamarisk", server: &ours, load: load()? },
            Contender { name: "nginx", server: &theirs, load: load()? },
        ],
    )
}

fn http2_proxied(effort: &Effort) -> Result<()> {
    let scratch = Scratch::new("costs-bench")?;
    let (upstream, identity) = (upstream(&scratch)?, Identity::make(&scratch)?);
    let front = format!(
        "[[tls]]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        identity.certificate, identity.key
    );
    let ours = protect(effort, &scratch, upstream.address, "", &front)?;
    let listen = format!("ssl http2; {}", identity.of_nginx());
    let theirs = nginx_proxy(&scratch, upstream.address, &listen, "")?;
    let load = || Load::Http2("/".to_owned());
    compare(
        effort,
        "proxied through HTTP/2 and TLS",
        &[
            Contender { name: "tamarisk", server: &ours, load: load() },
            Contender { name: "nginx", server: &theirs, load: load() },
        ],
    )
}

fn post(effort: &Effort) -> Result<()> {
    let scratch = Scratch::new("costs-bench")?;
    let upstream = upstream(&scratch)?;
    let ours = protect(effort, &scratch, upstream.address, "", "")?;
    let theirs = nginx_proxy(&scratch, upstream.address, ";", "client_body_buffer_size 16k;")?;
    let script = "wrk.method = \"POST\"\nwrk.body = string.rep(\"x\", 10240)\n";
    let script = scratch.write("post.lua", script)?;
    let load = || Load::Http1("/".to_owned(), vec!["-s".to_owned(), script.clone()]);
    compare(
        effort,
        "POST of 10 KB",
        &[
            Contender { name: "tamarisk", server: &ours, load: load() },
            Contender { name: "nginx", server: &theirs, load: load() },
        ],
    )
}

fn log(effort: &Effort) -> Result<()> {
    let scratch = Scratch::new("costs-bench")?;
    let folder = site(&scratch)?;
    let log = |name: &str| scratch.path().join(name).display().to_string();
    let ours = serve(effort, &folder, &["--log", &log("ours.log")])?;
    let none = serve(effort, &folder, &[])?;
    let theirs = nginx(&scratch, "nginx", SERVER_CORE, |address| {
        format!(
            "open_file_cache max=1000; server {{ listen {address}; root {folder};\n\
             access_log {} combined buffer=64k flush=1s; }}",
            log("theirs.log")
        )
    })?;
    let load = || Load::Http1("/1024.bin".to_owned(), Vec::new());
    compare(
        effort,
        "1 KB with an access log",
        &[
            Contender { name: "tamarisk", server: &ours, load: load() },
            Contender { name: "tamarisk, without a log", server: &none, load: load() },
            Contender { name: "nginx", server: &theirs, load: load() },
        ],
    )
}

/// The folder of a site, which is made.
fn site(scratch: &Scratch) -> Result<String> {
    let folder = scratch.path().join("site");
    std::fs::create_dir_all(folder.join("folder"))?;
    scratch.write("site/1024.bin", &"x".repeat(1024))?;
    Ok(folder.display().to_string())
}

/// nginx, which answers at once.
fn upstream(scratch: &Scratch) -> Result<Server> {
    nginx(scratch, "upstream", OTHER_CORE, |address| {
        format!("server {{ listen {address}; location / {{ return 200 hello; }} }}")
    })
}

fn nginx_proxy(
    scratch: &Scratch,
    upstream: SocketAddr,
    listen: &str,
    more: &str,
) -> Result<Server> {
    nginx(scratch, "proxy", SERVER_CORE, |address| {
        format!(
            "upstream back {{ server {upstream}; keepalive 64; keepalive_requests 1000000; }}\n\
             server {{ listen {address} {listen} {more} location / {{\n\
             proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }} }}"
        )
    })
}

/// `protect` before `upstream`, as a file with these `routes` and this `front` says.
fn protect(
    effort: &Effort,
    scratch: &Scratch,
    upstream: SocketAddr,
    routes: &str,
    front: &str,
) -> Result<Server> {
    let address = free_address()?;
    let config = format!(
        "listen = \"{address}\"\ncores = 1\np90 = \"1s\"\n{front}\
         [upstreams.app]\nurl = \"http://{upstream}\"\n{routes}"
    );
    let config = scratch.write(&format!("protect-{}.toml", address.port()), &config)?;
    Server::start(SERVER_CORE, &[&effort.program, "protect", "--config", &config], address)
}

fn serve(effort: &Effort, folder: &str, more: &[&str]) -> Result<Server> {
    let address = free_address()?;
    let listen = address.to_string();
    let command = [&*effort.program, "serve", folder, "--listen", &listen, "--cores", "1"];
    Server::start(SERVER_CORE, &[&command, more].concat(), address)
}

fn h2o(scratch: &Scratch, folder: &str, ssl: &str) -> Result<Server> {
    let address = free_address()?;
    let config = scratch.write(
        "h2o.yaml",
        &format!(
            "num-threads: 1\nlisten:\n  host: {}\n  port: {}\n{ssl}\
             hosts:\n  default:\n    paths:\n      /:\n        file.dir: {folder}\n",
            address.ip(),
            address.port()
        ),
    )?;
    Server::start(SERVER_CORE, &["h2o", "--mode", "worker", "--conf", &config], address)
}
