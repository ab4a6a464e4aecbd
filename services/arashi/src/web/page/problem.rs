//! Pages that say why there is no other page, and how to go on.

use maud::{Markup, html};

use super::layout::Frame;
use super::text::counted;
use crate::store::{AccountClass, Session};

/// Why there is no page as it was asked for.
pub(crate) struct ProblemPage<'a> {
    /// What programs know the page by: `rejected` or `problem`.
    pub(crate) page: &'static str,
    pub(crate) title: &'a str,
    pub(crate) reason: &'a str,
    /// What can be done.
    pub(crate) cure: &'a str,
    /// In how many seconds it is worth trying again.
    pub(crate) retry_seconds: Option<u64>,
    /// Whether the page does so automatically: never where something would be sent twice.
    pub(crate) reloads: bool,
    /// The class of the account, if it is known without a session.
    pub(crate) class: Option<AccountClass>,
}

impl Default for ProblemPage<'_> {
    fn default() -> Self {
        Self {
            page: "problem",
            title: "",
            reason: "",
            cure: "",
            retry_seconds: None,
            reloads: false,
            class: None,
        }
    }
}

/// The page. It has the navigation of `session`, where somebody is known to be logged in.
pub(crate) fn problem_page(problem: &ProblemPage<'_>, session: Option<&Session>) -> Markup {
    let retry = problem.retry_seconds;
    let reloads = retry.filter(|_| problem.reloads);
    let class = session.map(|session| session.account.class).or(problem.class);
    let frame = Frame {
        session,
        class,
        reload_seconds: reloads,
        ..Frame::new(problem.page, problem.title)
    };
    frame.around(&html! {
        div.sheet.padded {
            h1 { (problem.title) }
            p { (problem.reason) }
            @if let Some(seconds) = retry {
                p role="status" {
                    @if reloads.is_some() {
                        "This page tries again in " strong { (counted(seconds, "second")) } "."
                    } @else {
                        "It is worth trying again in " strong { (counted(seconds, "second")) } "."
                    }
                }
            }
            p { (problem.cure) }
            p { a.button href="/folders" data-go="folders" { "Go to the folders" } }
        }
    })
}
