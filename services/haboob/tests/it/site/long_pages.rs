//! Files that are sent from the system's memory and not held in ours.

use std::fs::{self, File};
use std::io::IoSliceMut;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Web;

/// Whether long pages there are sent from their files.
fn tells_what_is_in_memory(file: &File) -> bool {
    let mut byte = [0];
    let byte = &mut [IoSliceMut::new(&mut byte)];
    let tells = preadv2(file, byte, 0, ReadWriteFlags::NOWAIT) != Err(Errno::OPNOTSUPP);
    if !tells {
        eprintln!("skipped: this file system does not tell what is in memory");
    }
    tells
}

/// Has the system forget what it has in memory of a file from `at` on, as soon as it can: what is
/// on its way to a client it needs.
async fn forget(path: &Path, at: u64) {
    let file = File::open(path).unwrap();
    // Whoever asks by reading has it read ahead.
    let in_memory = || -> u64 {
        let mut fincore = Command::new("fincore");
        let told = fincore.args(["--bytes", "--noheadings", "--output", "RES"]).arg(path).output();
        String::from_utf8(told.unwrap().stdout).unwrap().trim().parse().unwrap()
    };
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while in_memory() > at {
        assert!(tokio::time::Instant::now() < until, "it is in memory still");
        fadvise(&file, at, None, Advice::DontNeed).unwrap();
        tokio::task::yield_now().await;
    }
}

