//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use crate::Failure;
use crate::families::Family;
use crate::page;
use crate::play::{Set, law};

pub(crate) const USAGE: &str = "\
Plays admission laws in situations drawn at random, and prints a table by family.

Usage: cargo run --release -p tamarisk-model --example random_situations -- [options]

  --laws LAW,…      of the catalogue; work-limit unless stated
  --family NAME,…   steady, steps, pause, crowd, slowdown, kinds, mixture, cores, light, parts,
                    parts-light; all unless stated
  --count N         situations of each family; 100 unless stated, 200 with --page
  --seed N          what they are drawn from; 1 unless stated
  --only N          the one with this number, as it stands in the table
  --folder DIR      where the scenario files of the worst go; target/random-situations unless stated
  --json            a line for each situation and law instead of the table
  --page            write docs/generated/RANDOM-SITUATIONS.md instead
  --help

Examples:
  … -- --count 1000 --seed 2                          # minutes
  … -- --family parts,slowdown --laws work-limit,gradient2
  … -- --family parts --only 17                       # one situation, and its scenario file
  tamarisk sim compare target/random-situations/parts-1-17.toml --laws work-limit,plain-queue
";

/// Situations of each family, unless stated: half a minute to some minutes in all.
const COUNT: u64 = 100;
/// For the page: a 5th percentile is the tenth worst then, and the laws of the page take minutes.
const PAGE_COUNT: u64 = 200;

/// What is to be printed or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
    Page,
    Help,
}

/// What the command line asks for.
pub(crate) struct Arguments {
    pub(crate) set: Set,
    pub(crate) folder: PathBuf,
    pub(crate) form: Form,
}

impl Arguments {
    /// # Errors
    /// If an option or a value is unknown, or options contradict each other.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut laws = None;
        let mut families = None;
        let mut count: Option<u64> = None;
        let mut only: Option<u64> = None;
        let mut seed = 1;
        let mut folder = PathBuf::from("target/random-situations");
        let mut form = Form::Table;
        let mut arguments = arguments.peekable();
        while let Some(option) = arguments.next() {
            let mut value = || {
                let value = arguments.next_if(|value| !value.starts_with("--"));
                value.ok_or_else(|| format!("{option} needs a value"))
            };
            match option.as_str() {
                "--laws" => laws = Some(list(&value()?, law)?),
                "--family" => families = Some(list(&value()?, family)?),
                "--count" => count = Some(number(&option, &value()?)?),
                "--only" => only = Some(number(&option, &value()?)?),
                "--seed" => seed = number(&option, &value()?)?,
                "--folder" => folder = value()?.into(),
                "--json" => form = Form::Json,
                "--page" => form = Form::Page,
                "--help" => form = Form::Help,
                _ => return Err(format!("no option {option:?}; see --help").into()),
            }
        }
        if form == Form::Page && (laws.is_some() || families.is_some() || only.is_some()) {
            return Err("the page has its own laws and all families: with --page, state --count \
                        and --seed alone"
                .into());
        }
        let numbers = match (only, count) {
            (Some(_), Some(_)) => return Err("state --count or --only, not both".into()),
            (None, Some(0)) => return Err("--count must be at least 1".into()),
            (Some(number), None) => number..number.saturating_add(1),
            (None, Some(count)) => 0..count,
            (None, None) => 0..if form == Form::Page { PAGE_COUNT } else { COUNT },
        };
        let laws = match laws {
            Some(laws) => laws,
            None if form == Form::Page => page::laws()?,
            None => vec![law("work-limit")?],
        };
        let families = families.unwrap_or_else(|| Family::ALL.to_vec());
        Ok(Self { set: Set { laws, families, numbers, seed }, folder, form })
    }
}

/// What `find` finds for each of the names; a repeated name counts once.
fn list<T>(names: &str, find: impl Fn(&str) -> Result<T, Failure>) -> Result<Vec<T>, Failure> {
    let mut different: Vec<_> = Vec::new();
    for name in names.split(',') {
        if !different.contains(&name) {
            different.push(name);
        }
    }
    different.into_iter().map(find).collect()
}

fn family(name: &str) -> Result<Family, Failure> {
    Family::named(name).ok_or_else(|| {
        let names = Family::ALL.map(Family::name);
        format!("no family {name:?}; there are {}", names.join(", ")).into()
    })
}

fn number<T: FromStr>(option: &str, value: &str) -> Result<T, Failure> {
    value.parse().map_err(|_| format!("{option} {value:?} is not a whole number").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        let words = line.split_whitespace().map(str::to_owned);
        Arguments::parse(words).map_err(|error| error.to_string())
    }

    fn error(line: &str) -> String {
        parse(line).err().unwrap()
    }

    #[test]
    fn one_situation_of_two_families_is_asked_for() {
        let asked = parse("--family parts,light,parts --only 17 --seed 3 --laws vegas").unwrap();
        assert_eq!(asked.set.families, [Family::Parts, Family::Light]);
        assert_eq!((asked.set.numbers, asked.set.seed), (17..18, 3));
        assert_eq!(asked.set.laws[0].name, "vegas");
        assert_eq!(asked.form, Form::Table);
    }

    #[test]
    fn without_options_it_is_a_hundred_of_each_family() {
        let asked = parse("").unwrap();
        assert_eq!((asked.set.numbers, asked.set.families.len()), (0..100, 11));
    }

    #[test]
    fn an_error_says_what_is_wrong() {
        assert_eq!(error("--count --json"), "--count needs a value");
        assert_eq!(error("--seed x"), "--seed \"x\" is not a whole number");
        assert_eq!(error("--count 0"), "--count must be at least 1");
        assert_eq!(error("--count 2 --only 2"), "state --count or --only, not both");
        assert_eq!(error("--families parts"), "no option \"--families\"; see --help");
        assert!(error("--family shards").starts_with("no family \"shards\"; there are steady, "));
        assert!(error("--laws vega").starts_with("no admission law \"vega\"; there are "));
        assert!(error("--page --laws vegas").starts_with("the page has its own laws"));
    }

    #[test]
    fn the_help_names_every_family() {
        let help = USAGE.split_once("--count").unwrap().0;
        assert!(Family::ALL.iter().all(|family| help.contains(family.name())));
    }
}
