//! The answer to a request whose page is not to be had now.

use tamarisk_http_gate::{Details, Form, rejected};
use tamarisk_observe::RequestId;
use tamarisk_server::Rejection;

use crate::answer::Answer;
use crate::answer::placeholders::ShortReason;
use crate::cache::outcome::NotNow;

/// The answer to the request with this `id`: text, JSON or a page, as its `accept` field asks for.
/// The page loads itself again if the request `is_get`.
pub(crate) fn rejection(
    why: NotNow,
    accept: Option<&[u8]>,
    is_get: bool,
    id: &RequestId,
) -> Answer {
    let form = Form::accepted(accept, is_get);
    let details = Details { request_id: Some(id.as_str()), retry_after: Some(1), pages: None };
    let mut answer: Answer = match why {
        NotNow::Rejected(why) => rejected(&why, form, details),
        NotNow::Unread { message, .. } => message.answer_with(form, details),
    };
    answer.extensions_mut().insert(Rejection);
    answer.extensions_mut().insert(ShortReason(why.reason()));
    answer
}
