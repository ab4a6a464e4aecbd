//! One user: reads the page that came, chooses what to do next, and follows the mark for it.
//!
//! Choices that the papers leave open are ours. A login is three requests: the page with the form,
//! the form, and the folders to which it leads; from a page, logging out comes before. The first
//! folder is read (the papers' users have one), or the next one if it was found empty. Which message
//! is shown, deleted or refiled, and to which folder, is drawn evenly from the page; words to search
//! for are taken from the last list. Next-links and sorting are not followed, for the table has no
//! step from a list to a list. After deleting or refiling the message shown, the user is back at
//! a message: another one of the list, for that one is gone from it.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Response, Uri};
use rand::RngExt;
use rand::rngs::StdRng;
use tamarisk_load::{EmulatedUser, UserRequest};

use crate::accounts::Account;
use crate::cookies::Cookies;
use crate::form::{Filling, Form};
use crate::markov::{Action, Choosing};
use crate::page::Page;
use crate::reason;

/// Folders that a user remembers as empty.
const EMPTY_MAX: usize = 100;

/// Letters of a word to search for, at least: shorter ones are in every header.
const WORD_LETTERS_MIN: usize = 4;

pub(crate) struct User {
    account: Account,
    class: usize,
    random: StdRng,
    cookies: Cookies,
    /// What it asks for next, or has asked for.
    asks: Asks,
    /// The page on which it chose last.
    visited: Option<Visited>,
    /// The messages of the last list that it has not shown since.
    listed: Vec<PathAndQuery>,
    /// The list that is asked for when none of them is left.
    list: Option<PathAndQuery>,
    /// Folders that had no messages when it looked.
    empty: Vec<PathAndQuery>,
    /// What it searches for next.
    word: String,
}

#[derive(Clone, Debug)]
struct Asks {
    step: Step,
    method: Method,
    path: PathAndQuery,
    body: Bytes,
}

/// A type of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// One of the paper's table.
    Do(Action),
    /// The page with the login form.
    LoginPage,
    LogOut,
}

#[derive(Clone, Debug)]
struct Visited {
    page: Choosing,
    path: PathAndQuery,
}

type Reason = &'static str;

impl Step {
    /// Its position among [`REQUEST_TYPES`](crate::REQUEST_TYPES).
    fn request_type(self) -> usize {
        match self {
            Self::Do(action) => action as usize,
            Self::LoginPage => Action::Search as usize + 1,
            Self::LogOut => Action::Search as usize + 2,
        }
    }
}

impl Asks {
    fn page(step: Step, path: PathAndQuery) -> Self {
        Self { step, method: Method::GET, path, body: Bytes::new() }
    }

    fn login_page() -> Self {
        Self::page(Step::LoginPage, PathAndQuery::from_static("/login"))
    }

    fn form(
        step: Step,
        (form, action): (&Form, &str),
        filling: Filling<'_>,
    ) -> Result<Self, Reason> {
        let sent = form.fill_in(action, filling);
        Ok(Self { step, method: form.method.clone(), path: path(&sent.path)?, body: sent.body })
    }
}

impl User {
    pub(crate) fn new(account: Account, class: usize, random: StdRng) -> Self {
        Self {
            account,
            class,
            random,
            cookies: Cookies::default(),
            asks: Asks::login_page(),
            visited: None,
            listed: Vec::new(),
            list: None,
            empty: Vec::new(),
            word: String::new(),
        }
    }

    /// What follows the answer to what was asked for last.
    fn after(&mut self, answer: &Response<Vec<u8>>) -> Result<Asks, Reason> {
        let action = match self.asks.step {
            Step::LoginPage => return self.log_in(&page(answer, "log-in")?),
            Step::LogOut => {
                redirect(answer)?;
                self.forget();
                return Ok(Asks::login_page());
            }
            Step::Do(action) => action,
        };
        match action {
            Action::LogIn => match redirect(answer) {
                Ok(path) => Ok(Asks::page(Step::Do(Action::ListFolders), path)),
                Err(_) => Err(why_not_in(answer)),
            },
            Action::ListFolders => self.choose_folder(&page(answer, "folders")?),
            Action::ListMessages => {
                let page = page(answer, "list")?;
                self.remember_list(&page)?;
                self.choose(Choosing::List, &page)
            }
            Action::Search => {
                let page = page(answer, "search")?;
                self.remember_list(&page)?;
                self.choose(Choosing::Found, &page)
            }
            Action::ShowMessage => self.choose(Choosing::Message, &page(answer, "message")?),
            Action::Delete | Action::Refile => {
                redirect(answer)?;
                self.back()
            }
        }
    }

