//! A site that is given other options while it serves.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod support;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::time::Duration;

use support::{Answer, Folder, ask};
use tamarisk_control::{ClassId, Target};
use tamarisk_haboob::{Options, Reloaded, Running, SiteError, config, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is described by the `site.toml` of a folder.
struct Web {
    folder: Folder,
    running: Running,
}

impl Web {
    async fn with(site: &str, files: &[(&str, &[u8])]) -> Self {
        let folder = Folder::with(files.iter().copied());
        let running = start(read(&folder, site)).await.unwrap();
        Self { folder, running }
    }

    fn reload(&self, site: &str) -> Result<Reloaded, SiteError> {
        self.running.reload(&read(&self.folder, site))
    }

    async fn get(&self, path: &str) -> Answer {
        ask(self.running.local_addr(), "test", "GET", path, &[]).await
    }

    /// A connection on which `path` has been asked for.
    async fn asking(&self, path: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.running.local_addr()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        client
    }
}

fn read(folder: &Folder, site: &str) -> Options {
    let site = format!("listen = \"127.0.0.1:0\"\ncores = 1\n{site}");
    fs::write(folder.join("site.toml"), site).unwrap();
    config::load(&folder.join("site.toml")).unwrap()
}

const FOLDER: &str = "[[host]]\nroot = \"public\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn requests_under_way_are_answered_as_they_began() {
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxied = format!(
        "{FOLDER}p90 = \"9s\"\n[[host.route]]\npath = \"/api\"\nproxy = \"http://{}\"\n",
        service.local_addr().unwrap()
    );
    let long = vec![7; 8 << 20];
    let web = Web::with(&proxied, &[("public/long", &long)]).await;
    let mut asking = web.asking("/api").await;
    let (mut asked, _) = service.accept().await.unwrap();
    let mut loading = web.asking("/long").await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(loading.read_u8().await.unwrap());
    }

    web.reload(FOLDER).unwrap();
    assert_eq!(web.get("/api").await.status, 404, "of the new ones");
    asked.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone").await.unwrap();
    let mut answer = Vec::new();
    asking.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK") && answer.ends_with(b"\r\n\r\ndone"));
    let mut rest = Vec::new();
    loading.read_to_end(&mut rest).await.unwrap();
    assert!(rest == long, "{} of {} bytes", rest.len(), long.len());
}

/// A service that answers `ok` to everything on one connection, and to nobody on another one.
async fn service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        drop(listener);
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(connection.read_u8().await.unwrap());
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            connection.write_all(answer).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn a_service_that_stays_keeps_its_stage_and_its_connections() {
    let service = service().await;
    let site = |path: &str, p90: &str| {
        format!(
            "[[host]]\n[[host.route]]\nname = \"api\"\npath = \"{path}\"\np90 = \"{p90}\"\n\
             proxy = \"http://{service}\"\n"
        )
    };
    let web = Web::with(&site("/api", "1s"), &[("public/a", b"a")]).await;
    assert_eq!(web.get("/api").await.text(), "ok");
    let reloaded = web.reload(&site("/api", "5s")).unwrap();
    assert_eq!(reloaded.changed, ["the route \"/api\" of \"default\""]);
    assert_eq!(web.get("/api").await.text(), "ok", "on the connection that there is");
    let gates: Vec<_> = web.running.site().gates().collect();
    assert_eq!(gates[0].observe().total().completed, 2, "one stage all the time");
    let target = gates[0].classes().at(ClassId::DEFAULT).target;
    assert_eq!(target, Target::p90(Duration::from_secs(5)).unwrap());
    web.reload(&site("/other", "5s")).unwrap();
    assert_eq!(web.get("/api").await.status, 404);
    assert_eq!(web.get("/other").await.text(), "ok");
}

#[tokio::test]
async fn an_overflow_comes_changes_and_goes_with_the_file() {
    let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = |overflow: &str| {
        let app = app.local_addr().unwrap();
        format!(
            "p90 = \"9s\"\n[[host]]\n[[host.route]]\nname = \"api\"\npath = \"/api\"\n\
             proxy = \"http://{app}\"\nworkers = 1\n\
             admission = {{ law = \"threshold\", queued_count = 0 }}\n{overflow}\n"
        )
    };
    let web = Web::with(&site(""), &[("public/a", b"a")]).await;
    let _inside = web.asking("/api").await;
    let _asked = app.accept().await.unwrap();
    assert_eq!(web.get("/api").await.status, 503);
    let overflow = format!("overflow = \"http://{}\"", service().await);
    let reloaded = web.reload(&site(&overflow)).unwrap();
    assert_eq!(reloaded.changed, ["the route \"/api\" of \"default\""]);
    assert_eq!(web.get("/api").await.text(), "ok");
    web.reload(&site(&overflow).replace("9s", "8s")).unwrap();
    assert_eq!(web.get("/api").await.text(), "ok", "on the connection that there is");
    let gates: Vec<_> = web.running.site().gates().collect();
    let names: Vec<_> = gates.iter().map(|gate| gate.name()).collect();
    assert_eq!(names, ["api", "api overflow"]);
    assert_eq!(gates[1].observe().total().completed, 2, "one stage all the time");
    assert_eq!(gates[0].observe().total().rejected, 3);
    web.reload(&site("")).unwrap();
    assert_eq!(web.get("/api").await.status, 503);
}

