//! The list of files, docs/generated/FILES.md: a line for each source file, taken from the first
//! sentence of the file; and whether the paths that ARCHITECTURE.md names are there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::tidy::{Tree, read};

const LIST: &str = "docs/generated/FILES.md";
const HEAD: &str = "# Every source file\n\
    Written by `cargo xtask map` from the first sentence of each file. \
    [ARCHITECTURE.md](../../ARCHITECTURE.md) says how they belong together.\n";
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Writes the list anew.
///
/// # Errors
/// If a file cannot be read or written, or does not say what it holds.
pub(crate) fn write(workspace: &Path) -> Result<()> {
    std::fs::write(workspace.join(LIST), list(&read(workspace)?)?).context(LIST)
}

/// Checks that the list is what the files say.
///
/// # Errors
/// If it is not, or if a file does not say what it holds, or ARCHITECTURE.md names a path that is
/// not there.
pub(crate) fn check(workspace: &Path) -> Result<()> {
    let page = |file| std::fs::read_to_string(workspace.join(file)).context(file);
    if page(LIST)? != list(&read(workspace)?)? {
        bail!("{LIST} is out of date: run `cargo xtask map`");
    }
    let architecture = page(ARCHITECTURE)?;
    let missing: Vec<_> =
        paths(&architecture).filter(|path| !workspace.join(path).exists()).collect();
    if !missing.is_empty() {
        bail!("{ARCHITECTURE} names what is not there: {}", missing.join(", "));
    }
    Ok(())
}

/// The paths from the root of the workspace that a page names.
fn paths(page: &str) -> impl Iterator<Item = &str> {
    let roots = ["bench/", "crates/", "docs/", "fuzz/", "services/", "xtask/"];
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter(move |text| roots.iter().any(|root| text.starts_with(root)))
}

/// A section for each crate, a line for each of its files.
fn list(tree: &Tree) -> Result<String> {
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in tree {
        if let Some((name, file)) = path.split_once("/src/")
            && !file.split('/').any(|part| part == "tests.rs" || part == "tests")
        {
            crates.entry(name).or_default().push((file, text));
        }
    }
    let (mut list, mut silent) = (HEAD.to_owned(), Vec::new());
    for (name, mut files) in crates {
        let _ = writeln!(list, "\n## {name}/src");
        files.sort_by_key(|(file, _)| order(file));
        for (file, text) in files {
            match first_sentence(text) {
                Some(sentence) => {
                    let _ = writeln!(list, "- `{file}`: {sentence}");
                }
                None => silent.push(format!("{name}/src/{file}")),
            }
        }
    }
    if !silent.is_empty() {
        bail!("files without a `//!` line that says what they hold:\n{}", silent.join("\n"));
    }
    Ok(list)
}

/// The root first, then files, then folders; in a folder the same.
fn order(file: &str) -> Vec<(u8, &str)> {
    let parts: Vec<&str> = file.split('/').collect();
    let last = parts.len() - 1;
    let rank = |(at, part)| match part {
        "lib.rs" | "main.rs" | "mod.rs" => (0, part),
        _ if at == last => (1, part),
        _ => (2, part),
    };
    parts.into_iter().enumerate().map(rank).collect()
}

/// Of the file's own documentation, in one line and without links.
fn first_sentence(text: &str) -> Option<String> {
    let lines = text.lines().take_while(|line| line.starts_with("//!"));
    let lines = lines.map(|line| line.trim_start_matches("//!").trim());
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = without_links(&paragraph.join(" "));
    let mut ends = paragraph.match_indices(". ").map(|(end, _)| end + 1);
    // What goes on with a small letter or a number is an abbreviation.
    let end = ends.find(|end| paragraph[end + 1..].starts_with(char::is_uppercase));
    let end = end.unwrap_or(paragraph.len());
    (end > 0).then(|| paragraph[..end].to_owned())
}

/// `text` with the words of its links, `[words](target)` or code in brackets, in place of them.
fn without_links(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, bracketed)) = rest.split_once('[') {
        let (words, after) = link(bracketed).unwrap_or(("[", bracketed));
        plain.extend([before, words]);
        rest = after;
    }
    plain.push_str(rest);
    plain
}

/// The words of the link whose bracket has just opened, and what follows it; `None` if it is none.
fn link(bracketed: &str) -> Option<(&str, &str)> {
    let (words, after) = bracketed.split_once(']')?;
    let target = after.strip_prefix('(').and_then(|target| target.split_once(')'));
    let is_code = words.starts_with('`') && words.ends_with('`');
    target.map(|(_, after)| (words, after)).or_else(|| is_code.then_some((words, after)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree;

    #[test]
    fn each_file_has_the_first_sentence_of_its_documentation() {
        let tree = tree(&[
            ("crates/a/src/lib.rs", "//! Stages (ch. 5), and\n//! their [`Queue`]s. More.\n"),
            ("crates/a/src/queue/mod.rs", "//! Queues.\n//!\n//! In detail.\n"),
            ("crates/a/src/sink.rs", "//! Ways in: a.b is none\n"),
            ("crates/a/src/queue/tests.rs", "use super::*;\n"),
            ("crates/a/tests/whole.rs", "use a;\n"),
        ]);
        assert_eq!(
            list(&tree).unwrap(),
            format!(
                "{HEAD}\n## crates/a/src\n- `lib.rs`: Stages (ch. 5), and their `Queue`s.\n\
             - `sink.rs`: Ways in: a.b is none\n- `queue/mod.rs`: Queues.\n"
            )
        );
    }

    #[test]
    fn links_are_written_as_their_words() {
        for (text, expected) in [
            ("a [log](Log), in [`Line`](crate::Line)s", "a log, in `Line`s"),
            ("[`Queue`]s [Welsh02 §5]", "`Queue`s [Welsh02 §5]"),
            ("of `[[routes]]` and [more", "of `[[routes]]` and [more"),
        ] {
            assert_eq!(without_links(text), expected);
        }
    }

    #[test]
    fn a_file_that_says_nothing_is_named() {
        let tree = tree(&[("b/src/lib.rs", "mod c;\n")]);
        assert!(list(&tree).unwrap_err().to_string().contains("b/src/lib.rs"));
    }

    #[test]
    fn paths_from_the_root_are_found() {
        let page = "See `crates/a/src/lib.rs`, then `lib.rs`, `a b` and `docs/A.md`.\n";
        assert_eq!(paths(page).collect::<Vec<_>>(), ["crates/a/src/lib.rs", "docs/A.md"]);
    }
}
