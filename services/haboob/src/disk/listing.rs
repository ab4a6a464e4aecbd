//! Folder listings.

use std::ffi::CStr;
use std::fmt::Write;
use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use tamarisk_control::Timestamp;
use tamarisk_observe::date::Civil;

use crate::disk::compression::compressed;
use crate::disk::path::{HiddenFiles, SitePath};
use crate::disk::root::{FileError, Root};
use crate::page::condition::Validators;
use crate::page::{Content, FileStamp, Form, Page, Stamp};

/// More than people read, and a page of a megabyte or two.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// All that has a meaning in a URL or in HTML is escaped.
const LINK: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.25rem;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}\
th{text-align:left;font-weight:600;border-bottom:1px solid #8888}\
td,th{padding:.2rem .75rem .2rem 0}\
td:first-child{width:100%;overflow-wrap:anywhere}\
td:nth-child(n+2),th:nth-child(n+2){text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
a{text-decoration:none}a:hover{text-decoration:underline}";

/// A folder that is open.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    pub(crate) path: SitePath,
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
}

/// What is in a folder.
struct Item {
    name: Vec<u8>,
    is_folder: bool,
    length: u64,
    modified: SystemTime,
}

impl OpenFolder {
    /// The page that lists what is in the folder and would be served: files and folders, also
    /// those that links beneath `root` lead to, in the order of their names. In its host, `root`
    /// is at `place`.
    pub(crate) fn page(
        self,
        root: &Root,
        hidden: HiddenFiles,
        place: &str,
        now: Timestamp,
    ) -> Result<Page, FileError> {
        let Self { path, file, metadata } = self;
        let (mut items, are_all) = items(root, hidden, &path, file)?;
        items.sort_by_cached_key(|item| (!item.is_folder, item.name.to_ascii_lowercase()));
        let html =
            page(&heading(place, &path), !path.as_path().as_os_str().is_empty(), &items, are_all);

        let of_folder = metadata.modified().map_err(|_| FileError::Broken)?;
        let modified = items.iter().map(|item| item.modified).fold(of_folder, SystemTime::max);
        let mut hasher = DefaultHasher::new();
        html.hash(&mut hasher);
        let length = html.len() as u64;
        let content_type = HeaderValue::from_static("text/html; charset=utf-8");
        let content = Content::Held(html.into());
        // Files in it may change in a second, and the length of the page stay.
        let tag = format!("-{:x}", hasher.finish());
        let validators = Validators::new(modified, length, &tag);
        let plain = Form::new(None, content_type, validators, length, content);
        let encoded = [None, None, compressed(&plain)];
        let stamp = Stamp { plain: FileStamp::of(&metadata), encoded: [None; 3] };
        Ok(Page::new(plain, encoded, stamp, now))
    }
}

/// What is in the folder, and whether that is all.
fn items(
    root: &Root,
    hidden: HiddenFiles,
    path: &SitePath,
    folder: File,
) -> Result<(Vec<Item>, bool), FileError> {
    let mut items = Vec::new();
    let mut entries = Dir::new(folder).map_err(FileError::of)?;
    while let Some(entry) = entries.read() {
        let entry = entry.map_err(FileError::of)?;
        let name = entry.file_name();
        let is_hidden = name.to_bytes().starts_with(b".");
        let is_self = matches!(name.to_bytes(), b"." | b"..");
        if is_self || (is_hidden && hidden == HiddenFiles::Hidden) {
            continue;
        }
        if items.len() == ENTRIES_MAX {
            return Ok((items, false));
        }
        items.extend(item(root, path, &entries, name));
    }
    Ok((items, true))
}

/// `None` for what would not be served, or is gone already.
fn item(root: &Root, path: &SitePath, folder: &Dir, name: &CStr) -> Option<Item> {
    let seen = statat(folder.fd().ok()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let name = name.to_bytes().to_owned();
    let (kind, length, seconds) = match FileType::from_raw_mode(seen.st_mode) {
        FileType::Symlink => {
            let (_, metadata) = root.get(&path.join(&name)).ok()?;
            let kind = if metadata.is_dir() { FileType::Directory } else { FileType::RegularFile };
            (kind, metadata.len(), metadata.mtime())
        }
        kind => (kind, u64::try_from(seen.st_size).unwrap_or_default(), seen.st_mtime as i64),
    };
    let is_folder = match kind {
        FileType::Directory => true,
        FileType::RegularFile => false,
        _ => return None,
    };
    let modified = UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    Some(Item { name, is_folder, length, modified })
}

/// The folder as its address names it.
fn heading(place: &str, path: &SitePath) -> String {
    let place = place.trim_end_matches('/');
    let below = path.as_path().to_string_lossy();
    if below.is_empty() { format!("{place}/") } else { format!("{place}/{below}/") }
}

fn page(heading: &str, has_parent: bool, items: &[Item], are_all: bool) -> String {
    let heading = Escaped(heading);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{heading}</title>\n<style>{STYLE}</style>\n<h1>{heading}</h1>\n\
         <table>\n<tr><th>Name<th>Size<th>Changed (UTC)\n"
    );
    if has_parent {
        html.push_str("<tr><td><a href=\"../\">../</a><td><td>\n");
    }
    for item in items {
        // Writing to a string does not fail.
        let _ = writeln!(html, "{item}");
    }
    html.push_str("</table>\n");
    match (items.is_empty(), are_all) {
        (true, _) => html.push_str("<p>This folder is empty.\n"),
        (false, true) => {}
        (false, false) => {
            let _ = writeln!(html, "<p>There is more: these are {ENTRIES_MAX} of its entries.");
        }
    }
    html
}

impl std::fmt::Display for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Civil { year, month, day, hour, minute, .. } = Civil::of(self.modified);
        let slash = if self.is_folder { "/" } else { "" };
        let link = percent_encode(&self.name, LINK);
        let text = String::from_utf8_lossy(&self.name);
        write!(f, "<tr><td><a href=\"{link}{slash}\">{}{slash}</a><td>", Escaped(&text))?;
        if !self.is_folder {
            write!(f, "{}", Size(self.length))?;
        }
        write!(f, "<td>{year}-{month:02}-{day:02} {hour:02}:{minute:02}")
    }
}

/// Text for HTML.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other if other.is_control() => f.write_char(char::REPLACEMENT_CHARACTER)?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// Bytes as people read them.
struct Size(u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut size = self.0 as f64;
        for unit in ["B", "KiB", "MiB", "GiB"] {
            if size < 1000.0 {
                let digits = usize::from(unit != "B" && size < 99.5);
                return write!(f, "{size:.digits$} {unit}");
            }
            size /= 1024.0;
        }
        write!(f, "{size:.1} TiB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_nothing_else() {
        let name = b"<b>\"&'\n\xff.txt".to_vec();
        let modified = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let item = Item { name, is_folder: false, length: 1536, modified };
        let expected = "<tr><td><a href=\"%3Cb%3E%22%26%27%0A%FF.txt\">\
            &lt;b&gt;&quot;&amp;&#39;\u{fffd}\u{fffd}.txt</a><td>1.5 KiB<td>2001-09-09 01:46";
        assert_eq!(item.to_string(), expected);
    }

    #[test]
    fn sizes_have_two_or_three_digits() {
        for (bytes, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KiB"),
            (100 << 10, "100 KiB"),
            (5 << 20, "5.0 MiB"),
            (3 << 40, "3.0 TiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), expected);
        }
    }
}
