//! A folder of files as a site: which file a path means, and reading it.

use std::fs::{File, Metadata};
use std::io::Read;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::HeaderValue;
use mime_guess::{Mime, mime};
use rustix::io::Errno;
use tamarisk_control::Timestamp;
use tamarisk_server::SentFile;

use crate::disk::compression::compressed;
use crate::disk::listing::OpenFolder;
use crate::disk::path::{HiddenFiles, SitePath};
use crate::disk::root::{FileError, Root};
use crate::page::condition::Validators;
use crate::page::encoding::Encoding;
use crate::page::page_file::{self, PageFile, PageFiles};
use crate::page::{Content, FileStamp, Form, Page, Stamp};

/// A site's files.
#[derive(Debug)]
pub(crate) struct Folder {
    /// No other one of the site has it, nor ever had.
    pub(crate) id: u32,
    pub(crate) root: Root,
    /// Which file stands for a folder: the first of these that it has.
    pub(crate) index: Vec<String>,
    /// Whether a folder without one is answered with a list of what is in it.
    pub(crate) listing: Listing,
    /// Whether names with a dot in front are in the list.
    pub(crate) hidden: HiddenFiles,
    /// Longer files are not held.
    pub(crate) held_max: u64,
    /// Whether long pages are sent as files, which pays where what is sent is what is in them.
    pub(crate) by_file: bool,
    /// Where in its host it is: what a list begins its heading with.
    pub(crate) place: String,
    /// Whether the kernel tells what it has of its files in memory, as far as is known.
    pub(crate) tells: AtomicBool,
}

/// What becomes of a folder without an index file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// It is not found.
    #[default]
    Off,
    /// It is answered with a list of its files.
    On,
}

/// What a path means.
#[derive(Debug)]
pub(crate) enum Located {
    Page(OpenPage),
    /// A folder, asked for without the slash at its end.
    Folder,
}

/// What a path means, as far as it takes no disk.
#[derive(Debug)]
pub(crate) enum AtOnce {
    Page(Arc<Page>),
    /// A folder, asked for without the slash at its end.
    Folder,
}

/// What a page can be made of.
#[derive(Debug)]
pub(crate) enum OpenPage {
    File(Box<OpenFile>),
    Folder(Box<OpenFolder>),
}

impl OpenPage {
    /// How much is to be read: unknown of a folder, which comes last.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::File(file) => file.plain.1.len(),
            Self::Folder(_) => u64::MAX,
        }
    }

    /// Whether it is the `known` one. What a folder's own stamp tells is not all that a list
    /// of it says.
    pub(crate) fn is_still(&self, known: Option<&Stamp>) -> bool {
        matches!(self, Self::File(file) if known == Some(&file.stamp()))
    }
}

/// A file that is open, and those beside it that are forms of it.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: SitePath,
    plain: (File, Metadata),
    encoded: [Option<(File, Metadata)>; 3],
}

impl OpenFile {
    fn all(&self) -> impl Iterator<Item = &(File, Metadata)> {
        iter::once(&self.plain).chain(self.encoded.iter().flatten())
    }

    fn stamp(&self) -> Stamp {
        let stamp = |(_, metadata): &(File, Metadata)| FileStamp::of(metadata);
        let encoded = self.encoded.each_ref().map(|file| file.as_ref().map(stamp));
        Stamp { plain: stamp(&self.plain), encoded }
    }
}

impl Folder {
    /// Whether the pages of `other` would be the same as those of this one.
    pub(crate) fn has_pages_of(&self, other: &Self) -> bool {
        let options =
            |folder: &Self| (folder.listing, folder.hidden, folder.held_max, folder.by_file);
        self.root.is_same(&other.root)
            && options(self) == options(other)
            && (&self.index, &self.place) == (&other.index, &other.place)
    }

