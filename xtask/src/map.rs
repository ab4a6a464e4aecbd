//! The map in ARCHITECTURE.md: a line for each source file, taken from the first sentence of the file;
//! and whether the paths that the page names are there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::tidy::{Tree, read};

const FILE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- Written by `cargo xtask map` from the first sentence of each file. -->\n";
const END: &str = "<!-- End of the map. -->\n";

/// Writes the map anew.
///
/// # Errors
/// If a file cannot be read or written, or does not say what it holds.
pub(crate) fn write(workspace: &Path) -> Result<()> {
    let (page, map) = both(workspace)?;
    std::fs::write(workspace.join(FILE), replaced(&page, &map)?).context(FILE)
}

/// Checks that the map is what the files say.
///
/// # Errors
/// If it is not, or if a file does not say what it holds.
pub(crate) fn check(workspace: &Path) -> Result<()> {
    let (page, map) = both(workspace)?;
    if replaced(&page, &map)? != page {
        bail!("the map in {FILE} is out of date: run `cargo xtask map`");
    }
    let missing: Vec<_> = paths(&page).filter(|path| !workspace.join(path).exists()).collect();
    if !missing.is_empty() {
        bail!("{FILE} names what is not there: {}", missing.join(", "));
    }
    Ok(())
}

/// The paths from the root of the workspace that a page names before its map.
fn paths(page: &str) -> impl Iterator<Item = &str> {
    let (page, _) = page.split_once(BEGIN).unwrap_or((page, ""));
    let roots = ["bench/", "crates/", "docs/", "fuzz/", "services/", "xtask/"];
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter(move |text| roots.iter().any(|root| text.starts_with(root)))
}

fn both(workspace: &Path) -> Result<(String, String)> {
    let page = std::fs::read_to_string(workspace.join(FILE)).context(FILE)?;
    Ok((page, map(&read(workspace)?)?))
}

/// `page` with `map` between the two marks.
fn replaced(page: &str, map: &str) -> Result<String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        rest.split_once(END).map(|(_, after)| format!("{before}{BEGIN}{map}{END}{after}"))
    });
    parts.with_context(|| format!("{FILE} has no place for the map: {BEGIN}{END}"))
}

/// A section for each crate, a line for each of its files.
fn map(tree: &Tree) -> Result<String> {
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in tree {
        if let Some((name, file)) = path.split_once("/src/")
            && !file.split('/').any(|part| part == "tests.rs" || part == "tests")
        {
            crates.entry(name).or_default().push((file, text));
        }
    }
    let (mut map, mut silent) = (String::new(), Vec::new());
    for (name, mut files) in crates {
        let _ = writeln!(map, "\n### {name}/src");
        files.sort_by_key(|(file, _)| order(file));
        for (file, text) in files {
            match first_sentence(text) {
                Some(sentence) => {
                    let _ = writeln!(map, "- `{file}`: {sentence}");
                }
                None => silent.push(format!("{name}/src/{file}")),
            }
        }
    }
    map.push('\n');
    if !silent.is_empty() {
        bail!("files without a `//!` line that says what they hold:\n{}", silent.join("\n"));
    }
    Ok(map)
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
            map(&tree).unwrap(),
            "\n### crates/a/src\n- `lib.rs`: Stages (ch. 5), and their `Queue`s.\n\
             - `sink.rs`: Ways in: a.b is none\n- `queue/mod.rs`: Queues.\n\n"
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
        assert!(map(&tree).unwrap_err().to_string().contains("b/src/lib.rs"));
    }

    #[test]
    fn paths_from_the_root_are_found() {
        let page = "See `crates/a/src/lib.rs`, then `lib.rs`, `a b` and `docs/A.md`.\n";
        let page = format!("{page}{BEGIN}- `fuzz/mod.rs`: in some crate.\n{END}");
        assert_eq!(paths(&page).collect::<Vec<_>>(), ["crates/a/src/lib.rs", "docs/A.md"]);
    }

    #[test]
    fn what_stands_around_the_map_stays() {
        let page = format!("# A\n{BEGIN}old\n{END}\n## B\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), format!("# A\n{BEGIN}new\n{END}\n## B\n"));
        assert!(replaced("# A\n", "new\n").is_err());
    }
}
