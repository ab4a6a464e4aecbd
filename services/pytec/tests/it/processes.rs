//! The processes: bounded, isolated, replaced, ended.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Folder, STUCK, exists, get, page, until};
use tamarisk::axum::Part;
use tamarisk::{Accounts, CallError, Entry};
use tamarisk_pytec::{PageRequest, Site};

const WHO: (&str, &str) = ("who.pytec", "<%pytec import os %><%= os.getpid() %>");
/// Tells who runs it by a file, and then runs for as long as it is let.
const FOREVER: (&str, &str) = (
    "forever.pytec",
    "<%pytec
        import os
        open('running', 'w').write(str(os.getpid()))
        while True: pass
    %>",
);

fn accounts(site: &Site, page: &str) -> Accounts {
    let accounts = site.page(page).unwrap().observe().total();
    assert!(accounts.balance(), "{accounts:?}");
    accounts
}

/// The process that runs the page `forever`, once it does.
async fn running(folder: &Folder) -> String {
    let file = folder.0.join("running");
    until(|| async { fs::read_to_string(&file).is_ok_and(|process| !process.is_empty()) }).await;
    let process = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    process
}

#[tokio::test]
async fn an_overdue_page_is_ended_at_its_time_and_its_process_replaced() {
    let folder = Folder::with(&[WHO, FOREVER]);
    let mut options = folder.options();
    options.time_max = Duration::from_millis(400);
    options.processes = 1;
    let site = Site::open(options).unwrap();
    let before = page(&site, "/who").await;
    let began = Instant::now();
    let answer = get(&site, "/forever").await;
    assert_eq!(answer.status, 504);
    assert!(began.elapsed() >= Duration::from_millis(400));
    assert!(began.elapsed() < STUCK, "{:?}", began.elapsed());
    assert_eq!(running(&folder).await, before);
    // There may be one process: the next is started when the one before has ended.
    assert_ne!(page(&site, "/who").await, before);
    assert!(!exists(&before));
    assert_eq!(accounts(&site, "/forever").terminated, 1);
}

/// The same where the request states the deadline.
#[tokio::test]
async fn a_page_is_ended_at_the_deadline_of_its_request() {
    let folder = Folder::with(&[WHO, FOREVER]);
    let site = folder.open();
    // With a process that is ready, however long a start takes.
    page(&site, "/who").await;
    let began = Instant::now();
    let entry = Entry::new().timeout(Duration::from_millis(600));
    let forever = site.page("/forever").unwrap();
    let ended = forever.render(entry, PageRequest::get("/forever")).await;
    assert_eq!(ended.unwrap_err(), CallError::Terminated);
    assert!(began.elapsed() < STUCK, "{:?}", began.elapsed());
    let process = running(&folder).await;
    until(|| async { !exists(&process) }).await;
    assert_eq!(accounts(&site, "/forever").terminated, 1);
}

/// A start takes some hundredths of a second, and is not begun anew for each request.
#[tokio::test]
async fn a_process_is_started_even_where_deadlines_are_shorter_than_a_start() {
    let folder = Folder::with(&[WHO]);
    let site = folder.open();
    let who = site.page("/who").unwrap();
    let entry = || Entry::new().timeout(Duration::from_millis(8));
    let first = who.render(entry(), PageRequest::get("/who")).await;
    assert_eq!(first.unwrap_err(), CallError::Terminated);
    until(|| async { who.render(entry(), PageRequest::get("/who")).await.is_ok() }).await;
}

