//! The tables, as Markdown.

use std::fmt::Write;

use crate::cell::Numbers;
use crate::known::{Column, Known, OfPeriods};
use crate::page;
use crate::row::Row;
use crate::situation::Situation;
use crate::timeline::Period;

fn goodput(of_law: &OfPeriods, period: Period) -> f64 {
    of_law[period as usize].mean(Column::Goodput)
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The greatest mean goodput of all laws, and whose it is.
fn best(sheet: &[OfPeriods], period: Period) -> (usize, f64) {
    let means = sheet.iter().map(|of_law| goodput(of_law, period)).enumerate();
    means.max_by(|one, other| one.1.total_cmp(&other.1)).expect("there are laws")
}

/// One line for each law: its goodput as a share of the best law's in the same situation and period.
pub(crate) fn summary(rows: &[Row], situations: &[Situation], all: &[Vec<OfPeriods>]) -> String {
    let mut text = String::from("| law |");
    for period in Period::ALL {
        let name = period.name();
        write!(text, " {name}: mean | least | in |").expect("a string grows");
    }
    text += " steady: over target, mean | rejected needlessly, most |\n|";
    text += &" --- |".repeat(3 * Period::ALL.len() + 3);
    text.push('\n');
    for (index, row) in rows.iter().enumerate() {
        write!(text, "| {} |", shown(row)).expect("a string grows");
        for period in Period::ALL {
            let share = |sheet: &Vec<OfPeriods>| {
                goodput(&sheet[index], period) / best(sheet, period).1.max(f64::MIN_POSITIVE)
            };
            let shares: Vec<f64> = all.iter().map(share).collect();
            let least = shares.iter().zip(situations).min_by(|one, other| one.0.total_cmp(other.0));
            let (least, situation) = least.expect("there are situations");
            let mean = mean_of(&shares);
            write!(text, " {mean:.2} | {least:.2} | {} |", situation.file).expect("a string grows");
        }
        let steady = |column| -> Vec<f64> {
            all.iter().map(|sheet| sheet[index][Period::Steady as usize].mean(column)).collect()
        };
        let over = mean_of(&steady(Column::Over));
        let most = steady(Column::Needless).into_iter().fold(0.0, f64::max);
        writeln!(text, " {over:.2} | {most:.2} |").expect("a string grows");
    }
    text
}

/// One line for each situation: the goodput of two laws beside the best of all.
pub(crate) fn beside_the_best(
    names: [&str; 2],
    rows: &[Row],
    situations: &[Situation],
    all: &[Vec<OfPeriods>],
) -> String {
    let mut text = String::from("| situation |");
    for period in Period::ALL {
        let [one, other] = names;
        write!(text, " {}: {one} | {other} | best | law |", period.name()).expect("a string grows");
    }
    text += "\n|";
    text += &" --- |".repeat(4 * Period::ALL.len() + 1);
    text.push('\n');
    let index = |name: &str| rows.iter().position(|row| row.name() == name).unwrap_or(0);
    for (situation, sheet) in situations.iter().zip(all) {
        write!(text, "| {} |", situation.file).expect("a string grows");
        for period in Period::ALL {
            let [one, other] = names.map(|name| goodput(&sheet[index(name)], period));
            let (law, best) = best(sheet, period);
            write!(text, " {one:.3} | {other:.3} | {best:.3} | {} |", rows[law].name())
                .expect("a string grows");
        }
        text.push('\n');
    }
    text
}

/// The titles of what is shown of a situation.
fn titles(situation: &Situation) -> Vec<&'static str> {
    let needless = if situation.bearable { "rejected or dropped" } else { "rejected needlessly" };
    let more = situation.more.map(|(title, _)| title);
    ["goodput", "over target", needless].into_iter().chain(more).collect()
}

fn heading(situation: &Situation) -> String {
    format!("\n### {}\n\n`scenarios/{}.toml`\n\n", situation.title, situation.file)
}

/// Everything of one situation.
pub(crate) fn situation(rows: &[Row], situation: &Situation, sheet: &[OfPeriods]) -> String {
    let mut text = heading(situation);
    let titles = titles(situation);
    text += "| law | seeds |";
    for title in &titles {
        for period in Period::ALL {
            write!(text, " {title}, {} |", period.name()).expect("a string grows");
        }
    }
    text += "\n|";
    text += &" --- |".repeat(Period::ALL.len() * titles.len() + 2);
    text.push('\n');
    for (row, of_law) in rows.iter().zip(sheet) {
        let seeds = of_law.each_ref().map(|known| known.seeds.to_string());
        write!(text, "| {} | {} |", shown(row), seeds.join(", ")).expect("a string grows");
        for column in &Column::ALL[..titles.len()] {
            for known in of_law {
                write!(text, " {} |", known.spread(*column)).expect("a string grows");
            }
        }
        text.push('\n');
    }
    text
}

