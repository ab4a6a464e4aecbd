//! The tables, as Markdown.

use std::fmt::Write;

use tamarisk_model::sim::Estimate;

use crate::cell::Numbers;
use crate::row::Row;
use crate::situation::Situation;
use crate::timeline::Period;

/// All runs of a law in a situation: of each period one for each seed.
pub(crate) type Runs = [Vec<Numbers>; Period::ALL.len()];

type Value = fn(&Numbers) -> f64;

const GOODPUT: Value = |numbers| numbers.goodput;
const OVER: Value = |numbers| numbers.over;
const NEEDLESS: Value = |numbers| numbers.needless;
const MORE: Value = |numbers| numbers.more;

fn values(runs: &Runs, period: Period, value: Value) -> Vec<f64> {
    runs[period as usize].iter().map(value).collect()
}

/// Not a number if there are no runs.
fn mean(runs: &Runs, period: Period, value: Value) -> f64 {
    mean_of(&values(runs, period, value))
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The rows of one situation, in the order of the rows.
pub(crate) type Runsheet = Vec<Runs>;

/// The greatest mean goodput of all laws, and whose it is.
fn best(runs: &[Runs], period: Period) -> (usize, f64) {
    let means = runs.iter().map(|runs| mean(runs, period, GOODPUT)).enumerate();
    means
        .filter(|(_, mean)| mean.is_finite())
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .unwrap_or((0, 0.0))
}

/// One line for each law: its goodput as a share of the best law's in the same situation and period.
pub(crate) fn summary(rows: &[Row], situations: &[Situation], all: &[Runsheet]) -> String {
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
            let share = |runs: &Runsheet| {
                mean(&runs[index], period, GOODPUT) / best(runs, period).1.max(f64::MIN_POSITIVE)
            };
            let shares: Vec<f64> = all.iter().map(share).collect();
            let mean = number(mean_of(&shares), 2);
            let least = shares.iter().enumerate().min_by(|one, other| one.1.total_cmp(other.1));
            let least = least.filter(|_| shares.iter().all(|share| share.is_finite()));
            let (file, least) =
                least.map_or(("–", f64::NAN), |(place, &least)| (situations[place].file, least));
            write!(text, " {mean} | {} | {file} |", number(least, 2)).expect("a string grows");
        }
        let steady = |value| -> Vec<f64> {
            all.iter().map(|runs| mean(&runs[index], Period::Steady, value)).collect()
        };
        let over = number(mean_of(&steady(OVER)), 2);
        let most = steady(NEEDLESS).into_iter().max_by(f64::total_cmp).unwrap_or(f64::NAN);
        write!(text, " {over} | {} |", number(most, 2)).expect("a string grows");
        text.push('\n');
    }
    text
}

/// One line for each situation: the goodput of two laws beside the best of all.
pub(crate) fn beside_the_best(
    names: [&str; 2],
    rows: &[Row],
    situations: &[Situation],
    all: &[Runsheet],
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
    for (situation, runs) in situations.iter().zip(all) {
        write!(text, "| {} |", situation.file).expect("a string grows");
        for period in Period::ALL {
            let [one, other] = names.map(|name| mean(&runs[index(name)], period, GOODPUT));
            let (law, best) = best(runs, period);
            let [one, other, best] = [one, other, best].map(|value| number(value, 3));
            write!(text, " {one} | {other} | {best} | {} |", rows[law].name())
                .expect("a string grows");
        }
        text.push('\n');
    }
    text
}