/// What is sent from a file is not what the head speaks of once somebody has written to it.
#[tokio::test]
async fn a_long_page_that_is_written_to_is_never_sent_as_what_it_was() {
    let web = Web::new(&[("a.bin", &[b'a'; 100_000]), ("b.bin", &[b'b'; 32 << 20])]).await;
    if !tells_what_is_in_memory(&File::open(web.file("a.bin")).unwrap()) {
        return;
    }
    for letter in *b"acdc" {
        fs::write(web.file("a.bin"), vec![letter; 70_000 + usize::from(letter)]).unwrap();
        for _ in 0..3 {
            let page = web.get("/a.bin").await;
            assert_eq!(page.body.len(), 70_000 + usize::from(letter));
            assert!(page.body.iter().all(|byte| *byte == letter));
        }
    }
    // Nor is it sent on, prepared or not.
    for field in ["", "content-length: 0\r\n"] {
        web.ask("HEAD", "/b.bin", &[]).await;
        let mut stream = TcpStream::connect(web.running.local_addr()).await.unwrap();
        let request = format!("GET /b.bin HTTP/1.1\r\nhost: test\r\n{field}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = vec![0; 100_000];
        stream.read_exact(&mut read).await.unwrap();
        assert!(read.starts_with(b"HTTP/1.1 200 OK") && read.ends_with(b"bbb"));
        fs::write(web.file("b.bin"), vec![b'b'; 32 << 20]).unwrap();
        let _ = stream.read_to_end(&mut read).await;
        assert!(read.len() < 32 << 20, "{field:?}: all {} bytes of it", read.len());
    }
}

#[tokio::test]
async fn a_long_page_that_is_replaced_is_another_one_at_once() {
    let web = Web::new(&[("a.bin", &[b'a'; 32 << 20])]).await;
    if !tells_what_is_in_memory(&File::open(web.file("a.bin")).unwrap()) {
        return;
    }
    web.ask("HEAD", "/a.bin", &[]).await;
    let mut stream = TcpStream::connect(web.running.local_addr()).await.unwrap();
    let request = b"GET /a.bin HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut read = vec![0; 100_000];
    stream.read_exact(&mut read).await.unwrap();
    fs::write(web.file("b.bin"), [b'b'; 100_000]).unwrap();
    fs::rename(web.file("b.bin"), web.file("a.bin")).unwrap();
    assert_eq!(web.get("/a.bin").await.body, [b'b'; 100_000]);
    // Who is being sent it gets what its head speaks of.
    stream.read_to_end(&mut read).await.unwrap();
    assert!(read.len() > 32 << 20 && read.ends_with(&[b'a'; 1000]), "{} bytes", read.len());
    fs::remove_file(web.file("a.bin")).unwrap();
    assert_eq!(web.get("/a.bin").await.status, 404);
}

#[tokio::test]
async fn what_the_system_has_forgotten_of_a_long_page_is_read_by_the_stages() {
    const MIB: u64 = 1 << 20;
    let bytes: Vec<u8> = (0..6 * MIB).map(|byte| (byte % 251) as u8).collect();
    let web = Web::new(&[("a.bin", &bytes), ("b.bin", &bytes[..700_000])]).await;
    for name in ["a.bin", "b.bin"] {
        let file = File::open(web.file(name)).unwrap();
        file.sync_all().unwrap();
        if !tells_what_is_in_memory(&file) {
            return;
        }
    }
    let files_read = || web.files_read();
    let parts_read = || web.running.site().observe()[1].total().offered;
    // At hand, and not.
    for fields in [&[][..], &[("content-length", "0")]] {
        let get = async |path: &str| {
            let page = web.ask("GET", path, fields).await;
            assert!(page.body == if path == "/a.bin" { &bytes } else { &bytes[..700_000] });
        };
        // Who looks whether something is in memory has it read ahead, which may be over before
        // the next one looks.
        let read_by_a_stage = async |from: u64, path: &str, read: &dyn Fn() -> u64| {
            for _ in 0..100 {
                let before = (files_read(), parts_read());
                get(path).await;
                get(path).await;
                assert_eq!((files_read(), parts_read()), before, "it is in memory");
                forget(&web.file(path.trim_start_matches('/')), from).await;
                let before = read();
                get(path).await;
                if read() > before {
                    return true;
                }
            }
            false
        };
        get("/a.bin").await;
        get("/b.bin").await;
        // What is longer than is sent at once, from the middle on. The system forgets large
        // parts, at even places.
        assert!(read_by_a_stage(4 * MIB, "/a.bin", &parts_read).await);
        assert!(read_by_a_stage(0, "/a.bin", &files_read).await);
        assert!(read_by_a_stage(0, "/b.bin", &files_read).await);
    }
}

#[tokio::test]
async fn what_there_is_no_room_for_is_not_asked_of_the_stage_while_the_system_has_it() {
    let pages: Vec<_> =
        (0..40_u8).map(|page| (format!("{page}.bin"), vec![page; 30_000])).collect();
    let mut files: Vec<_> = pages.iter().map(|(name, page)| (&**name, &**page)).collect();
    let text = vec![b'a'; 2_000];
    files.extend([("0.bin.gz", &b"short"[..]), ("a.txt", &text)]);
    let web = Web::with(&files, |options| options.cache_bytes = 200_000).await;
    if !tells_what_is_in_memory(&File::open(web.file("0.bin")).unwrap()) {
        return;
    }
    let get_all = async || {
        for (name, page) in &pages {
            assert_eq!(web.get(&format!("/{name}")).await.body, *page);
        }
    };
    // That there are no other forms the system does not know yet.
    get_all().await;
    assert_eq!(web.files_read(), 40);
    get_all().await;
    assert_eq!(web.ask("GET", "/39.bin", &[("range", "bytes=0-9")]).await.status, 206);
    let form = web.ask("GET", "/0.bin", &[("accept-encoding", "gzip")]).await;
    assert_eq!((form.field("content-encoding"), form.text()), ("gzip", "short"));
    assert_eq!(web.files_read(), 40);
    // To compress is work.
    for read in 1..=2 {
        assert_eq!(web.get("/a.txt").await.body, text);
        assert_eq!(web.files_read(), 40 + read);
        get_all().await;
    }
    fs::write(web.file("7.bin"), "another").unwrap();
    fs::remove_file(web.file("8.bin")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", web.file("8.bin")).unwrap();
    assert_eq!(web.get("/7.bin").await.text(), "another");
    assert_eq!(web.get("/8.bin").await.status, 404);
    // Nor does a core wait for what it has forgotten, which whoever looks has it read ahead.
    let file = File::open(web.file("20.bin")).unwrap();
    file.sync_all().unwrap();
    let before = web.files_read();
    for _ in 0..100 {
        forget(&web.file("20.bin"), 0).await;
        for (name, page) in &pages[20..] {
            assert_eq!(web.get(&format!("/{name}")).await.body, *page);
        }
        if web.files_read() > before {
            return;
        }
    }
    panic!("it was never read by the stage");
}

#[tokio::test]
async fn an_empty_form_of_a_long_page_is_sent_as_such() {
    let web = Web::new(&[("a.bin", &[b'a'; 100_000]), ("a.bin.gz", b"")]).await;
    for _ in 0..2 {
        let form = web.ask("GET", "/a.bin", &[("accept-encoding", "gzip")]).await;
        assert_eq!((form.status, form.field("content-length")), (200, "0"));
        assert_eq!(form.field("content-encoding"), "gzip");
        assert_eq!(web.get("/a.bin").await.body.len(), 100_000);
    }
    assert_eq!(web.files_read(), 1);
}

#[tokio::test]
async fn more_long_pages_than_may_stay_open_are_served() {
    let names: Vec<_> = (0..600).map(|number| format!("{number}.bin")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), &[7; 66_000][..])).collect();
    let web = Web::new(&files).await;
    for name in names.iter().chain(&names) {
        let page = web.get(&format!("/{name}")).await;
        assert_eq!((page.status, page.body.len()), (200, 66_000));
    }
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let files = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let open = files.filter(|file| file.starts_with(&*web.folder) && file.is_file()).count();
    assert!(open <= 512, "{open} are open");
}
