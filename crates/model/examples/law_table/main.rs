//! The tables of `docs/LAWS.md` and `docs/LAWS-TABLES.md`: every admission law of the catalogue in
//! every situation, simulated by the shipped code.
//! ```text
//! cargo run -p tamarisk-model --example law_table check             # a minute: compare the quick set
//! cargo run --release -p tamarisk-model --example law_table all     # up to two hours: run what is not known, write the pages
//! cargo run --release -p tamarisk-model --example law_table write   # write the pages from what is known
//! ```
//! Each situation is a file in `scenarios/`, so that `tamarisk sim compare` shows more of any of them.
//! The quick set, two seeds of the first minute from cold, is always run. Everything else is kept in
//! `target/law-table.txt`, so that a run can be interrupted, and runs again if what it depends on has
//! changed.

mod cache;
mod cell;
mod page;
mod row;
mod runs;
mod situation;
mod table;
mod timeline;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use self::cache::Cache;
use self::cell::Place;
use self::row::Row;
use self::runs::Job;
use self::situation::SITUATIONS;
use self::table::{Runs, Runsheet};
use self::timeline::Period;

type Failure = Box<dyn Error>;

/// Runs of each law in each situation.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;
/// A long run does so many of all laws before the rest, so that what is finished can be compared.
const SEEDS_FIRST: u64 = 10;
/// The steady state takes longest and differs least.
const STEADY_SEEDS_FIRST: u64 = 3;
/// A law with fewer runs of a first minute in some situation is not shown.
const KNOWN_SEEDS: usize = 3;
const QUICK_SEEDS: std::ops::RangeInclusive<u64> = 1..=2;

fn main() -> Result<(), Failure> {
    let places = SITUATIONS.iter().map(Place::new).collect::<Result<Vec<_>, _>>()?;
    let tables = Tables { places, rows: row::rows()? };
    match std::env::args().nth(1).as_deref() {
        Some("check") => tables.check(),
        Some("all") => {
            let quick = tables.quick()?;
            let mut cache = tables.cache()?;
            tables.complete(&quick, &mut cache)?;
            tables.write(&quick, &cache)
        }
        Some("write") => tables.write(&tables.quick()?, &tables.cache()?),
        _ => Err("expected `check`, `all` or `write`".into()),
    }
}

struct Tables {
    places: Vec<Place>,
    rows: Vec<Row>,
}

impl Tables {
    /// The quick set: for each situation the laws in the order of the rows.
    fn quick(&self) -> Result<Vec<Runsheet>, Failure> {
        let jobs: Vec<_> = self.jobs(&[Period::Cold], QUICK_SEEDS).collect();
        let mut finished = Vec::new();
        runs::run(&self.places, &self.rows, &jobs, |job, numbers| {
            finished.push((job, numbers));
            Ok(())
        })?;
        finished.sort_by_key(|(job, _)| job.seed);
        let mut sheets = self.no_runs();
        for (job, numbers) in finished {
            sheets[job.place][job.row][Period::Cold as usize].push(numbers);
        }
        Ok(sheets)
    }

    fn no_runs(&self) -> Vec<Runsheet> {
        vec![vec![Runs::default(); self.rows.len()]; self.places.len()]
    }

    /// Every run, seed by seed.
    fn jobs(
        &self,
        periods: &'static [Period],
        seeds: std::ops::RangeInclusive<u64>,
    ) -> impl Iterator<Item = Job> {
        let (places, rows) = (self.places.len(), self.rows.len());
        let of_seed = move |seed| {
            let places = (0..places).flat_map(move |place| (0..rows).map(move |row| (place, row)));
            places.flat_map(move |(place, row)| {
                periods.iter().map(move |&period| Job { place, row, period, seed })
            })
        };
        seeds.flat_map(of_seed)
    }

    fn cache(&self) -> Result<Cache, Failure> {
        let path = workspace().join("target/law-table.txt");
        Ok(Cache::open(&path)?)
    }

