//! Single values: what each may be, and how it is written.

use std::path::{Path, PathBuf};

use http::StatusCode;
use tamarisk_service::settings::Disk;
use tamarisk_settings::values::{number, parsed, text};
use tamarisk_settings::{Fault, Value};

use crate::disk::folder::Listing;
use crate::disk::path::{HiddenFiles, SitePath};
use crate::disk::root::Root;
use crate::site::host::HostName;

/// Where a file stands, and whether what it names must be there.
#[derive(Clone, Copy)]
pub(super) struct FileContext<'a> {
    pub(super) folder: &'a Path,
    pub(super) disk: Disk,
}

impl FileContext<'_> {
    /// A folder, relative to that of the file.
    pub(super) fn root(self, value: &Value<'_>) -> Result<PathBuf, Fault> {
        let path = parsed(value, "a folder such as \"public\"", |text| self.path(text))?;
        if self.disk == Disk::Asked
            && let Err(error) = Root::open(&path)
        {
            let message = format!("cannot open {}: {error}", path.display());
            let fault = Fault::new(value.span(), message, "expected a readable folder");
            return Err(fault.help("a path is relative to the folder of this file"));
        }
        Ok(path)
    }

    fn path(self, text: &str) -> Option<PathBuf> {
        (!text.is_empty() && !text.contains('\0')).then(|| self.folder.join(text))
    }

    /// A page in `root`.
    pub(super) fn page(self, value: &Value<'_>, root: &Path) -> Result<SitePath, Fault> {
        let expected = "a page in the root of this host, such as \"404.html\"";
        let page = parsed(value, expected, |text| {
            let path = format!("/{}", text.trim_start_matches('/').replace('%', "%25"));
            SitePath::of(&path, HiddenFiles::Served).ok().filter(|path| !path.is_folder())
        })?;
        if self.disk == Disk::Asked && !root.join(page.as_path()).is_file() {
            let message = format!("page not found: {}", root.join(page.as_path()).display());
            return Err(Fault::new(value.span(), message, format!("expected {expected}")));
        }
        Ok(page)
    }
}

pub(super) fn host_name(value: &Value<'_>) -> Result<HostName, Fault> {
    let expected = "a host name without a port, such as \"example.org\" or \"*.example.org\"";
    parsed(value, expected, HostName::of)
}

/// The name of a file, and no path.
pub(super) fn file_name(value: &Value<'_>) -> Result<String, Fault> {
    parsed(value, "the name of a file, such as \"index.html\"", |text| {
        let is_name = !matches!(text, "" | "." | "..") && !text.contains(['/', '\0']);
        is_name.then(|| text.to_owned())
    })
}

pub(super) fn listing(value: &Value<'_>) -> Result<Listing, Fault> {
    let on = tamarisk_settings::values::yes(value)?;
    Ok(if on { Listing::On } else { Listing::Off })
}

pub(super) fn hidden(value: &Value<'_>) -> Result<HiddenFiles, Fault> {
    let served = tamarisk_settings::values::yes(value)?;
    Ok(if served { HiddenFiles::Served } else { HiddenFiles::Hidden })
}

/// The status of a redirect.
pub(super) fn redirect_status(value: &Value<'_>) -> Result<StatusCode, Fault> {
    let expected = "301 or 308 (permanent), 302 or 307 (temporary)";
    let number = number(value, expected, 999)?;
    [301, 302, 307, 308]
        .into_iter()
        .find(|status| u64::from(*status) == number)
        .and_then(|status| StatusCode::from_u16(status).ok())
        .ok_or_else(|| {
            let message = format!("{number} is not a redirect status");
            Fault::new(value.span(), message, format!("expected {expected}"))
        })
}

/// Where a redirect leads to.
pub(super) fn redirect_target(value: &Value<'_>) -> Result<String, Fault> {
    let text = text(value)?;
    let is_path = text.starts_with('/') && !text.starts_with("//");
    let is_url = text.starts_with("https://") || text.starts_with("http://");
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let parses = text.parse::<http::Uri>().is_ok();
    if (is_path || is_url) && is_plain && parses {
        return Ok(text.to_owned());
    }
    let message = format!("{text:?} is invalid");
    let expected = "expected a path such as \"/new/\", or a URL such as \"https://example.org/\"";
    Err(Fault::new(value.span(), message, expected))
}
