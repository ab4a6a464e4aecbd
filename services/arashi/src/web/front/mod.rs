//! What is before the stages: routes, the log-in page, and what clients are told whose request a
//! stage has not answered.

mod form;
mod headers;
mod routes;
mod unanswered;

pub(crate) use form::LongForms;
pub(crate) use routes::{Front, router};
