//! The built-in HTML error page.

use std::fmt::Write;

use http::StatusCode;

/// A page for people about an answer with this status. It loads itself again after
/// `reload_after` seconds. `reason` and `request_id` must need no escaping.
pub(crate) fn page(
    status: StatusCode,
    reason: &str,
    request_id: Option<&str>,
    reload_after: Option<u64>,
) -> String {
    let (title, sentence) = words(status);
    let mut page = String::with_capacity(1024);
    page.push_str(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n",
    );
    if let Some(seconds) = reload_after {
        let _ = writeln!(page, "<meta http-equiv=\"refresh\" content=\"{seconds}\">");
    }
    let _ = write!(
        page,
        "<title>{title}</title>\n<style>\n\
         :root {{ color-scheme: light dark; }}\n\
         body {{ font: 1.05rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto; padding: 0 1.25rem; }}\n\
         h1 {{ font-size: 1.5rem; }}\n\
         small {{ opacity: .7; overflow-wrap: anywhere; }}\n\
         </style>\n<main>\n<h1>{title}</h1>\n<p>{sentence}</p>\n"
    );
    if let Some(seconds) = reload_after {
        let unit = if seconds == 1 { "second" } else { "seconds" };
        let _ = writeln!(page, "<p>This page tries again in {seconds} {unit}.</p>");
    }
    let _ = write!(page, "<p><small>{} · {reason}", status.as_u16());
    if let Some(id) = request_id {
        let _ = write!(page, " · request {id}");
    }
    page.push_str("</small></p>\n</main>\n</html>\n");
    page
}

/// A title and a sentence for somebody who does not know how the site works.
fn words(status: StatusCode) -> (&'static str, &'static str) {
    match status {
        StatusCode::SERVICE_UNAVAILABLE => (
            "This site is busy",
            "More people are using it right now than it can serve. Please try again in a moment.",
        ),
        StatusCode::BAD_GATEWAY => (
            "This site is not available",
            "Something went wrong on our side. Please try again in a few minutes.",
        ),
        StatusCode::GATEWAY_TIMEOUT => (
            "This took too long",
            "The site did not answer in time. Please try again in a few minutes.",
        ),
        StatusCode::NOT_FOUND => (
            "Page not found",
            "There is nothing at this address. Please check it for typing errors.",
        ),
        StatusCode::PAYLOAD_TOO_LARGE => {
            ("This is too large", "What you have sent is larger than this site accepts.")
        }
        StatusCode::FORBIDDEN => ("No access", "This page is not open to you."),
        status if status.is_client_error() => {
            ("This request cannot be answered", "The site does not understand the request.")
        }
        _ => {
            ("Something went wrong", "The error is on our side. Please try again in a few minutes.")
        }
    }
}
