//! Configuration of the status port's token, `status_token`.

use std::path::Path;

use tamarisk_observe::status::TokenSource;
use tamarisk_settings::table::{Form, Table, key};
use tamarisk_settings::values::text;
use tamarisk_settings::{Fault, Section, Value};

use super::values::file;

pub(super) static TOKEN: Table = Table {
    heading: "status_token",
    summary: "Where the token is stored: in a file or in an environment variable.",
    groups: &[&[
        key("file", Form::Text("path"), "file that holds the token, relative to this file"),
        key("env", Form::Text("name of a variable"), "environment variable that holds the token"),
    ]],
};

/// Where the token stands that allows changes; a file is relative to `folder`.
///
/// # Errors
/// A [`Fault`] if this does not say it.
pub(super) fn source(value: &Value<'_>, folder: &Path) -> Result<TokenSource, Fault> {
    let section = Section::new(value, &TOKEN)?;
    let path = |value| file(value, "token", folder);
    let variable = |value| text(value).map(str::to_owned);
    match (section.read("file", path)?, section.read("env", variable)?) {
        (Some(file), None) => Ok(TokenSource::File(file)),
        (None, Some(name)) if is_variable(&name) => Ok(TokenSource::Environment(name)),
        _ => {
            let message = "`status_token` needs exactly one of `file` and `env`";
            let expected = "expected `{ file = \"…\" }` or `{ env = \"…\" }`";
            Err(Fault::new(value.span(), message, expected))
        }
    }
}

/// Whether a variable of the environment can have this name.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}
