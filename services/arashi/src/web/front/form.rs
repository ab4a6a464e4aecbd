//! The fields of a request, read within bounds.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, StatusCode};
use tokio::time::timeout;

use crate::web::fields::{Fields, Malformed};

/// The longest query, in bytes: that of a search, with room.
const QUERY_BYTES_MAX: usize = 4096;
/// The longest form, in bytes: a message of a megabyte, each byte of which may take three.
const FORM_BYTES_MAX: usize = 4 << 20;
/// How long a client has to send a form: a megabyte over a slow line.
const FORM_TIME: Duration = Duration::from_secs(30);

/// Why the fields of a request cannot be read.
pub(super) struct Unreadable {
    pub(super) status: StatusCode,
    pub(super) reason: String,
}

/// The fields of the form of a POST, or else of the query.
pub(super) async fn read(head: &Parts, body: Body) -> Result<Fields, Unreadable> {
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
    let Ok(read) = timeout(FORM_TIME, to_bytes(body, FORM_BYTES_MAX)).await else {
        let reason = "The form took too long to arrive.".to_owned();
        return Err(Unreadable { status: StatusCode::REQUEST_TIMEOUT, reason });
    };
    let Ok(form) = read else {
        let reason = format!("The form is larger than {FORM_BYTES_MAX} bytes, or was cut off.");
        return Err(Unreadable { status: StatusCode::PAYLOAD_TOO_LARGE, reason });
    };
    Ok(Fields::parse(&form)?)
}

impl From<Malformed> for Unreadable {
    fn from(Malformed(reason): Malformed) -> Self {
        Self { status: StatusCode::BAD_REQUEST, reason }
    }
}
