//! Configuration of custom error pages, `[errors]`.

use std::path::Path;

use http::StatusCode;
use tamarisk_http_gate::{ErrorPageError, ErrorPages};
use tamarisk_settings::{Fault, Section, Value, all};

use super::disk::Disk;
use super::values::file;

/// The entries of a table whose keys are statuses of errors.
///
/// # Errors
/// A [`Fault`] at a key that is none.
pub fn statuses<'v>(value: &'v Value<'v>) -> Result<Vec<(StatusCode, &'v Value<'v>)>, Fault> {
    all(Section::tables(value)?.into_iter().map(|(key, value)| {
        let name: &str = key.get_ref();
        let status = name.parse().ok().and_then(|status| StatusCode::from_u16(status).ok());
        let is_error = |status: &StatusCode| (400..600).contains(&status.as_u16());
        let status = status.filter(is_error).ok_or_else(|| {
            let message = format!("{name:?} is not the status of an error");
            Fault::new(key.span(), message, "expected a status from 400 to 599, such as 503")
        })?;
        Ok((status, value))
    }))
}

/// The table `errors`, whose files are relative to `folder`.
pub fn error_pages(value: &Value<'_>, folder: &Path, disk: Disk) -> Result<ErrorPages, Fault> {
    let pages = ErrorPages::default();
    all(statuses(value)?.into_iter().map(|(status, value)| {
        let path = file(value, "503.html", folder)?;
        if disk == Disk::Unasked {
            return Ok(());
        }
        pages.read(status, &path).map_err(|error| match &error {
            ErrorPageError::Unreadable { source, .. } => {
                Fault::new(value.span(), format!("{error}: {source}"), "expected a text file")
                    .help("a path is relative to the folder of this file")
            }
            _ => Fault::new(value.span(), error.to_string(), "in this page"),
        })
    }))?;
    Ok(pages)
}
