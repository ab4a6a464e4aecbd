//! A browser, as far as tests need one: cookies, links, forms.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What takes longer than this comes to no end.
const STUCK: Duration = Duration::from_secs(60);

/// A browser with its cookies.
#[derive(Clone)]
pub(crate) struct Browser {
    address: SocketAddr,
    pub(crate) cookies: BTreeMap<String, String>,
    /// Sent with each request.
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// What came.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Browser {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, cookies: BTreeMap::new(), headers: Vec::new() }
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, "")
    }

    /// Sends a form.
    pub(crate) fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        self.send("POST", path, &form.finish())
    }

    pub(crate) fn log_in(&mut self, name: &str, password: &str) -> Answer {
        let csrf = self.get("/login").csrf();
        self.post("/login", &[("csrf", &csrf), ("name", name), ("password", password)])
    }

    /// The token that forms of this session have.
    pub(crate) fn csrf(&mut self) -> String {
        self.get("/folders").csrf()
    }

    /// Goes where the answer leads.
    pub(crate) fn follow(&mut self, answer: &Answer) -> Answer {
        self.get(answer.location().expect("a location"))
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, form: &str) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        let cookies: Vec<_> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            head.push_str(&format!("Cookie: {}\r\n", cookies.join("; ")));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if method == "POST" {
            head.push_str("Content-Type: application/x-www-form-urlencoded\r\n");
            head.push_str(&format!("Content-Length: {}\r\n", form.len()));
        }
        head.push_str("Connection: close\r\n\r\n");
        let mut connection = TcpStream::connect(self.address).unwrap();
        connection.set_read_timeout(Some(STUCK)).unwrap();
        connection.write_all(head.as_bytes()).unwrap();
        // One who is told earlier that it is too much need not take it all.
        let _ = connection.write_all(form.as_bytes());
        let mut bytes = Vec::new();
        connection.read_to_end(&mut bytes).unwrap();
        let answer = Answer::parse(&bytes);
        for (_, cookie) in answer.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            if value.is_empty() {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).map(str::parse);
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.expect("a status").unwrap(),
            headers: headers.map(|(name, value)| (name.to_lowercase(), value.into())).collect(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All fields of this name.
    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        let found = self.headers.iter().filter(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn location(&self) -> Option<&str> {
        self.header("location")
    }

    /// What programs know the page by.
    pub(crate) fn page(&self) -> &str {
        between(&self.body, "data-page=\"", "\"").unwrap_or("")
    }

    pub(crate) fn csrf(&self) -> String {
        let csrf = between(&self.body, "name=\"csrf\" value=\"", "\"");
        csrf.unwrap_or_else(|| panic!("{} without a form: {}", self.status, self.body)).to_owned()
    }

    /// Where links with this mark lead.
    pub(crate) fn links(&self, go: &str) -> Vec<String> {
        let mark = format!("data-go=\"{go}\"");
        let tags = self.body.split('<').filter(|tag| tag.starts_with("a "));
        let marked = tags.filter(|tag| tag.split('>').next().unwrap().contains(&mark));
        let links = marked.filter_map(|tag| between(tag, "href=\"", "\""));
        links.map(|link| link.replace("&amp;", "&")).collect()
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.body.contains(text)
    }
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}
