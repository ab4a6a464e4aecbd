//! The compiler: a page and what it includes become one program, every part of which knows its
//! file and line.

mod indentation;
mod tags;

use serde::Serialize;
use serde::ser::SerializeTuple;

use crate::root::{Fingerprint, ReadError, Root};
use crate::site_path::SitePath;
use tags::{Stretch, TagError, stretches};

/// The largest file; a page of more is data, and belongs elsewhere.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Files that a page may consist of, counted as often as they are included.
const FILES_MAX: usize = 64;
/// Bytes that a page may have with all that it includes.
const PROGRAM_BYTES_MAX: usize = 4 << 20;
/// Whatever is included more deeply includes itself.
const DEPTH_MAX: usize = 16;

/// A page as it is sent to a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Program {
    /// The page's file and those that it includes.
    files: Vec<String>,
    parts: Vec<ProgramPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ProgramPart {
    kind: &'static str,
    file: usize,
    line: u32,
    text: String,
}

impl Serialize for ProgramPart {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(4)?;
        tuple.serialize_element(self.kind)?;
        tuple.serialize_element(&self.file)?;
        tuple.serialize_element(&self.line)?;
        tuple.serialize_element(&self.text)?;
        tuple.end()
    }
}

/// An error in a page, found when it was compiled or while it ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}{}", trace_text(.trace))]
pub struct PageError {
    /// The file, below the site's folder.
    pub file: String,
    /// The line in this file, from 1; 0 where it is not known.
    pub line: u32,
    /// What is wrong; of Python's errors, Python's own words.
    pub message: String,
    /// The calls that led to it, outermost first.
    pub trace: Vec<String>,
}

fn trace_text(trace: &[String]) -> String {
    match trace {
        [] | [_] => String::new(),
        calls => format!(" (called from {})", calls.join(", ")),
    }
}

/// What compiling a page came to, and the files that it depends on.
pub(crate) struct Compiled {
    pub(crate) program: Result<Program, PageError>,
    /// A file that is missing is one that the page depends on too.
    pub(crate) sources: Vec<(SitePath, Option<Fingerprint>)>,
}

/// Compiles the page in this file.
pub(crate) fn compile(root: &Root, page: &SitePath) -> Compiled {
    let mut compiler =
        Compiler { root, program: Program::default(), bytes: 0, sources: Vec::new() };
    let ended = compiler.file(page, None, &mut Vec::new());
    Compiled { program: ended.map(|()| compiler.program), sources: compiler.sources }
}

struct Compiler<'r> {
    root: &'r Root,
    program: Program,
    bytes: usize,
    sources: Vec<(SitePath, Option<Fingerprint>)>,
}

impl Compiler<'_> {
    /// Takes in a file, which `included_at` includes.
    fn file(
        &mut self,
        path: &SitePath,
        included_at: Option<(&SitePath, u32)>,
        open: &mut Vec<SitePath>,
    ) -> Result<(), PageError> {
        let here = |message: String| {
            let (file, line) = included_at.unwrap_or((path, 1));
            error(file, line, message)
        };
        if open.contains(path) {
            return Err(here(format!("{path} includes itself")));
        }
        if open.len() >= DEPTH_MAX {
            return Err(here(format!("more than {DEPTH_MAX} files include one another")));
        }
        if self.program.files.len() >= FILES_MAX {
            return Err(here(format!("the page includes more than {FILES_MAX} files")));
        }
        let read = self.root.read(path, FILE_BYTES_MAX);
        let fingerprint = read.as_ref().ok().map(|(_, fingerprint)| *fingerprint);
        self.sources.push((path.clone(), fingerprint));
        let text = match read {
            Ok((bytes, _)) => String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))?,
            Err(ReadError::NotFound) => return Err(here(format!("there is no file {path}"))),
            Err(unreadable) => return Err(here(format!("{path}: {unreadable}"))),
        };
        self.bytes += text.len();
        if self.bytes > PROGRAM_BYTES_MAX {
            let message = format!("the page is larger than {PROGRAM_BYTES_MAX} bytes");
            return Err(here(message));
        }
        let file = self.program.files.len();
        self.program.files.push(path.to_string());
        open.push(path.clone());
        let found =
            stretches(&text).map_err(|TagError { line, message }| error(path, line, message))?;
        for (line, stretch) in found {
            let (kind, text) = match stretch {
                Stretch::Html(text) => ("html", text),
                Stretch::Block(text) => ("block", text),
                Stretch::Value(text) => ("value", text),
                Stretch::Include(name) => {
                    let included =
                        included(path, &name).map_err(|message| error(path, line, message))?;
                    self.file(&included, Some((path, line)), open)?;
                    continue;
                }
            };
            self.program.parts.push(ProgramPart { kind, file, line, text });
        }
        open.pop();
        Ok(())
    }
}

/// The file that `page` includes by this name.
fn included(page: &SitePath, name: &str) -> Result<SitePath, String> {
    let path = page.sibling(name).ok_or_else(|| format!("{name} is outside of the site"))?;
    if !path.is_include() {
        return Err(format!("{name} cannot be included: give it a name that ends with .pyh"));
    }
    Ok(path)
}

fn error(file: &SitePath, line: u32, message: String) -> PageError {
    PageError { file: file.to_string(), line, message, trace: Vec::new() }
}

fn not_utf8(path: &SitePath, wrong: &std::string::FromUtf8Error) -> PageError {
    let before = &wrong.as_bytes()[..wrong.utf8_error().valid_up_to()];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let line = u32::try_from(line).unwrap_or(u32::MAX);
    error(path, line, "a byte here is not UTF-8: save the file as UTF-8".to_owned())
}