#[tokio::test]
async fn what_cannot_be_opened_changes_nothing() {
    let web = Web::with(FOLDER, &[("public/a", b"a"), ("gone/b", b"b")]).await;
    let options = read(&web.folder, &FOLDER.replace("public", "gone"));
    fs::remove_dir_all(web.folder.join("gone")).unwrap();
    let error = web.running.reload(&options).unwrap_err();
    assert!(error.to_string().ends_with("gone"), "{error}");
    assert_eq!(web.get("/a").await.text(), "a");
}

#[tokio::test]
async fn another_folder_in_the_place_of_one_is_served() {
    let web = Web::with("[[host]]\nroot = \".\"\n", &[("1/a", b"1"), ("2/a", b"2")]).await;
    symlink("1", web.folder.join("public")).unwrap();
    web.reload(FOLDER).unwrap();
    assert_eq!(web.get("/a").await.text(), "1");
    fs::remove_file(web.folder.join("public")).unwrap();
    symlink("2", web.folder.join("public")).unwrap();
    assert_eq!(web.get("/a").await.text(), "1", "until it is told");
    let changed = web.reload(FOLDER).unwrap().changed;
    assert_eq!(changed, ["a folder, in whose place there is another one"]);
    assert_eq!(web.get("/a").await.text(), "2");
    assert_eq!(web.reload(FOLDER).unwrap(), Reloaded::default());
}

#[tokio::test]
async fn what_changes_is_told_and_what_cannot_too() {
    let web = Web::with(FOLDER, &[("public/a", b"a"), ("public/404.html", b"no")]).await;
    let other = "file_threads = 9\ncache = \"1MiB\"\nheld = \"1KiB\"\np90 = \"3s\"\n\
        log = { file = \"log\" }\ntrusted_proxies = [\"10.0.0.0/8\"]\n\
        limits = { head = \"2KiB\" }\n\
        [[host]]\nroot = \"public\"\nhidden = true\nerrors = { 404 = \"404.html\" }\n\
        [[host.route]]\npath = \"/x\"\nredirect = \"/a\"\n";
    let Reloaded { changed, needs_restart, .. } = web.reload(other).unwrap();
    let route = |path: &str| format!("the route {path:?} of \"default\"");
    let errors = "the error pages of \"default\"".to_owned();
    let keys = ["p90", "cache", "held", "trusted_proxies", "log"].map(str::to_owned);
    assert_eq!(changed, [&keys[..], &[route("/"), route("/x") + " (new)", errors]].concat());
    assert_eq!(needs_restart, ["limits", "file_threads"]);
    let missing = web.get("/nothing").await;
    assert_eq!((missing.status, missing.text()), (404, "no"));
    let log = web.running.site().log().unwrap();
    log.close(Duration::from_secs(60));
    let logged = fs::read_to_string(web.folder.join("log")).unwrap();
    assert!(logged.contains("\"GET /nothing HTTP/1.1\" 404 2 "), "{logged}");
}

/// Which pages are in memory, told by what the disk is asked for.
#[tokio::test]
async fn pages_of_folders_that_stay_are_not_read_again() {
    let web = Web::with(FOLDER, &[("public/a", b"a"), ("docs/b", b"b")]).await;
    assert_eq!(web.get("/a").await.text(), "a");
    let docs = "cache_control = \"no-cache\"\n[[host.route]]\npath = \"/docs\"\nroot = \"docs\"\n";
    web.reload(&format!("{FOLDER}{docs}")).unwrap();
    // Nobody could read it now; in memory it is until it is compared with the disk.
    let file = web.folder.join("public/a");
    fs::remove_file(&file).unwrap();
    let page = web.get("/a").await;
    assert_eq!((page.text(), page.field("cache-control")), ("a", "no-cache"));
    assert_eq!(web.get("/docs/b").await.text(), "b");
}