    fn log_in(&self, page: &Page) -> Result<Asks, Reason> {
        let form = page.form("log-in").ok_or(reason::NO_LOG_IN)?;
        let Account { name, password, .. } = &self.account;
        let filling = Filling { text: name, password, ..Filling::default() };
        Asks::form(Step::Do(Action::LogIn), form, filling)
    }

    fn choose_folder(&self, page: &Page) -> Result<Asks, Reason> {
        let folders = page.links_to("folder").map(|link| path(&link.href));
        let folders: Vec<_> = folders.collect::<Result<_, _>>()?;
        let is_empty = |folder: &&PathAndQuery| self.empty.contains(folder);
        let folder = folders.iter().find(|folder| !is_empty(folder)).or_else(|| folders.first());
        let folder = folder.ok_or(reason::NO_FOLDER)?;
        Ok(Asks::page(Step::Do(Action::ListMessages), folder.clone()))
    }

    fn remember_list(&mut self, page: &Page) -> Result<(), Reason> {
        let path_of = |link: &crate::page::Link| path(&link.href);
        self.listed = page.links_to("message").map(path_of).collect::<Result<_, _>>()?;
        let here = &self.asks.path;
        if self.asks.step == Step::Do(Action::ListMessages) {
            self.empty.retain(|folder| folder != here);
            if is_empty(page) && self.empty.len() < EMPTY_MAX {
                self.empty.push(here.clone());
            }
            self.list = Some(here.clone());
        }
        let draw: f64 = self.random.random();
        if let Some(word) = word(page, draw) {
            self.word = word;
        }
        Ok(())
    }

    /// Draws what to do on a page.
    fn choose(&mut self, on: Choosing, page: &Page) -> Result<Asks, Reason> {
        self.visited = Some(Visited { page: on, path: self.asks.path.clone() });
        let has_nothing = on != Choosing::Message && is_empty(page);
        let is_possible = |action| !has_nothing || matches!(action, Action::LogIn | Action::Search);
        let action = on.next(self.random.random(), is_possible);
        match action {
            Action::LogIn => log_out(page),
            Action::ListFolders => unreachable!("no page of a choice leads to the folders"),
            Action::ListMessages => self.list_again(page),
            Action::ShowMessage => self.show_another()?.ok_or(reason::NO_MESSAGE),
            Action::Delete => {
                self.send(action, page.form("delete").ok_or(reason::NO_DELETE)?, page)
            }
            Action::Refile => {
                let form = page.form("refile").filter(|(form, _)| form.has_choice());
                self.send(action, form.ok_or(reason::NO_REFILE)?, page)
            }
            Action::Search => {
                let form = page.form("search").ok_or(reason::NO_SEARCH)?;
                let filling = Filling { text: &self.word, ..Filling::default() };
                Asks::form(Step::Do(Action::Search), form, filling)
            }
        }
    }

    /// The folder of a message: the list that the user came from, if the page leads there.
    fn list_again(&self, page: &Page) -> Result<Asks, Reason> {
        let folders = page.links_to("folder").map(|link| path(&link.href));
        let folders: Vec<_> = folders.collect::<Result<_, _>>()?;
        let came_from = folders.iter().find(|folder| Some(*folder) == self.list.as_ref());
        let folder = came_from.or_else(|| folders.first()).ok_or(reason::NO_FOLDER)?;
        Ok(Asks::page(Step::Do(Action::ListMessages), folder.clone()))
    }

    /// One of the messages listed, if one is left.
    fn show_another(&mut self) -> Result<Option<Asks>, Reason> {
        if self.listed.is_empty() {
            return Ok(None);
        }
        let index = self.random.random_range(0..self.listed.len());
        let path = self.listed.swap_remove(index);
        Ok(Some(Asks::page(Step::Do(Action::ShowMessage), path)))
    }

    /// Sends a form that is about a message: the one shown, or one that is ticked.
    fn send(
        &mut self,
        action: Action,
        (form, leads_to): (&Form, &str),
        page: &Page,
    ) -> Result<Asks, Reason> {
        let message = if form.has_message() {
            None
        } else {
            let count = page.messages.len();
            if count == 0 {
                return Err(reason::NO_MESSAGE_TO_TICK);
            }
            Some(page.messages[self.random.random_range(0..count)].as_str())
        };
        let choice = (action == Action::Refile).then(|| self.random.random());
        let filling = Filling { message, choice, ..Filling::default() };
        Asks::form(Step::Do(action), (form, leads_to), filling)
    }

