//! What is allowed although it should not be: a number for a check and a place, which only falls.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};

use super::{ALLOWED, Finding};

type Counts = BTreeMap<(String, String), usize>;

/// What is wrong: more than is allowed was found, or less.
pub(super) fn faults(findings: &[Finding], list: &str) -> Result<Vec<String>> {
    let mut allowed = parse(list)?;
    let mut faults = Vec::new();
    for finding in findings {
        let Finding { check, place, count, details } = finding;
        let at_most = allowed.remove(&(String::from(*check), place.clone())).unwrap_or(0);
        if *count > at_most {
            faults.push(format!("{check} in {place}: {count}, allowed {at_most}"));
            faults.extend(details.iter().map(|detail| format!("    {detail}")));
        } else if *count < at_most {
            faults.push(stale(check, place, *count, at_most));
        }
    }
    faults.extend(allowed.iter().map(|((check, place), at_most)| stale(check, place, 0, *at_most)));
    Ok(faults)
}

fn stale(check: &str, place: &str, count: usize, at_most: usize) -> String {
    format!(
        "{check} in {place}: {count}, but {ALLOWED} allows {at_most}: run `cargo xtask tidy --lower`"
    )
}

/// The list with what was found where that is less.
pub(super) fn lowered(findings: &[Finding], list: &str) -> Result<String> {
    let mut lowered: String =
        list.lines().filter(|line| line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
    for ((check, place), at_most) in parse(list)? {
        let is_same = |finding: &&Finding| finding.check == check && finding.place == place;
        let count = findings.iter().find(is_same).map_or(0, |finding| finding.count.min(at_most));
        if count > 0 {
            let _ = writeln!(lowered, "{check} {place} {count}");
        }
    }
    Ok(lowered)
}

fn parse(list: &str) -> Result<Counts> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.split(' ');
            let entry = (|| {
                let key = (parts.next()?.to_owned(), parts.next()?.to_owned());
                Some((key, parts.next()?.parse().ok()?))
            })();
            entry.with_context(|| format!("{ALLOWED}: {line:?} is not `check place number`"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(count: usize) -> [Finding; 1] {
        [Finding { check: "files", place: "a".into(), count, details: vec!["why".into()] }]
    }

    #[test]
    fn numbers_only_fall() {
        let list = "# Why.\nfiles a 22\n";
        assert!(faults(&found(22), list).unwrap().is_empty());
        assert_eq!(faults(&found(23), list).unwrap(), ["files in a: 23, allowed 22", "    why"]);
        assert!(faults(&found(21), list).unwrap()[0].contains("--lower"));
        assert!(faults(&[], list).unwrap()[0].contains("--lower"));
        assert_eq!(faults(&found(21), "").unwrap().len(), 2);
        assert!(faults(&[], "files a").is_err());
    }

    #[test]
    fn lowering_never_raises_and_forgets_what_is_done() {
        let list = "# Why.\nfiles a 22\nnames b 1\n";
        assert_eq!(lowered(&found(21), list).unwrap(), "# Why.\nfiles a 21\n");
        assert_eq!(lowered(&found(30), list).unwrap(), "# Why.\nfiles a 22\n");
    }
}
