//! A site that is given other options while it serves.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::time::Duration;

use crate::support::{Answer, Folder, ask};
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
    let changed = "the route \"/api\" of \"default\" \
        (the target of \"default\": p90 1 s → p90 5 s)";
    assert_eq!(reloaded.changed, [changed]);
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
    let other = service().await;
    let overflow = format!("overflow = \"http://{other}\"");
    let reloaded = web.reload(&site(&overflow)).unwrap();
    let changed = format!("the route \"/api\" of \"default\" (overflow: none → http://{other})");
    assert_eq!(reloaded.changed, [changed]);
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
    let Reloaded { changed, needs_restart, values, .. } = web.reload(other).unwrap();
    let log = format!("log: none → {}/log (combined)", web.folder.display());
    let expected = [
        "the target: p90 1 s → p90 3 s",
        "cache: 64MiB → 1MiB",
        "held: 1MiB → 1KiB",
        "trusted_proxies: none → 10.0.0.0/8",
        &log,
        "the route \"/\" of \"default\" (hidden: false → true)",
        "the route \"/x\" of \"default\" (new)",
        "the error pages of \"default\" (404: none → 404.html)",
    ];
    assert_eq!(changed, expected);
    assert_eq!(needs_restart, ["limits", "file_threads"]);
    assert_eq!(values["file_threads"], ["4", "9"]);
    let missing = web.get("/nothing").await;
    assert_eq!((missing.status, missing.text()), (404, "no"));
    let log = web.running.site().log().unwrap();
    log.close(Duration::from_secs(60));
    let logged = fs::read_to_string(web.folder.join("log")).unwrap();
    assert!(logged.contains("\"GET /nothing HTTP/1.1\" 404 2 "), "{logged}");
}

#[tokio::test]
async fn what_changes_of_a_route_is_told_from_what_to_what() {
    let web = Web::with(FOLDER, &[("public/a", b"a"), ("docs/b", b"b")]).await;
    let [public, docs] = ["public", "docs"].map(|name| web.folder.join(name).display().to_string());
    let route = |lines: &str| format!("{FOLDER}[[host.route]]\npath = \"/x\"\n{lines}\n");
    let check = |lines: &str, expected: &str| {
        let changed = web.reload(&route(lines)).unwrap().changed;
        assert_eq!(changed, [format!("the route \"/x\" of \"default\" ({expected})")]);
    };
    web.reload(&route("redirect = \"/a\"")).unwrap();
    check("redirect = \"/b\"\nstatus = 301", "redirect: /a → /b, status: 302 → 301");
    check("root = \"public\"", &format!("destination: redirect /b → root {public}"));
    check(
        "root = \"docs\"\np90 = \"2s\"\ncache_control = \"no-cache\"",
        &format!(
            "root: {public} → {docs}, cache_control: none → \"no-cache\", \
             the target: none → p90 2 s"
        ),
    );
    check(
        "proxy = \"http://127.0.0.1:1\"",
        &format!("destination: root {docs} → proxy http://127.0.0.1:1"),
    );
    let other = "proxy = \"http://127.0.0.1:2\"\nanswer_time = \"7s\"\nstreams = true\n";
    check(
        &format!("{other}admission = \"threshold\"\nworkers = 3"),
        "proxy: http://127.0.0.1:1 → http://127.0.0.1:2, answer_time: 60s → 7s, \
         streams: false → true, admission: work-limit → threshold, \
         workers: none → fixed",
    );
    check(
        &format!("{other}admission = {{ law = \"threshold\", queued_count = 7 }}\nworkers = 4"),
        "queued_count of admission: 100 → 7, workers_count of workers: 3 → 4",
    );
}

#[tokio::test]
async fn a_new_service_without_an_address_is_named() {
    let web = Web::with(FOLDER, &[("public/a", b"a")]).await;
    let proxied = |url: &str| {
        let site = format!("{FOLDER}[[host.route]]\npath = \"/api\"\nproxy = \"{url}\"\n");
        read(&web.folder, &site)
    };
    let (known, unknown) = (proxied("http://127.0.0.1:1"), proxied("http://no-such-host.invalid"));
    web.running.resolve_new(&known).await.unwrap();
    let error = web.running.resolve_new(&unknown).await.unwrap_err();
    assert_eq!((&*error.name, &*error.host), ("default/api", "no-such-host.invalid"));
    // What is served already needs no address to stay.
    web.running.reload(&unknown).unwrap();
    web.running.resolve_new(&unknown).await.unwrap();
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