#[tokio::test]
async fn a_killed_process_fails_its_event_alone() {
    let waits = "<%pytec
        import os, time
        while not os.path.exists('go'): time.sleep(0.01)
    %>went on";
    let folder = Folder::with(&[FOREVER, ("waits.pytec", waits)]);
    let mut options = folder.options();
    (options.p90, options.time_max) = (Duration::from_secs(60), Duration::from_secs(60));
    let site = Site::open(options).unwrap();
    let others: Vec<_> = (0..3)
        .map(|_| {
            let site = site.clone();
            tokio::spawn(async move { page(&site, "/waits").await })
        })
        .collect();
    let killed = {
        let site = site.clone();
        tokio::spawn(async move { get(&site, "/forever").await })
    };
    let process = running(&folder).await;
    assert!(Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    let answer = killed.await.unwrap();
    assert_eq!(answer.status, 500);
    let expected = "forever.pytec: the Python process of this page was ended by signal 9 (SIGKILL";
    assert!(answer.text().contains(expected), "{}", answer.text());
    folder.write("go", "");
    for other in others {
        assert_eq!(other.await.unwrap(), "went on");
    }
    assert_eq!((accounts(&site, "/forever").failed, accounts(&site, "/waits").completed), (1, 3));
}

#[tokio::test]
async fn what_a_page_does_to_its_process_is_told_and_costs_nobody_else() {
    for (source, expected) in [
        (
            "import os; os._exit(3)",
            "a.pytec: the Python process of this page ended with exit code 3",
        ),
        (
            "import ctypes; ctypes.string_at(1)",
            "a.pytec: the Python process of this page was ended by signal 11 (SIGSEGV)",
        ),
        ("x = 'x' * (1 << 30)", "a.pytec:2: MemoryError"),
        ("x = []\n while True: x.append('x' * (1 << 20))", "a.pytec:3: MemoryError"),
        ("while True: write('x' * 1000)", "a.pytec:2: AnswerTooLarge: "),
        (
            "while True:\n  try: write('x' * 1000)\n  except Exception: pass",
            "a.pytec:3: AnswerTooLarge: ",
        ),
        ("write('ü' * 15000)", "a.pytec:0: AnswerTooLarge: "),
        // The protocol's socket, written to by a page.
        (
            "import os, glob, stat\n for fd in range(3, 20):\n  try:\n   if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, b'\\xff' * 64)\n  except OSError: pass",
            "a.pytec: the Python process of this page sent no valid answer",
        ),
    ] {
        let folder = Folder::with(&[WHO, ("a.pytec", &format!("<%pytec\n {source}\n%>"))]);
        let mut options = folder.options();
        options.answer_bytes_max = 20_000;
        let site = Site::open(options).unwrap();
        let answer = get(&site, "/a").await;
        assert_eq!(answer.status, 500, "{source}");
        assert!(answer.text().contains(expected), "{source}: {}", answer.text());
        page(&site, "/who").await;
        assert_eq!(accounts(&site, "/a").failed, 1);
    }
}

#[tokio::test]
async fn children_of_a_page_neither_answer_nor_outlive_its_process() {
    let folder = Folder::with(&[
        ("fork.pytec", "<%pytec import os; child = os.fork() %><%= child and 'parent' %>"),
        (
            "sleep.pytec",
            "<%pytec
                import subprocess, os
                child = subprocess.Popen(['sleep', '1000'])
                print(os.getpid(), child.pid)
            %>",
        ),
    ]);
    let site = folder.open();
    for _ in 0..3 {
        assert_eq!(page(&site, "/fork").await, "parent");
    }
    let processes = page(&site, "/sleep").await;
    site.drain(Duration::from_secs(1)).await;
    for process in processes.split_whitespace() {
        until(|| async { !exists(process) || is_zombie(process) }).await;
    }
}

#[tokio::test]
async fn children_of_a_page_do_not_outlive_a_process_that_ends_itself_or_is_killed() {
    let source = "<%pytec
        import subprocess, os
        child = subprocess.Popen(['sleep', '1000'])
        open('running', 'w').write(f'{os.getpid()} {child.pid}')
        if req.get('exit'): os._exit(1)
    %>";
    let folder = Folder::with(&[WHO, ("child.pytec", source)]);
    let mut options = folder.options();
    options.processes = 1;
    let site = Site::open(options).unwrap();
    let has_ended = |process: &str| !exists(process) || is_zombie(process);
    let answer = get(&site, "/child?exit=1").await;
    assert!(answer.text().contains("ended with exit code 1"), "{}", answer.text());
    let of_exited = running(&folder).await;
    for process in of_exited.split(' ') {
        until(|| async { has_ended(process) }).await;
    }
    // One that is killed while it is idle.
    page(&site, "/child").await;
    let of_killed = running(&folder).await;
    let (parent, child) = of_killed.split_once(' ').unwrap();
    assert!(Command::new("kill").args(["-KILL", parent]).status().unwrap().success());
    until(|| async { has_ended(parent) }).await;
    assert!(!has_ended(child));
    assert_ne!(page(&site, "/who").await, parent);
    until(|| async { has_ended(child) }).await;
}

/// What it has kept is the output of the page that imported it, and of all that come later.
#[tokio::test]
async fn a_module_that_keeps_the_output_writes_to_every_page_of_its_process() {
    let folder = Folder::with(&[
        ("a.pytec", "<%pytec import m; m.out.write('x') %>"),
        ("lib/m.py", "import sys; out = sys.stdout"),
    ]);
    let mut options = folder.options();
    options.processes = 1;
    let site = Site::open(options).unwrap();
    for _ in 0..2 {
        assert_eq!(page(&site, "/a").await, "x");
    }
}

/// A database in the folder of modules, for one.
#[tokio::test]
async fn data_beside_modules_replaces_no_process() {
    let folder = Folder::with(&[WHO, ("lib/m.py", ""), ("lib/data.sqlite", "1")]);
    let mut options = folder.options();
    options.processes = 1;
    let site = Site::open(options).unwrap();
    let before = page(&site, "/who").await;
    for name in ["lib/data.sqlite", "lib/data.sqlite-journal", "lib/.#m.py", "lib/m.py~"] {
        folder.write(name, "22");
    }
    site.refresh().await;
    assert_eq!(page(&site, "/who").await, before);
    folder.write("lib/m.py", "v = 1");
    site.refresh().await;
    assert_ne!(page(&site, "/who").await, before);
}

/// UTF-8 cannot encode a lone surrogate, so an answer with one would be invalid.
#[tokio::test]
async fn an_error_with_a_lone_surrogate_is_shown_and_its_process_kept() {
    let named = "exec(compile('1 / 0', 'a\\udcff.py', 'exec'), {})";
    for (raised, expected) in [
        ("raise ValueError('\\ud800 in the text')", "ValueError: ? in the text"),
        (named, "ZeroDivisionError: division by zero"),
    ] {
        let page_text = format!("<%pytec {raised} %>");
        let folder = Folder::with(&[WHO, ("a.pytec", &page_text)]);
        let mut options = folder.options();
        options.processes = 1;
        let site = Site::open(options).unwrap();
        let before = page(&site, "/who").await;
        let answer = get(&site, "/a").await;
        assert_eq!(answer.status, 500);
        assert!(answer.text().contains(expected), "{}", answer.text());
        assert_eq!(page(&site, "/who").await, before, "the process is not replaced");
    }
}

/// A child of a process that has ended is waited for by init, in its own time.
fn is_zombie(process: &str) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

#[tokio::test]
async fn a_page_that_crashes_in_a_loop_is_paused_and_others_are_not() {
    let folder = Folder::with(&[WHO, ("a.pytec", "<%pytec import os; os._exit(1) %>")]);
    let site = folder.open();
    for _ in 0..3 {
        assert!(get(&site, "/a").await.text().contains("ended with exit code 1"));
    }
    // The pause is short at first, and doubles.
    let paused = "times in a row; next attempt in ";
    until(|| async { get(&site, "/a").await.text().contains(paused) }).await;
    page(&site, "/who").await;
    // It is tried again, and at once when it was mended.
    until(|| async { get(&site, "/a").await.text().contains("ended with exit code 1") }).await;
    folder.write("a.pytec", "mended");
    site.refresh().await;
    assert_eq!(page(&site, "/a").await, "mended");
    accounts(&site, "/a");
}

#[tokio::test]
async fn an_interpreter_that_does_not_start_is_told_and_tried_less_and_less() {
    for (python, expected) in [
        ("/nowhere/python3", "cannot start /nowhere/python3: No such file"),
        ("/bin/false", "/bin/false did not become ready: ended with exit code 1"),
    ] {
        let folder = Folder::with(&[("a.pytec", "")]);
        let mut options = folder.options();
        options.python = python.into();
        let site = Site::open(options).unwrap();
        for _ in 0..3 {
            let text = get(&site, "/a").await.text();
            assert!(text.contains(expected), "{text}");
        }
        let paused = "times in a row; next attempt in ";
        until(|| async { get(&site, "/a").await.text().contains(paused) }).await;
    }
}

#[tokio::test]
async fn two_hundred_requests_at_once_are_answered_by_no_more_processes_than_there_may_be() {
    let folder = Folder::with(&[
        ("a.pytec", "<%pytec import os, time; time.sleep(0.002) %><%= os.getpid() %>"),
        ("b.pytec", "<%pytec import os, time; time.sleep(0.002) %><%= os.getpid() %>"),
    ]);
    let mut options = folder.options();
    options.processes = 3;
    options.p90 = Duration::from_secs(60);
    let site = Site::open(options).unwrap();
    let asked: Vec<_> = (0..200)
        .map(|number| {
            let site = site.clone();
            let path = if number % 2 == 0 { "/a" } else { "/b" };
            tokio::spawn(async move { page(&site, path).await })
        })
        .collect();
    let mut processes = Vec::new();
    for answer in asked {
        processes.push(answer.await.unwrap());
    }
    processes.sort();
    processes.dedup();
    assert!((1..=3).contains(&processes.len()), "{processes:?}");
    for path in ["/a", "/b"] {
        let accounts = accounts(&site, path);
        assert_eq!((accounts.offered, accounts.completed), (100, 100));
    }
    // Nothing is left of them, not even zombies.
    site.drain(Duration::from_secs(5)).await;
    assert_eq!(processes.iter().filter(|process| exists(process)).count(), 0);
}

#[tokio::test]
async fn what_is_too_much_is_rejected_with_a_time_to_retry_after() {
    let folder = Folder::with(&[("a.pytec", "<%pytec import time; time.sleep(0.05) %>x")]);
    let mut options = folder.options();
    options.processes = 1;
    options.p90 = Duration::from_millis(200);
    let site = Arc::new(Site::open(options).unwrap());
    let asked: Vec<_> = (0..100)
        .map(|_| {
            let site = Arc::clone(&site);
            tokio::spawn(async move { get(&site, "/a").await })
        })
        .collect();
    let (mut answered, mut rejected) = (0, 0);
    for answer in asked {
        let answer = answer.await.unwrap();
        match answer.status.as_u16() {
            200 => answered += 1,
            503 => {
                assert!(answer.headers.contains_key("retry-after"));
                rejected += 1;
            }
            status => panic!("{status}"),
        }
    }
    assert!(answered > 0 && rejected > 0, "{answered} answered, {rejected} rejected");
    let accounts = accounts(&site, "/a");
    assert_eq!(accounts.completed, answered);
    assert_eq!(accounts.offered, 100);
}

#[tokio::test]
async fn a_process_has_no_descriptors_but_its_own_and_ends_when_it_is_idle() {
    let source = "<%pytec
        import os, resource
        for fd in sorted(os.listdir('/proc/self/fd'), key=int):
            try: print(fd, os.readlink('/proc/self/fd/' + fd).split(':')[0])
            except OSError: pass
        print(os.getpid())
    %>";
    let folder = Folder::with(&[("a.pytec", source)]);
    // One that the process would inherit from a careless server.
    let kept = fs::File::open(folder.0.join("a.pytec")).unwrap();
    let mut options = folder.options();
    options.idle_time_max = Duration::ZERO;
    let site = Site::open(options).unwrap();
    let shown = page(&site, "/a").await;
    drop(kept);
    let mut lines: Vec<_> = shown.lines().collect();
    let process = lines.pop().unwrap();
    assert_eq!(lines, ["0 /dev/null", "1 pipe", "2 pipe", "3 socket", "4 pipe"]);
    site.refresh().await;
    assert!(!exists(process));
}

/// A server that is killed, with a page in an endless loop that never lets other Python code run.
#[tokio::test]
async fn processes_end_with_their_server_however_that_ends() {
    const SITE: &str = "PYTEC_TEST_SITE";
    if let Some(site) = std::env::var_os(SITE) {
        // The server of this test.
        let site = Site::open(tamarisk_pytec::SiteOptions::new(site)).unwrap();
        let page = site.page("/loop").unwrap();
        let ended = page.render(Entry::new(), PageRequest::get("/loop")).await;
        panic!("{ended:?}");
    }
    let source = "<%pytec
        import os, re
        open('running', 'w').write(str(os.getpid()))
        re.match('(a+)+b', 'a' * 64)
    %>";
    let folder = Folder::with(&[("loop.pytec", source)]);
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::processes_end_with_their_server_however_that_ends"])
        .env(SITE, &folder.0)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let process = running(&folder).await;
    assert!(exists(&process));
    server.kill().unwrap();
    server.wait().unwrap();
    until(|| async { !exists(&process) || is_zombie(&process) }).await;
}
