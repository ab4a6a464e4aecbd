//! What it costs a user to read a page and to decide what to do next:
//! `cargo run --release -p tamarisk-arashi-load --example page_cost [FILE]`, where FILE is a list page
//! as Arashi sent it; by default one of twenty messages is made up.

use std::hint::black_box;
use std::time::Instant;

use http::Response;
use tamarisk_arashi_load::{Accounts, WebmailUsers};
use tamarisk_load::Population;

const PAGES: u32 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let list = match std::env::args().nth(1) {
        Some(file) => std::fs::read(file)?,
        None => made_up_list().into_bytes(),
    };
    let login = "<body data-page=log-in><form data-go=log-in method=post action=/login>";
    let folders = "<body data-page=folders><a data-go=folder href='/list?folder=1'>Inbox</a>";
    let to_folders = Response::builder().status(303).header("location", "/folders");
    let before = [
        Response::new(login.as_bytes().to_vec()),
        to_folders.body(vec![])?,
        Response::new(folders.as_bytes().to_vec()),
    ];
    let bytes = list.len();
    let list = Response::new(list);
    let users = WebmailUsers::new(Accounts::numbered("user", 1, "password", 0.0)?, 1);
    let mut user = users.user(0);
    let mut spent = std::time::Duration::ZERO;
    for _ in 0..PAGES {
        user.begin_again();
        for answer in &before {
            user.read(answer)?;
        }
        black_box(user.next_request());
        let began = Instant::now();
        user.read(&list)?;
        black_box(user.next_request());
        spent += began.elapsed();
    }
    let micros = spent.as_secs_f64() * 1e6 / f64::from(PAGES);
    println!("{micros:.1} µs for a list page of {bytes} bytes");
    Ok(())
}

fn made_up_list() -> String {
    let row = |id: u32| {
        format!(
            "<tr class=\"unread\"><td class=\"tick\"><input type=\"checkbox\" name=\"message\" \
             value=\"{id}\" aria-label=\"Select Minutes of the meeting\"></td><td class=\"from\" \
             title=\"Reception &lt;reception@example.org&gt;\"><span class=\"from\">Reception</span>\
             </td><td class=\"subject\"><a href=\"/message?id={id}\" data-go=\"message\">Minutes of \
             the meeting<span class=\"hidden\"> (unread)</span></a><span class=\"snippet\">Please \
             read the draft of the report before the meeting on Friday, and bring what you have \
             measured.</span></td><td class=\"size\">2 KB</td><td class=\"date\">1 March</td></tr>"
        )
    };
    let rows: String = (1..=20).map(row).collect();
    let csrf = "<input type=\"hidden\" name=\"csrf\" value=\"0123456789abcdef0123456789abcdef\">";
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><title>Inbox · Arashi</title></head>\
         <body data-page=\"list\"><header><form data-go=\"search\" action=\"/search\">\
         <input type=\"search\" name=\"q\"></form><form data-go=\"log-out\" action=\"/logout\" \
         method=\"post\">{csrf}<button>Log out</button></form></header><main>\
         <form data-go=\"delete\" action=\"/delete\" method=\"post\">{csrf}<table><tbody>{rows}\
         </tbody></table><button>Delete</button><select name=\"to\"><option value=\"2\">Sent\
         </option><option value=\"3\">Trash</option></select><button data-go=\"refile\" \
         formaction=\"/refile\">Move</button></form></main></body></html>"
    )
}