    fn key(&self, quick: &[Runsheet], job: &Job) -> u64 {
        let from_cold = &quick[job.place][job.row][Period::Cold as usize];
        self.places[job.place].key(&self.rows[job.row], job.period, from_cold)
    }

    /// Runs what is not known.
    fn complete(&self, quick: &[Runsheet], cache: &mut Cache) -> Result<(), Failure> {
        let mut jobs: Vec<_> = self.jobs(&Period::ALL, SEEDS).collect();
        jobs.retain(|job| cache.get(self.key(quick, job), job.seed).is_none());
        jobs.sort_by_key(|job| {
            let is_steady = job.period == Period::Steady;
            let first = if is_steady { STEADY_SEEDS_FIRST } else { SEEDS_FIRST };
            (job.seed > first, is_steady, self.rows[job.row].rank(), job.period, job.seed)
        });
        eprintln!("{} runs to be made", jobs.len());
        runs::run(&self.places, &self.rows, &jobs, |job, numbers| {
            let file = self.places[job.place].situation.file;
            let what = format!("{file}, {}, {}", self.rows[job.row].name(), job.period.name());
            Ok(cache.add((self.key(quick, &job), job.seed), numbers, &what)?)
        })
    }

    /// Whether the page's quick set is what the code does now.
    fn check(&self) -> Result<(), Failure> {
        let quick = table::quick(&self.rows, &SITUATIONS, &self.quick()?);
        let page = fs::read_to_string(tables_page())?;
        let differences = page::differences(page::section(&page, "quick")?, &quick);
        if differences.is_empty() {
            eprintln!("the quick set is what docs/LAWS-TABLES.md says");
            return Ok(());
        }
        differences.iter().for_each(|line| eprintln!("{line}"));
        Err("the quick set is not what docs/LAWS-TABLES.md says: if the laws are to act so, write the \
             pages anew by `cargo xtask tables --all`"
            .into())
    }

    fn write(&self, quick: &[Runsheet], cache: &Cache) -> Result<(), Failure> {
        let mut all = self.no_runs();
        for job in self.jobs(&Period::ALL, SEEDS) {
            if let Some(numbers) = cache.get(self.key(quick, &job), job.seed) {
                all[job.place][job.row][job.period as usize].push(numbers);
            }
        }
        let is_known = |&row: &usize| {
            all.iter().all(|sheet| {
                let [cold, after_calm, _] = &sheet[row];
                cold.len().min(after_calm.len()) >= KNOWN_SEEDS
            })
        };
        let known: Vec<usize> = (0..self.rows.len()).filter(is_known).collect();
        let rows: Vec<Row> = known.iter().map(|&row| self.rows[row]).collect();
        let all: Vec<Runsheet> = all
            .into_iter()
            .map(|sheet| known.iter().map(|&row| sheet[row].clone()).collect())
            .collect();
        let names = ["predict-gate-trim", "plain-queue"];
        let laws = workspace().join("docs/LAWS.md");
        let page = fs::read_to_string(&laws)?;
        let summary = table::summary(&rows, &SITUATIONS, &all);
        let page = page::with_section(&page, "summary", &summary)?;
        let best = table::beside_the_best(names, &rows, &SITUATIONS, &all);
        fs::write(laws, page::with_section(&page, "best", &best)?)?;

        let page = fs::read_to_string(tables_page())?;
        let quick = table::quick(&self.rows, &SITUATIONS, quick);
        let page = page::with_section(&page, "quick", &quick)?;
        let situations = SITUATIONS.iter().zip(&all);
        let situations: String =
            situations.map(|(it, runs)| table::situation(&rows, it, runs)).collect();
        fs::write(tables_page(), page::with_section(&page, "situations", &situations)?)?;
        Ok(())
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tables_page() -> PathBuf {
    workspace().join("docs/LAWS-TABLES.md")
}
