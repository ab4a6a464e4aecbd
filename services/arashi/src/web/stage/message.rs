//! A message.

use http::StatusCode;

use super::problem::Problem;
use super::running::RunningRequest;
use crate::mail::Mail;
use crate::web::answer::{Answer, page};
use crate::web::page::{MessagePage, message_page};
use crate::web::place::MessagePlace;

/// The most of a source that is shown, in bytes.
const SOURCE_BYTES_MAX: usize = 1 << 20;

pub(super) fn message(
    running: &mut RunningRequest<'_>,
    place: &MessagePlace,
) -> Result<Answer, Problem> {
    let message = running.store.message(running.work, running.user(), place.id)?;
    // After the message, which counts as read from now on.
    let folders = running.folders()?;
    let images = format!("/attachment?id={}&part=", place.id.0);
    let mail = if place.source {
        Mail::without_html(&message.raw)
    } else {
        Mail::parse_with_images(&message.raw, Some(&images))
    };
    let source = place.source.then(|| {
        let shown = message.raw.len().min(SOURCE_BYTES_MAX);
        String::from_utf8_lossy(&message.raw[..shown])
    });
    let shown = MessagePage {
        session: running.session,
        folders: &folders,
        message: &message,
        mail: &mail,
        source: source.as_deref(),
        back: place.back.as_ref(),
    };
    Ok(page(StatusCode::OK, message_page(&shown)))
}
