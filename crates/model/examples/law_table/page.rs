//! The sections of the pages that are written by this example.

use crate::Failure;

/// The text of the section `name` of `page`.
///
/// # Errors
/// If the page has no such section.
pub(crate) fn section<'a>(page: &'a str, name: &str) -> Result<&'a str, Failure> {
    let (begin, end) = marks(name);
    let rest = page.split_once(&begin).map(|(_, rest)| rest);
    let section = rest.and_then(|rest| rest.split_once(&end)).map(|(section, _)| section);
    section.ok_or_else(|| format!("no section between {begin:?} and {end:?}").into())
}

/// `page` with another text in that section.
///
/// # Errors
/// If the page has no such section.
pub(crate) fn with_section(page: &str, name: &str, text: &str) -> Result<String, Failure> {
    let (begin, end) = marks(name);
    let old = format!("{begin}{}{end}", section(page, name)?);
    Ok(page.replace(&old, &format!("{begin}{text}{end}")))
}

fn marks(name: &str) -> (String, String) {
    (
        format!("<!-- {name}: written by `cargo xtask tables --all` -->\n"),
        format!("<!-- end of {name} -->"),
    )
}

/// The lines in which `stated` and `measured` differ: as the page has them after a minus, and as
/// they are now after a plus.
pub(crate) fn differences(stated: &str, measured: &str) -> Vec<String> {
    let missing = |lines: &str, from: &str, sign| -> Vec<String> {
        let others: Vec<_> = from.lines().collect();
        let differing = lines.lines().filter(|line| !others.contains(line));
        differing.map(|line| format!("{sign} {line}")).collect()
    };
    let mut differences = missing(stated, measured, '-');
    differences.extend(missing(measured, stated, '+'));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Laws\n<!-- quick: written by `cargo xtask tables --all` -->\n| open | 0.1 |\n\
                        <!-- end of quick -->\nMore.\n";

    #[test]
    fn a_section_is_replaced_and_the_rest_stays() {
        let page = with_section(PAGE, "quick", "| open | 0.2 |\n").unwrap();
        assert_eq!(page, PAGE.replace("0.1", "0.2"));
        assert_eq!(section(&page, "quick").unwrap(), "| open | 0.2 |\n");
        assert!(with_section(PAGE, "slow", "").is_err());
    }

    #[test]
    fn a_number_that_is_another_one_is_found() {
        let stated = section(PAGE, "quick").unwrap();
        assert!(differences(stated, stated).is_empty());
        let found = differences(stated, "| open | 0.2 |\n| codel | 0.3 |\n");
        assert_eq!(found, ["- | open | 0.1 |", "+ | open | 0.2 |", "+ | codel | 0.3 |"]);
    }
}
