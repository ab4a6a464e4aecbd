//! Pages: HTML made of what was found, without scripts. `data-go` and `data-page` mark links,
//! forms and pages for programs that use the service as people do.

mod compose;
mod digest;
mod folders;
mod layout;
mod list;
mod log_in;
mod message;
mod password;
mod problem;
mod text;

pub(crate) use compose::{ComposeForm, compose_page};
pub(crate) use digest::{DigestView, digest_page, digest_values};
pub(crate) use folders::folders_page;
pub(crate) use layout::STYLE;
pub(crate) use list::{MessageTable, list_page, search_page};
pub(crate) use log_in::log_in_page;
pub(crate) use message::{MessagePage, message_page};
pub(crate) use password::{PasswordForm, password_page};
pub(crate) use problem::{ProblemPage, problem_page};
