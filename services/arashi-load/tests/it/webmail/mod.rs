//! A small webmail with the marks of Arashi, in memory: sessions in cookies, CSRF tokens that are
//! checked, and a mailbox from which nothing goes.

use std::collections::HashMap;

use http::{Method, Response, StatusCode, header};

pub(crate) const PASSWORD: &str = "correct horse";

/// What the users see of it.
#[derive(Debug, Default)]
pub(crate) struct Webmail {
    /// Messages in the inbox; the folder after it has ten, if it has none.
    pub(crate) messages: u32,
    /// Sessions by cookie, with their tokens.
    sessions: HashMap<String, String>,
    made: u32,
}

/// A request as the webmail needs it.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) cookie: &'a str,
    pub(crate) body: &'a str,
}

impl Webmail {
    pub(crate) fn with_messages(messages: u32) -> Self {
        Self { messages, ..Self::default() }
    }

    pub(crate) fn answer(&mut self, asked: &Asked<'_>) -> Response<Vec<u8>> {
        let (path, query) = asked.path.split_once('?').unwrap_or((asked.path, ""));
        let is_post = *asked.method == Method::POST;
        let fields = form_urlencoded::parse(if is_post { asked.body } else { query }.as_bytes());
        let fields: HashMap<String, String> = fields.into_owned().collect();
        let field = |name: &str| fields.get(name).map_or("", String::as_str);
        if path == "/login" {
            return self.log_in(is_post, asked.cookie, &fields);
        }
        let session = cookie(asked.cookie, "session");
        let Some(csrf) = session.as_ref().and_then(|session| self.sessions.get(session)) else {
            return redirect("/login", None);
        };
        if is_post && field("csrf") != csrf {
            return status(StatusCode::FORBIDDEN);
        }
        let csrf = csrf.clone();
        match (is_post, path) {
            (true, "/logout") => {
                self.sessions.remove(&session.unwrap());
                redirect("/login", Some("session=; Max-Age=0"))
            }
            (true, "/delete") if is_message(field("message")) => redirect("/list?folder=1", None),
            (true, "/refile") if is_message(field("message")) && field("to") == "3" => {
                redirect("/list?folder=1", None)
            }
            (false, "/folders") => page(
                "folders",
                "<p><a data-go=folder href='/list?folder=1'>Inbox</a> \
                 <a data-go=folder href='/list?folder=2'>Other</a>",
                &csrf,
            ),
            (false, "/list") => page("list", &list(self.in_folder(field("folder"))), &csrf),
            (false, "/search") if !field("q").is_empty() => page("search", &list(3), &csrf),
            (false, "/message") if is_message(field("id")) => {
                page("message", &message(field("id")), &csrf)
            }
            _ => status(StatusCode::BAD_REQUEST),
        }
    }

    fn in_folder(&self, folder: &str) -> u32 {
        if folder == "1" { self.messages } else { 10 }
    }

    fn log_in(
        &mut self,
        is_post: bool,
        cookies: &str,
        fields: &HashMap<String, String>,
    ) -> Response<Vec<u8>> {
        let form = "<form data-go=log-in method=post action=/login>\
             <input type=hidden name=csrf value=first><input name=name>\
             <input type=password name=password><button>Log in</button></form>";
        let page = |status| {
            let html = format!("<!doctype html><body data-page=log-in>{form}");
            let answer = Response::builder().status(status).header("set-cookie", "login=first");
            answer.body(html.into_bytes()).unwrap()
        };
        if !is_post {
            return page(200);
        }
        let is_right = cookie(cookies, "login").as_deref() == Some("first")
            && fields["csrf"] == "first"
            && fields["name"].starts_with("user")
            && fields["password"] == PASSWORD;
        if !is_right {
            return page(401);
        }
        self.made += 1;
        let key = format!("key{}", self.made);
        self.sessions.insert(key.clone(), format!("csrf&\"{}", self.made));
        redirect("/folders", Some(&format!("session={key}; HttpOnly; Path=/")))
    }
}

fn is_message(id: &str) -> bool {
    id.parse::<u32>().is_ok()
}

fn list(count: u32) -> String {
    let row = |id| {
        format!(
            "<li><input type=checkbox name=message value={id}> \
             <a data-go=message href='/message?id={id}&amp;from=list'>Quarterly report {id}</a>\n"
        )
    };
    let rows: String = (1..=count).map(row).collect();
    // One form with two buttons, as the boxes belong to both.
    format!(
        "<form data-go=delete method=post action=/delete>{CSRF}<ul>{rows}</ul>\
         <button>Delete</button><select name=to><option value=3>Archive</select>\
         <button data-go=refile formaction=/refile>Move</button></form>{SEARCH_AND_LOG_OUT}"
    )
}

fn message(id: &str) -> String {
    let hidden = format!("<input type=hidden name=message value={id}>");
    format!(
        "<a data-go=folder href='/list?folder=1'>Inbox</a><pre>Text.</pre>\
         <form data-go=delete method=POST action=/delete>{CSRF}{hidden}<button>Delete</button>\
         </form><form data-go=refile method=post action='/refile'>{CSRF}{hidden}\
         <select name=to><option value=3 selected>Archive</select><button>Move</button></form>\
         {SEARCH_AND_LOG_OUT}"
    )
}

const CSRF: &str = "<input type=hidden name=csrf value='CSRF'>";

const SEARCH_AND_LOG_OUT: &str = "<form data-go=search action=/search><input type=search name=q>\
     <select name=folder><option value='' selected>All<option value=1>Inbox</select></form>\
     <form data-go=log-out method=post action=/logout><input type=hidden name=csrf value='CSRF'>\
     <button>Log out</button></form>";

fn page(kind: &str, html: &str, csrf: &str) -> Response<Vec<u8>> {
    let escaped = csrf.replace('&', "&amp;").replace('"', "&quot;");
    let html = html.replace("CSRF", &escaped);
    let html = format!("<!doctype html><title>x</title><body data-page={kind}>{html}</body>");
    Response::new(html.into_bytes())
}

fn redirect(to: &str, cookie: Option<&str>) -> Response<Vec<u8>> {
    let mut answer = Response::builder().status(303).header(header::LOCATION, to);
    if let Some(cookie) = cookie {
        answer = answer.header(header::SET_COOKIE, cookie);
    }
    answer.body(vec![]).unwrap()
}

pub(crate) fn status(status: StatusCode) -> Response<Vec<u8>> {
    Response::builder().status(status).body(vec![]).unwrap()
}

fn cookie(cookies: &str, name: &str) -> Option<String> {
    let pairs = cookies.split("; ").filter_map(|pair| pair.split_once('='));
    pairs.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned()).next()
}
