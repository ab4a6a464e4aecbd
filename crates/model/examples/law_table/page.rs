//! The sections of the pages that are written by this example.

use std::collections::HashMap;

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

/// The cells of a line of a table.
pub(crate) fn row(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// What stands in tables in each row and column, by their titles; of several tables all.
pub(crate) fn cells(text: &str) -> HashMap<(String, String), Vec<&str>> {
    let mut cells: HashMap<_, Vec<&str>> = HashMap::new();
    let mut titles = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('|')).map(row) {
        let [title, values @ ..] = &line[..] else { continue };
        if *title == "law" {
            titles = values.to_vec();
        }
        for (column, value) in titles.iter().zip(values) {
            cells.entry(((*title).to_owned(), (*column).to_owned())).or_default().push(value);
        }
    }
    cells
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
    fn the_cells_of_all_tables_are_found() {
        let table = |one, other| {
            format!(
                "\n| law | a | b |\n| --- | --- | --- |\n| x | 1 | {one} |\n| y | 3 | {other} |\n"
            )
        };
        let text = table("2", "4") + &table("5", "6");
        let cells = cells(&text);
        let cell = |law: &str, of: &str| cells[&(law.to_owned(), of.to_owned())].clone();
        assert_eq!(
            (cell("x", "a"), cell("x", "b"), cell("y", "b")),
            (vec!["1", "1"], vec!["2", "5"], vec!["4", "6"])
        );
    }

    #[test]
    fn a_number_that_is_another_one_is_found() {
        let stated = section(PAGE, "quick").unwrap();
        assert!(differences(stated, stated).is_empty());
        let found = differences(stated, "| open | 0.2 |\n| codel | 0.3 |\n");
        assert_eq!(found, ["- | open | 0.1 |", "+ | open | 0.2 |", "+ | codel | 0.3 |"]);
    }
}
