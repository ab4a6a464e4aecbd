//! A Chromium without a screen, that a chromedriver of its own starts and ends.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::web_driver::{CommandError, command};
use crate::support::Folder;
use crate::support::servers::program;

/// What does not happen within this time does not happen.
const STUCK: Duration = Duration::from_secs(30);
/// How WebDriver marks an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys of WebDriver.
pub(crate) const TAB: char = '\u{e004}';
pub(crate) const ENTER: char = '\u{e007}';
pub(crate) const DOWN: char = '\u{e015}';

/// A browser with one window; it ends when this is dropped.
pub(crate) struct Chromium {
    chromedriver: Child,
    port: u16,
    session: String,
    folder: Folder,
    /// Open for what else it says.
    _said: BufReader<ChildStdout>,
}

/// An element of a page.
pub(crate) struct Element<'c> {
    chromium: &'c Chromium,
    id: String,
}

impl Chromium {
    pub(crate) fn start() -> Self {
        Self::with_preferences(json!({}))
    }

    /// A browser whose user has turned scripts off.
    pub(crate) fn without_scripts() -> Self {
        Self::with_preferences(json!({ "profile.managed_default_content_settings.javascript": 2 }))
    }

    fn with_preferences(mut preferences: Value) -> Self {
        let folder = Folder::new();
        // Ends with this thread, whatever ends it. So does Chromium, with its pipe to it.
        let mut chromedriver = Command::new("setpriv")
            .args(["--pdeathsig=KILL", "--"])
            .arg(program("chromedriver"))
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(chromedriver.stdout.take().unwrap());
        let started = said.by_ref().lines().map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        preferences["download.default_directory"] = json!(folder.path().join("saved"));
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            // Dialogs are what tests look for.
            "unhandledPromptBehavior": "ignore",
            "goog:chromeOptions": {
                "binary": program("chromium"),
                "args": [
                    "--headless=new",
                    // Where tests run as root or in a container there is no sandbox.
                    "--no-sandbox",
                    "--disable-dev-shm-usage",
                    "--disable-background-networking",
                    "--no-proxy-server",
                    "--remote-debugging-pipe",
                    "--window-size=1200,900",
                    format!("--user-data-dir={}", folder.path().join("profile").display()),
                ],
                "prefs": preferences,
            },
        } } });
        let port = started.expect("chromedriver starts");
        let session = String::new();
        let mut chromium = Self { chromedriver, port, session, folder, _said: said };
        let session = command(port, "POST", "/session", &capabilities).unwrap();
        session["sessionId"].as_str().unwrap().clone_into(&mut chromium.session);
        chromium
    }

    fn ask(&self, method: &str, path: &str, parameters: &Value) -> Result<Value, CommandError> {
        command(self.port, method, &format!("/session/{}{path}", self.session), parameters)
    }

    fn post(&self, path: &str, parameters: &Value) -> Value {
        self.ask("POST", path, parameters).unwrap()
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    pub(crate) fn url(&self) -> String {
        self.ask("GET", "/url", &Value::Null).unwrap().as_str().unwrap().to_owned()
    }

    pub(crate) fn back(&self) {
        self.post("/back", &json!({}));
    }

    pub(crate) fn title(&self) -> String {
        self.ask("GET", "/title", &Value::Null).unwrap().as_str().unwrap().to_owned()
    }

    pub(crate) fn windows(&self) -> Vec<Value> {
        let handles = self.ask("GET", "/window/handles", &Value::Null).unwrap();
        handles.as_array().unwrap().clone()
    }

    /// The text of the open dialog, if there is one.
    pub(crate) fn dialog(&self) -> Option<String> {
        match self.ask("GET", "/alert/text", &Value::Null) {
            Ok(text) => Some(text.as_str().unwrap_or_default().to_owned()),
            Err(error) => {
                assert_eq!(error.code, "no such alert", "{error:?}");
                None
            }
        }
    }

    /// What a script returns that the driver runs in the page.
    pub(crate) fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// A command of the developer tools.
    pub(crate) fn developer(&self, name: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": name, "params": parameters }))
    }

    /// Everything from now on is inside of this frame, until [`leave_frame`](Self::leave_frame).
    pub(crate) fn enter_frame(&self, css: &str) {
        let frame = self.find(css);
        self.post("/frame", &json!({ "id": { ELEMENT: frame.id } }));
    }

    pub(crate) fn leave_frame(&self) {
        self.post("/frame", &json!({ "id": null }));
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub(crate) fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
        });
        let strokes: Vec<_> = strokes.collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("/actions", &json!({ "actions": [keyboard] }));
    }

    pub(crate) fn all(&self, css: &str) -> Vec<Element<'_>> {
        let found = self.post("/elements", &json!({ "using": "css selector", "value": css }));
        let ids = found.as_array().unwrap().iter().map(|found| found[ELEMENT].as_str().unwrap());
        ids.map(|id| Element { chromium: self, id: id.to_owned() }).collect()
    }

    /// The first such element, as soon as there is one.
    pub(crate) fn find(&self, css: &str) -> Element<'_> {
        until(
            || format!("{css} at {}: {}", self.url(), self.page_text()),
            || self.all(css).into_iter().next(),
        )
    }

    /// Waits for this page with this text on it.
    pub(crate) fn shows(&self, page: &str, text: &str) {
        until(
            || format!("{text:?} on page {page}, but {}: {}", self.url(), self.page_text()),
            || {
                let body = self.all(&format!("body[data-page={page}]")).into_iter().next()?;
                body.text().filter(|found| found.contains(text))
            },
        );
    }

    /// The texts of all such elements; the page must not be about to change.
    pub(crate) fn texts(&self, css: &str) -> Vec<String> {
        self.all(css).iter().map(|element| element.text().unwrap()).collect()
    }

    pub(crate) fn page_text(&self) -> String {
        self.all("body").first().and_then(Element::text).unwrap_or_default()
    }

    pub(crate) fn click(&self, css: &str) {
        self.find(css).click();
    }

    /// Clicks on the link or the button with this text.
    pub(crate) fn click_text(&self, css: &str, text: &str) {
        let missing = || format!("{css} {text:?} at {}: {}", self.url(), self.page_text());
        let found = until(missing, || {
            let mut all = self.all(css).into_iter();
            all.find(|element| element.text().is_some_and(|found| found.contains(text)))
        });
        found.click();
    }

    /// Replaces what a field holds.
    pub(crate) fn fill(&self, css: &str, text: &str) {
        let field = self.find(css);
        field.post("clear", &json!({}));
        field.post("value", &json!({ "text": text }));
    }

    pub(crate) fn log_in(&self, url: &str, name: &str, password: &str) {
        self.open(&format!("{url}/login"));
        self.fill("#name", name);
        self.fill("#password", password);
        self.click("form button");
    }

    /// The content of a file that has been saved, as soon as it is complete.
    pub(crate) fn saved(&self, name: &str) -> Vec<u8> {
        let path: PathBuf = self.folder.path().join("saved").join(name);
        until(|| format!("{} is not saved", path.display()), || std::fs::read(&path).ok())
    }

    /// The window as a PNG file in base64.
    pub(crate) fn screenshot(&self) -> String {
        let parameters = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.developer("Page.captureScreenshot", &parameters);
        answer["data"].as_str().unwrap().to_owned()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Also where a test has failed. The driver ends the browser; if it cannot, its end does.
        if !thread::panicking() && !self.session.is_empty() {
            let _ = self.ask("DELETE", "", &Value::Null);
        }
        let _ = self.chromedriver.kill();
        let _ = self.chromedriver.wait();
    }
}

impl Element<'_> {
    fn post(&self, command: &str, parameters: &Value) {
        self.chromium.post(&format!("/element/{}/{command}", self.id), parameters);
    }

    pub(crate) fn click(&self) {
        self.post("click", &json!({}));
    }

    /// The text that is shown; none if the page has gone meanwhile.
    pub(crate) fn text(&self) -> Option<String> {
        let path = format!("/element/{}/text", self.id);
        Some(self.chromium.ask("GET", &path, &Value::Null).ok()?.as_str()?.to_owned())
    }
}

/// Waits until there is something, but not for ever.
pub(crate) fn until<T>(missing: impl Fn() -> String, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < STUCK, "not within {STUCK:?}: {}", missing());
        thread::sleep(Duration::from_millis(20));
    }
}