/// What `text`, which has [`situation`] of every one, says of one law in one of them.
pub(crate) fn read(text: &str, row: &Row, situation: &Situation) -> Option<OfPeriods> {
    let (_, table) = text.split_once(&heading(situation))?;
    let mut lines = table.lines().take_while(|line| line.starts_with('|')).map(page::row);
    let cells = lines.find(|cells| cells.first() == Some(&&*shown(row)))?;
    let seeds: Vec<_> = cells.get(1)?.split(", ").collect();
    let columns: Vec<_> = cells[2..].chunks_exact(Period::ALL.len()).collect();
    if (seeds.len(), columns.len()) != (Period::ALL.len(), titles(situation).len()) {
        return None;
    }
    let of_period = |period: usize| {
        let cells: Vec<_> = columns.iter().map(|column| column[period]).collect();
        Known::read(seeds[period], &cells)
    };
    Some([of_period(0)?, of_period(1)?, of_period(2)?])
}

/// The goodput and the time over the target of each law in each situation, from cold.
pub(crate) fn quick(rows: &[Row], situations: &[Situation], all: &[Vec<Vec<Numbers>>]) -> String {
    let mut text = String::new();
    for (title, column) in [("Goodput", Column::Goodput), ("Time over target", Column::Over)] {
        write!(text, "\n{title}:\n\n| law |").expect("a string grows");
        situations.iter().for_each(|it| write!(text, " {} |", it.file).expect("a string grows"));
        text += "\n|";
        text += &" --- |".repeat(situations.len() + 1);
        text.push('\n');
        for (index, row) in rows.iter().enumerate() {
            write!(text, "| {} |", row.name()).expect("a string grows");
            for sheet in all {
                let values: Vec<f64> = sheet[index].iter().map(|run| column.of(run)).collect();
                write!(text, " {:.3} |", mean_of(&values)).expect("a string grows");
            }
            text.push('\n');
        }
    }
    text.push('\n');
    text
}

/// The key of each law in each situation.
pub(crate) fn keys(rows: &[Row], situations: &[Situation], keys: &[Vec<u64>]) -> String {
    let mut text = String::from("| law |");
    situations.iter().for_each(|it| write!(text, " {} |", it.file).expect("a string grows"));
    text += "\n|";
    text += &" --- |".repeat(situations.len() + 1);
    text.push('\n');
    for (index, row) in rows.iter().enumerate() {
        write!(text, "| {} |", row.name()).expect("a string grows");
        for of_place in keys {
            write!(text, " {:016x} |", of_place[index]).expect("a string grows");
        }
        text.push('\n');
    }
    text
}

fn shown(row: &Row) -> String {
    let name = row.name();
    if row.is_default() { format!("**{name}**") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::rows;
    use crate::situation::SITUATIONS;

    fn known(goodput: f64) -> Known {
        Known::of(&[0.0, 0.2].map(|part| Numbers {
            goodput: goodput + part - 0.1,
            over: part,
            needless: 0.0,
            more: goodput,
        }))
    }

    #[test]
    fn each_period_has_its_best() {
        let sheet = [[0.1, 0.5, 0.7].map(known), [0.2, 0.4, 0.8].map(known)];
        let best = Period::ALL.map(|period| best(&sheet, period));
        assert_eq!(best.map(|(law, _)| law), [1, 0, 1]);
        assert!((best[2].1 - 0.8).abs() < 1e-9);
    }

    #[test]
    fn what_is_read_from_a_page_is_what_was_written() {
        let rows = rows().unwrap();
        // With a column of its own, and without.
        let two =
            ["weights", "calm"].map(|file| SITUATIONS.iter().find(|it| it.file == file).unwrap());
        let sheet: Vec<OfPeriods> = (0..rows.len())
            .map(|law| [0.5, 0.6, 0.7].map(|period| known(period + law as f64)))
            .collect();
        let text: String = two.iter().map(|it| situation(&rows, it, &sheet)).collect();
        for of in two {
            let again: Vec<OfPeriods> =
                rows.iter().map(|row| read(&text, row, of).unwrap()).collect();
            assert!(text.contains(&situation(&rows, of, &again)));
        }
        assert_eq!(read(&text, &rows[0], &SITUATIONS[0]), None);
        assert_eq!(read(&text.replace("| 2, 2, 2 |", "| 2, 2 |"), &rows[0], two[0]), None);
    }
}