    /// To the page on which the user has deleted or refiled something.
    fn back(&mut self) -> Result<Asks, Reason> {
        let visited = self.visited.clone().expect("messages are deleted and refiled on a page");
        let list = |path| Asks::page(Step::Do(Action::ListMessages), path);
        Ok(match visited.page {
            Choosing::List => list(visited.path),
            Choosing::Found => Asks::page(Step::Do(Action::Search), visited.path),
            Choosing::Message => match (self.show_another()?, &self.list) {
                (Some(another), _) => another,
                (None, Some(path)) => list(path.clone()),
                (None, None) => return Err(reason::NO_MESSAGE),
            },
        })
    }

    /// Nothing is known of pages that were seen before a login.
    fn forget(&mut self) {
        self.cookies.clear();
        self.visited = None;
        self.list = None;
        self.listed.clear();
    }
}

impl EmulatedUser for User {
    fn class(&self) -> usize {
        self.class
    }

    fn next_request(&mut self) -> UserRequest {
        let Asks { step, method, path, body } = self.asks.clone();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/html"));
        self.cookies.send(&mut headers);
        if method == Method::POST {
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            headers.insert(CONTENT_TYPE, form);
        }
        UserRequest { request_type: step.request_type(), method, path, headers, body }
    }

    fn read(&mut self, answer: &Response<Vec<u8>>) -> Result<(), Reason> {
        self.cookies.take(answer.headers());
        if answer.status().is_client_error() || answer.status().is_server_error() {
            let login = self.asks.step == Step::Do(Action::LogIn);
            let is_unknown = login && matches!(answer.status().as_u16(), 401 | 403);
            // The status says enough of all others.
            return if is_unknown { Err(why_not_in(answer)) } else { Ok(()) };
        }
        self.asks = self.after(answer)?;
        Ok(())
    }

    fn begin_again(&mut self) {
        self.forget();
        self.asks = Asks::login_page();
    }
}

/// Where a link or a form leads.
fn path(text: &str) -> Result<PathAndQuery, Reason> {
    let path = PathAndQuery::try_from(text).map_err(|_| reason::INVALID_LINK)?;
    if text.starts_with('/') { Ok(path) } else { Err(reason::INVALID_LINK) }
}

/// The page that came, which must be of this kind.
fn page(answer: &Response<Vec<u8>>, kind: &str) -> Result<Page, Reason> {
    if answer.status().is_redirection() {
        let is_login = redirect(answer).is_ok_and(|path| path.path() == "/login");
        return Err(if is_login { reason::NO_SESSION } else { reason::UNEXPECTED_REDIRECT });
    }
    let page = Page::read(answer.body());
    match page.kind.as_str() {
        "" => Err(reason::NOT_ARASHI),
        found if found == kind => Ok(page),
        _ => Err(reason::ANOTHER_PAGE),
    }
}

/// Where a form that was sent leads.
fn redirect(answer: &Response<Vec<u8>>) -> Result<PathAndQuery, Reason> {
    if !answer.status().is_redirection() {
        return Err(reason::NO_REDIRECT);
    }
    let location = answer.headers().get(LOCATION).ok_or(reason::INVALID_LINK)?;
    let uri = Uri::try_from(location.as_bytes()).map_err(|_| reason::INVALID_LINK)?;
    uri.path_and_query().cloned().ok_or(reason::INVALID_LINK)
}

/// Why a login led nowhere.
fn why_not_in(answer: &Response<Vec<u8>>) -> Reason {
    match page(answer, "log-in") {
        Ok(_) => reason::WRONG_PASSWORD,
        Err(reason::ANOTHER_PAGE) => reason::NO_REDIRECT,
        Err(why) => why,
    }
}

fn log_out(page: &Page) -> Result<Asks, Reason> {
    if let Some(form) = page.form("log-out") {
        return Asks::form(Step::LogOut, form, Filling::default());
    }
    let link = page.links_to("log-out").next().ok_or(reason::NO_LOG_OUT)?;
    Ok(Asks::page(Step::LogOut, path(&link.href)?))
}

/// Whether a list has no messages: then it has neither links to them nor boxes.
fn is_empty(page: &Page) -> bool {
    page.messages.is_empty() && page.links_to("message").next().is_none()
}

/// A word from one of the messages listed, drawn from `0.0..1.0`.
fn word(page: &Page, draw: f64) -> Option<String> {
    let count = page.links_to("message").count();
    let link = page.links_to("message").nth((draw * count as f64) as usize)?;
    let mut words = link.text.split(|letter: char| !letter.is_alphanumeric());
    words.find(|word| word.chars().count() >= WORD_LETTERS_MIN).map(str::to_owned)
}