/// Everything of one situation.
pub(crate) fn situation(rows: &[Row], situation: &Situation, runs: &[Runs]) -> String {
    let mut text = format!("\n### {}\n\n`scenarios/{}.toml`\n\n", situation.title, situation.file);
    let needless = if situation.bearable { "rejected or dropped" } else { "rejected needlessly" };
    let mut columns = vec![("goodput", GOODPUT, Worst::Least), ("over target", OVER, Worst::Most)];
    columns.push((needless, NEEDLESS, Worst::Most));
    columns.extend(situation.more.map(|(title, _)| (title, MORE, Worst::Least)));
    text += "| law | seeds |";
    for (title, ..) in &columns {
        for period in Period::ALL {
            write!(text, " {title}, {} |", period.name()).expect("a string grows");
        }
    }
    text += "\n|";
    text += &" --- |".repeat(3 * columns.len() + 2);
    text.push('\n');
    for (row, runs) in rows.iter().zip(runs) {
        write!(
            text,
            "| {} | {} |",
            shown(row),
            runs.each_ref().map(Vec::len).map(|n| n.to_string()).join(", ")
        )
        .expect("a string grows");
        for &(_, value, worst) in &columns {
            for period in Period::ALL {
                write!(text, " {} |", spread(&values(runs, period, value), worst))
                    .expect("a string grows");
            }
        }
        text.push('\n');
    }
    text
}

/// The goodput and the time over the target of each law in each situation, from cold.
pub(crate) fn quick(rows: &[Row], situations: &[Situation], all: &[Runsheet]) -> String {
    let mut text = String::new();
    for (title, value) in [("Goodput", GOODPUT), ("Time over target", OVER)] {
        write!(text, "\n{title}:\n\n| law |").expect("a string grows");
        situations.iter().for_each(|it| write!(text, " {} |", it.file).expect("a string grows"));
        text += "\n|";
        text += &" --- |".repeat(situations.len() + 1);
        text.push('\n');
        for (index, row) in rows.iter().enumerate() {
            write!(text, "| {} |", row.name()).expect("a string grows");
            for runs in all {
                write!(text, " {:.3} |", mean(&runs[index], Period::Cold, value))
                    .expect("a string grows");
            }
            text.push('\n');
        }
    }
    text.push('\n');
    text
}

/// With so many digits after the point; a dash for what is not a number.
fn number(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "–".to_owned() }
}

fn shown(row: &Row) -> String {
    let name = row.name();
    if row.is_default() { format!("**{name}**") } else { name }
}

#[derive(Clone, Copy)]
enum Worst {
    Least,
    Most,
}

/// The mean with its 95 % interval, and the worst in brackets; a bare 0 if all are.
fn spread(values: &[f64], worst: Worst) -> String {
    let Some(estimate) = Estimate::of(values, 0.95) else { return "–".to_owned() };
    let worst = match worst {
        Worst::Least => values.iter().copied().fold(f64::INFINITY, f64::min),
        Worst::Most => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    };
    if estimate.mean == 0.0 && worst == 0.0 {
        return "0".to_owned();
    }
    format!("{:.3} ± {:.3} ({worst:.3})", estimate.mean, estimate.half_width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_mean_interval_and_worst() {
        // s = 1, n = 3, t(0.975; 2) = 4.3027: the half width is 4.3027 ÷ √3.
        assert_eq!(spread(&[1.0, 2.0, 3.0], Worst::Least), "2.000 ± 2.484 (1.000)");
        assert_eq!(spread(&[1.0, 2.0, 3.0], Worst::Most), "2.000 ± 2.484 (3.000)");
        assert_eq!(spread(&[0.0; 3], Worst::Most), "0");
        assert_eq!(spread(&[1.0], Worst::Most), "–");
    }

    #[test]
    fn each_period_has_its_window() {
        let numbers = |goodput| Numbers { goodput, over: 0.0, needless: 0.0, more: 0.0 };
        let runs = [[0.1, 0.3], [0.4, 0.6], [0.5, 0.9]].map(|values| values.map(numbers).to_vec());
        let means = Period::ALL.map(|period| mean(&runs, period, GOODPUT));
        assert_eq!(means, [0.2, 0.5, 0.7]);
        assert_eq!(best(&[Runs::default(), runs], Period::Steady), (1, 0.7));
        assert_eq!(number(mean(&Runs::default(), Period::Steady, GOODPUT), 2), "–");
    }
}
