//! The fields of a request, read within bounds.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::web::fields::{Fields, Malformed};

/// The longest query, in bytes: that of a search, with room.
const QUERY_BYTES_MAX: usize = 4096;
/// The longest form, in bytes: as many messages as it may have fields, and a path to return to, each
/// byte of which may take three.
const FORM_BYTES_MAX: usize = 16 << 10;
/// The longest form with a message in it, in bytes: a megabyte, each byte of which may take three.
const MESSAGE_FORM_BYTES_MAX: usize = 4 << 20;
/// How many long forms are read at once of whom is known to have logged in, …
const LONG_FORMS_MAX: usize = 64;
/// … and of others, who may have logged in long ago, or say so only: a third of a gigabyte with those.
const LONG_FORMS_OF_OTHERS_MAX: usize = 16;
/// How long a client has to send a form: a megabyte over a slow line.
const FORM_TIME: Duration = Duration::from_secs(30);

/// Bounds how many long forms are read at once. Short ones do not wait for long ones that somebody
/// sends slowly, and users not for those of anybody.
pub(crate) struct LongForms {
    of_users: Semaphore,
    of_others: Semaphore,
}

impl Default for LongForms {
    fn default() -> Self {
        Self {
            of_users: Semaphore::new(LONG_FORMS_MAX),
            of_others: Semaphore::new(LONG_FORMS_OF_OTHERS_MAX),
        }
    }
}

/// Why the fields of a request cannot be read.
pub(super) struct Unreadable {
    pub(super) status: StatusCode,
    pub(super) reason: String,
}

/// The fields of the form of a POST, or else of the query.
pub(super) async fn read(
    head: &Parts,
    body: Body,
    long_forms: &LongForms,
    is_user: bool,
) -> Result<Fields, Unreadable> {
    if head.method != Method::POST {
        let query = head.uri.query().unwrap_or_default();
        if query.len() > QUERY_BYTES_MAX {
            let reason = format!("The query is longer than {QUERY_BYTES_MAX} bytes.");
            return Err(Unreadable { status: StatusCode::URI_TOO_LONG, reason });
        }
        return Ok(Fields::parse(query.as_bytes())?);
    }
    let stated = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = stated.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        let reason = "Forms are sent as application/x-www-form-urlencoded.".to_owned();
        return Err(Unreadable { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, reason });
    }
    let bytes_max = bytes_max_of(head);
    let permits = if is_user { &long_forms.of_users } else { &long_forms.of_others };
    let permit = async {
        match bytes_max {
            FORM_BYTES_MAX => None,
            // The semaphore is never closed, so that there is always a permit.
            _ => permits.acquire().await.ok(),
        }
    };
    let Ok(_permit) = timeout(FORM_TIME, permit).await else {
        let reason = "Too many long messages are being sent. Please send it again.".to_owned();
        return Err(Unreadable { status: StatusCode::SERVICE_UNAVAILABLE, reason });
    };
    let Ok(read) = timeout(FORM_TIME, to_bytes(body, bytes_max)).await else {
        let reason = "The form took too long to arrive.".to_owned();
        return Err(Unreadable { status: StatusCode::REQUEST_TIMEOUT, reason });
    };
    let Ok(form) = read else {
        let reason = format!("The form is larger than {bytes_max} bytes, or was cut off.");
        return Err(Unreadable { status: StatusCode::PAYLOAD_TOO_LARGE, reason });
    };
    Ok(Fields::parse(&form)?)
}

/// The most that is read, in bytes.
fn bytes_max_of(head: &Parts) -> usize {
    let stated = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let stated: Option<usize> = stated.and_then(|length| length.parse().ok());
    let is_short = stated.is_some_and(|length| length <= FORM_BYTES_MAX);
    if is_short || head.uri.path() != "/compose" { FORM_BYTES_MAX } else { MESSAGE_FORM_BYTES_MAX }
}

impl From<Malformed> for Unreadable {
    fn from(Malformed(reason): Malformed) -> Self {
        Self { status: StatusCode::BAD_REQUEST, reason }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http::Request;

    use super::*;

    async fn sent(path: &str, length: usize, long_forms: &LongForms) -> Result<Fields, StatusCode> {
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(CONTENT_LENGTH, length)
            .body(())
            .expect("the request is valid");
        let (head, ()) = request.into_parts();
        let read = read(&head, Body::from("a".repeat(length)), long_forms, true).await;
        read.map_err(|unreadable| unreadable.status)
    }

    #[tokio::test]
    async fn only_long_messages_wait_for_one_another() {
        let (short, long) = (16 << 10, (16 << 10) + 1);
        let long_forms = LongForms::default();
        let others = long_forms.of_users.acquire_many(64).await.unwrap();
        assert!(sent("/compose", long, &long_forms).now_or_never().is_none());
        let read = sent("/compose", short, &long_forms).now_or_never();
        assert!(read.expect("it does not wait").is_ok());
        let read = sent("/login", long, &long_forms).now_or_never();
        let status = read.expect("it does not wait").err();
        assert_eq!(status, Some(StatusCode::PAYLOAD_TOO_LARGE));
        drop(others);
        assert!(sent("/compose", long, &long_forms).await.is_ok());
    }
}
