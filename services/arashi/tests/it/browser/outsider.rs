//! Another site, which tells what it is asked for.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A browser opens connections that it does not use.
const UNUSED: Duration = Duration::from_secs(10);

/// A site at another port, whose only page with anything on it is the first.
pub(crate) struct Outsider {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Outsider {
    /// Starts a site whose first page knows its address.
    pub(crate) fn start(page: impl Fn(&str) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let page: Arc<str> = page(&url).into();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let shared = Arc::clone(&requests);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (page, shared) = (Arc::clone(&page), Arc::clone(&shared));
                thread::spawn(move || answer(&connection, &page, &shared));
            }
        });
        Self { url, requests }
    }

    /// The heads of all requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn answer(mut connection: &TcpStream, page: &str, requests: &Mutex<Vec<String>>) -> Option<()> {
    connection.set_read_timeout(Some(UNUSED)).ok()?;
    let lines = BufReader::new(connection).lines().map_while(Result::ok);
    let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    if head.is_empty() {
        return None;
    }
    let page = if head[0].starts_with("GET / ") { page } else { "" };
    requests.lock().unwrap_or_else(PoisonError::into_inner).push(head.join("\n"));
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{page}",
        page.len()
    );
    connection.write_all(answer.as_bytes()).ok()
}