    /// Finds and opens what `path` means.
    pub(crate) fn locate(&self, path: &SitePath) -> Result<Located, FileError> {
        let (file, metadata) = self.root.get(path)?;
        if !metadata.is_dir() {
            // `a.html/` is another place than `a.html`, and nothing is there.
            let is_file = !path.is_folder();
            return if is_file {
                Ok(self.with_forms(path, file, metadata))
            } else {
                Err(FileError::NotFound)
            };
        }
        if !path.is_folder() {
            return Ok(Located::Folder);
        }
        for name in &self.index {
            let index = path.join(name);
            match self.root.get(&index) {
                Ok((file, metadata)) if metadata.is_file() => {
                    return Ok(self.with_forms(&index, file, metadata));
                }
                Ok(_) | Err(FileError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        match self.listing {
            Listing::Off => Err(FileError::NotFound),
            Listing::On => {
                let folder = OpenFolder { path: path.clone(), file, metadata };
                Ok(Located::Page(OpenPage::Folder(Box::new(folder))))
            }
        }
    }

    fn with_forms(&self, path: &SitePath, file: File, metadata: Metadata) -> Located {
        let beside = |encoding: Encoding| {
            let form = self.root.get(&path.with_ending(encoding.ending())).ok()?;
            is_form_of(&metadata, &form.1).then_some(form)
        };
        let encoded = Encoding::ALL.map(beside);
        let file = OpenFile { path: path.clone(), plain: (file, metadata), encoded };
        Located::Page(OpenPage::File(Box::new(file)))
    }

    /// What `path` means, as far as the kernel knows from its caches of names and files; `None` if
    /// that takes a disk, or more than a little work.
    pub(crate) fn at_once(
        &self,
        path: &SitePath,
        files: &PageFiles,
        now: Timestamp,
    ) -> Option<Result<AtOnce, FileError>> {
        let (file, metadata) = match self.root.get_cached(path)? {
            Ok(found) => found,
            Err(error @ (FileError::NotFound | FileError::Forbidden)) => return Some(Err(error)),
            Err(FileError::Busy | FileError::Broken) => return None,
        };
        match (metadata.is_dir(), path.is_folder()) {
            (true, false) => Some(Ok(AtOnce::Folder)),
            (true, true) => self.is_empty_at_once(path).then_some(Err(FileError::NotFound)),
            (false, true) => Some(Err(FileError::NotFound)),
            (false, false) => self
                .page_at_once(path, (file, metadata), files, now)
                .map(|it| Ok(AtOnce::Page(Arc::new(it)))),
        }
    }

    /// Whether the kernel knows that nothing stands for the folder at `path`.
    fn is_empty_at_once(&self, path: &SitePath) -> bool {
        let is_missing =
            |name| matches!(self.root.get_cached(&path.join(name)), Some(Err(FileError::NotFound)));
        self.listing == Listing::Off && self.index.iter().all(is_missing)
    }

    /// The page of an open file, if it takes no disk and little work: the kernel has the file in its
    /// caches, as far as it is sent at first, and it is not to be compressed here.
    fn page_at_once(
        &self,
        path: &SitePath,
        (file, metadata): (File, Metadata),
        files: &PageFiles,
        now: Timestamp,
    ) -> Option<Page> {
        if !self.tells.load(Ordering::Relaxed) || is_text(&type_of(path)) {
            return None;
        }
        // Long ones that are not sent as files would be copied.
        let is_little = self.by_file || metadata.len() < page_file::LENGTH_MIN;
        if !metadata.is_file() || !is_little {
            return None;
        }
        let mut encoded = [None, None, None];
        for (encoding, form) in Encoding::ALL.into_iter().zip(&mut encoded) {
            let beside = self.root.get_cached(&path.with_ending(encoding.ending()))?.ok();
            *form = beside.filter(|(_, form)| is_form_of(&metadata, form));
        }
        let file = OpenFile { path: path.clone(), plain: (file, metadata), encoded };
        self.read(OpenPage::File(Box::new(file)), Disk::Spared, files, now).ok()
    }

    /// Whether the page at `path` is the `known` one, as far as the kernel can tell from its
    /// caches of names and files; what it cannot tell is not. Of a file system over a network it
    /// may ask the other side when it opens a file. Whether there are further forms of it now is
    /// looked at if that is `searched` for.
    pub(crate) fn is_at_once_still(&self, path: &SitePath, known: &Stamp, searched: bool) -> bool {
        let Some(Ok((_, metadata))) = self.root.get_cached(path) else { return false };
        let is_same = |encoding: Encoding, known: &Option<FileStamp>| {
            if known.is_none() && !searched {
                return true;
            }
            let beside = self.root.get_cached(&path.with_ending(encoding.ending()));
            let form = beside.map(|file| file.ok().filter(|(_, form)| is_form_of(&metadata, form)));
            form.is_some_and(|form| form.map(|(_, form)| FileStamp::of(&form)) == *known)
        };
        let mut encoded = Encoding::ALL.into_iter().zip(&known.encoded);
        metadata.is_file()
            && !path.is_folder()
            && FileStamp::of(&metadata) == known.plain
            && encoded.all(|(encoding, known)| is_same(encoding, known))
    }

    /// Reads a file, if it is to be held; lists a folder. Others are among the open `files`.
    pub(crate) fn read(
        &self,
        page: OpenPage,
        disk: Disk,
        files: &PageFiles,
        now: Timestamp,
    ) -> Result<Page, FileError> {
        let file = match page {
            OpenPage::File(file) => file,
            OpenPage::Folder(folder) => {
                return folder.page(&self.root, self.hidden, &self.place, now);
            }
        };
        let stamp = file.stamp();
        let name = type_of(&file.path);
        let content_type = match name.type_() == mime::TEXT {
            true => format!("{name}; charset=utf-8"),
            false => name.to_string(),
        };
        let content_type = HeaderValue::try_from(content_type).map_err(|_| FileError::Broken)?;
        let is_compressed = is_text(&name) && file.encoded.iter().all(Option::is_none);
        let longest = file.all().map(|(_, metadata)| metadata.len()).max().unwrap_or_default();
        let is_told_of = longest >= page_file::LENGTH_MIN
            && file.all().all(|(file, _)| page_file::is_told_of(file));
        // What is compressed here has to be held.
        let is_held = longest <= self.held_max && !(self.by_file && is_told_of && !is_compressed);
        let form = |(file, metadata): (File, Metadata), encoding| {
            let content = match is_held {
                true => Content::Held(match disk {
                    Disk::Asked => held(file, metadata.len())?,
                    Disk::Spared => self.held_at_once(&file, metadata.len())?,
                }),
                false => {
                    let file = PageFile::new(file, &metadata, is_told_of, files);
                    Content::File(begun(file.ok_or(FileError::Busy)?, disk)?)
                }
            };
            form(&metadata, encoding, content_type.clone(), content)
        };
        let plain = form(file.plain, None)?;
        let [brotli, zstd, gzip] = file.encoded;
        let encode =
            |file: Option<_>, encoding| file.map(|file| form(file, Some(encoding))).transpose();
        let mut encoded = [
            encode(brotli, Encoding::Brotli)?,
            encode(zstd, Encoding::Zstd)?,
            encode(gzip, Encoding::Gzip)?,
        ];
        if is_compressed {
            encoded[2] = compressed(&plain);
        }
        let sent = |form: Form| if self.by_file { form.in_memory() } else { form };
        Ok(Page::new(sent(plain), encoded.map(|form| form.map(sent)), stamp, now))
    }

    /// All of a short file of this length, which the kernel has in memory.
    fn held_at_once(&self, file: &File, length: u64) -> Result<Bytes, FileError> {
        if length >= page_file::LENGTH_MIN {
            return Err(FileError::Busy);
        }
        let mut bytes = vec![0; length as usize];
        let read = page_file::read_at_once(file, &mut bytes, 0);
        self.tells.fetch_and(read != Err(Errno::OPNOTSUPP), Ordering::Relaxed);
        if read == Ok(bytes.len()) { Ok(bytes.into()) } else { Err(FileError::Busy) }
    }
}

/// Whether what the kernel does not have in its caches is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Asked,
    /// Then there is no page.
    Spared,
}

/// All of a file of this length.
fn held(file: File, length: u64) -> Result<Bytes, FileError> {
    let mut bytes = Vec::with_capacity(length as usize);
    let read = file.take(length).read_to_end(&mut bytes);
    // A file that was cut meanwhile is another one the next time.
    if read.ok() != Some(length as usize) {
        return Err(FileError::Broken);
    }
    Ok(bytes.into())
}

/// Such a file, of which the kernel has read what is sent first.
fn begun(file: PageFile, disk: Disk) -> Result<Arc<PageFile>, FileError> {
    let is_there = !file.is_told_of() || file.begins_in_memory();
    let read = match disk {
        _ if is_there => Ok(()),
        Disk::Asked => file.touch(file.beginning()),
        Disk::Spared => return Err(FileError::Busy),
    };
    // A file that was cut meanwhile is another one the next time.
    read.and_then(|()| file.unchanged()).map_err(|_| FileError::Broken)?;
    Ok(Arc::new(file))
}

fn form(
    metadata: &Metadata,
    encoding: Option<Encoding>,
    content_type: HeaderValue,
    content: Content,
) -> Result<Form, FileError> {
    let modified = metadata.modified().map_err(|_| FileError::Broken)?;
    let tag = encoding.map_or(String::new(), |encoding| format!("-{}", encoding.name()));
    let validators = Validators::new(modified, metadata.len(), &tag);
    Ok(Form::new(encoding, content_type, validators, metadata.len(), content))
}

/// Whether the file of `form` is another form of the one of `plain`: one that is older was made of
/// another version of it.
fn is_form_of(plain: &Metadata, form: &Metadata) -> bool {
    let is_older = || Some(form.modified().ok()? < plain.modified().ok()?);
    form.is_file() && is_older() == Some(false)
}

/// What files with such a name are.
fn type_of(path: &SitePath) -> Mime {
    mime_guess::from_path(path.as_path()).first_or_octet_stream()
}

/// Whether files of this type are worth compressing.
fn is_text(name: &Mime) -> bool {
    const TEXTS: [&str; 8] = [
        "application/javascript",
        "application/json",
        "application/manifest+json",
        "application/wasm",
        "application/xhtml+xml",
        "application/xml",
        "image/svg+xml",
        "image/x-icon",
    ];
    name.type_() == mime::TEXT || TEXTS.contains(&name.essence_str())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{Advice, fadvise};

    use super::*;
    use crate::disk::files::Files;

    #[tokio::test]
    async fn a_file_whose_beginning_the_kernel_has_forgotten_is_read_from_there() {
        let files = Files::for_tests();
        let path = std::env::temp_dir().join(format!("tamarisk-begun-{}", std::process::id()));
        fs::write(&path, vec![7; 3_000_000]).unwrap();
        let file = File::open(&path).unwrap();
        if page_file::is_told_of(&file) {
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            let file = begun(files.open(&path), Disk::Asked).unwrap();
            assert!(file.begins_in_memory());
            let file = files.open(&path);
            fs::write(&path, "cut").unwrap();
            assert_eq!(begun(file, Disk::Asked).unwrap_err(), FileError::Broken);
        }
        fs::remove_file(&path).unwrap();
    }
}
