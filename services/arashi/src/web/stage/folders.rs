//! The list of folders.

use http::StatusCode;

use super::problem::Problem;
use super::running::RunningRequest;
use crate::web::answer::{Answer, page};
use crate::web::notice::Notice;
use crate::web::page::folders_page;

pub(super) fn folders(
    running: &mut RunningRequest<'_>,
    notice: Option<Notice>,
) -> Result<Answer, Problem> {
    let folders = running.folders()?;
    Ok(page(StatusCode::OK, folders_page(running.session, &folders, notice)))
}
