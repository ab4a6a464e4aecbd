//! The tables of `docs/LAWS.md` and `docs/generated/LAWS-TABLES.md`: every admission law of the catalogue in
//! every situation, simulated by the shipped code.
//! ```text
//! cargo run -p tamarisk-model --example law_table check             # a minute: compare the quick set
//! cargo run --release -p tamarisk-model --example law_table all     # run what has changed, write the pages
//! cargo run --release -p tamarisk-model --example law_table anew    # an hour: run everything
//! ```
//! Each situation is a file in `scenarios/`, so that `tamarisk sim compare` shows more of any of them.
//! The quick set, two seeds of the first minute from cold, is always run. What a law did in a
//! situation is taken from the page if its key there is that of now: the scenario, the constants, and
//! the quick set to the last bit. What is run is kept in `target/law-table.txt` too, so that it can
//! be interrupted.

mod cache;
mod cell;
mod known;
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
use self::cell::{Numbers, Place};
use self::known::{Known, OfPeriods};
use self::row::Row;
use self::runs::Job;
use self::situation::SITUATIONS;
use self::timeline::{Beginning, Period};

type Failure = Box<dyn Error>;

/// Runs of each law in each situation.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;
const QUICK_SEEDS: std::ops::RangeInclusive<u64> = 1..=2;

fn main() -> Result<(), Failure> {
    let places = SITUATIONS.iter().map(Place::new).collect::<Result<Vec<_>, _>>()?;
    let tables = Tables { places, rows: row::rows()? };
    match std::env::args().nth(1).as_deref() {
        Some("check") => tables.check(),
        Some("all") => tables.write(true),
        Some("anew") => tables.write(false),
        _ => Err("expected `check`, `all` or `anew`".into()),
    }
}

struct Tables {
    places: Vec<Place>,
    rows: Vec<Row>,
}

/// The runs of the first minute from cold: for each situation and law one for each quick seed.
type Quick = Vec<Vec<Vec<Numbers>>>;

impl Tables {
    fn quick(&self) -> Result<Quick, Failure> {
        let jobs: Vec<_> = self.jobs(&[Beginning::Cold], QUICK_SEEDS).collect();
        let mut finished = Vec::new();
        runs::run(&self.places, &self.rows, &jobs, |job, numbers| {
            finished.push((job, numbers));
            Ok(())
        })?;
        finished.sort_by_key(|(job, _)| job.seed);
        let mut quick = vec![vec![Vec::new(); self.rows.len()]; self.places.len()];
        for (job, numbers) in finished {
            quick[job.place][job.row].extend(numbers);
        }
        Ok(quick)
    }

    /// Every run, seed by seed.
    fn jobs(
        &self,
        beginnings: &'static [Beginning],
        seeds: std::ops::RangeInclusive<u64>,
    ) -> impl Iterator<Item = Job> {
        let (places, rows) = (self.places.len(), self.rows.len());
        let of_seed = move |seed| {
            let places = (0..places).flat_map(move |place| (0..rows).map(move |row| (place, row)));
            places.flat_map(move |(place, row)| {
                beginnings.iter().map(move |&beginning| Job { place, row, beginning, seed })
            })
        };
        seeds.flat_map(of_seed)
    }

    /// Under what a run's periods are kept.
    fn keys(&self, quick: &Quick, job: &Job) -> impl Iterator<Item = (Period, (u64, u64))> {
        let (place, row) = (&self.places[job.place], &self.rows[job.row]);
        let key = |&period| (period, place.key(row, period, &quick[job.place][job.row]));
        let seed = job.seed;
        let keys: Vec<_> = job.beginning.periods().iter().map(key).collect();
        keys.into_iter().map(move |(period, key)| (period, (key, seed)))
    }

    /// Whether the page's quick set is what the code does now.
    fn check(&self) -> Result<(), Failure> {
        let quick = table::quick(&self.rows, &SITUATIONS, &self.quick()?);
        let page = fs::read_to_string(tables_page())?;
        let differences = page::differences(page::section(&page, "quick")?, &quick);
        if differences.is_empty() {
            eprintln!("the quick set is what docs/generated/LAWS-TABLES.md says");
            return Ok(());
        }
        differences.iter().for_each(|line| eprintln!("{line}"));
        Err("the quick set is not what docs/generated/LAWS-TABLES.md says: if the laws are to act so, write the \
             pages anew by `cargo xtask tables --all`"
            .into())
    }

    /// Writes the pages; what has not changed is taken from them if `keep`.
    fn write(&self, keep: bool) -> Result<(), Failure> {
        let quick_runs = self.quick()?;
        let quick = table::quick(&self.rows, &SITUATIONS, &quick_runs);
        let page = fs::read_to_string(tables_page())?;
        let keys = self.keys_of_rows(&quick_runs);
        let known = if keep { self.unchanged(&page, &keys)? } else { self.nothing() };
        let all = self.complete(&quick_runs, known)?;

        let situations = SITUATIONS.iter().zip(&all);
        let situations: String =
            situations.map(|(it, sheet)| table::situation(&self.rows, it, sheet)).collect();
        let page = page::with_section(&page, "quick", &quick)?;
        let page = page::with_section(&page, "keys", &keys)?;
        fs::write(tables_page(), page::with_section(&page, "situations", &situations)?)?;

        let laws = workspace().join("docs/LAWS.md");
        let page = fs::read_to_string(&laws)?;
        let summary = table::summary(&self.rows, &SITUATIONS, &all);
        let page = page::with_section(&page, "summary", &summary)?;
        let names = ["predict-gate-trim", "plain-queue"];
        let best = table::beside_the_best(names, &self.rows, &SITUATIONS, &all);
        fs::write(laws, page::with_section(&page, "best", &best)?)?;
        Ok(())
    }

    fn nothing(&self) -> Vec<Vec<Option<OfPeriods>>> {
        vec![vec![None; self.rows.len()]; self.places.len()]
    }

    /// As the page has them: what each law's row in each situation depends on.
    fn keys_of_rows(&self, quick: &Quick) -> String {
        let of_place = |(place, quick): (&Place, &Vec<Vec<Numbers>>)| {
            let laws = self.rows.iter().zip(quick);
            laws.map(|(row, from_cold)| place.key(row, Period::Cold, from_cold)).collect()
        };
        let keys: Vec<_> = self.places.iter().zip(quick).map(of_place).collect();
        table::keys(&self.rows, &SITUATIONS, &keys)
    }

    /// What `page` says of each law in each situation, if its key there is the same as in `keys`.
    fn unchanged(&self, page: &str, keys: &str) -> Result<Vec<Vec<Option<OfPeriods>>>, Failure> {
        let (before, now) = (page::cells(page::section(page, "keys")?), page::cells(keys));
        let situations = page::section(page, "situations")?;
        let mut known = self.nothing();
        for (sheet, situation) in known.iter_mut().zip(&SITUATIONS) {
            for (of_law, row) in sheet.iter_mut().zip(&self.rows) {
                let cell = (row.name(), situation.file.to_owned());
                if before.get(&cell).is_some_and(|key| now.get(&cell) == Some(key)) {
                    *of_law = table::read(situations, row, situation)
                        .filter(|known| known.iter().all(|known| known.seeds == SEEDS.count()));
                }
            }
        }
        Ok(known)
    }

    /// What is known, and of the rest what runs come to.
    fn complete(
        &self,
        quick: &Quick,
        known: Vec<Vec<Option<OfPeriods>>>,
    ) -> Result<Vec<Vec<OfPeriods>>, Failure> {
        let mut cache = Cache::open(&workspace().join("target/law-table.txt"))?;
        let is_wanted = |job: &Job| known[job.place][job.row].is_none();
        let wanted: Vec<_> = self.jobs(&Beginning::ALL, SEEDS).filter(is_wanted).collect();
        let mut jobs = wanted.clone();
        jobs.retain(|job| self.keys(quick, job).any(|(_, key)| cache.get(key).is_none()));
        jobs.sort_by_key(|job| (self.rows[job.row].rank(), job.place, job.beginning, job.seed));
        eprintln!("{} runs to be made", jobs.len());
        runs::run(&self.places, &self.rows, &jobs, |job, numbers| {
            let (file, law) = (self.places[job.place].situation.file, self.rows[job.row].name());
            for ((period, key), numbers) in self.keys(quick, &job).zip(numbers) {
                cache.add(key, numbers, &format!("{file}, {law}, {}", period.name()))?;
            }
            Ok(())
        })?;

        let mut runs =
            vec![vec![<[Vec<Numbers>; 3]>::default(); self.rows.len()]; self.places.len()];
        for job in wanted {
            for (period, key) in self.keys(quick, &job) {
                let numbers = cache.get(key).ok_or("a run was lost")?;
                runs[job.place][job.row][period as usize].push(numbers);
            }
        }
        let of_place = |(known, runs): (Vec<Option<OfPeriods>>, Vec<[Vec<Numbers>; 3]>)| {
            let laws = known.into_iter().zip(runs);
            let of_law = |(known, runs): (Option<OfPeriods>, [Vec<Numbers>; 3])| {
                known.unwrap_or_else(|| runs.map(|runs| Known::of(&runs)))
            };
            laws.map(of_law).collect()
        };
        Ok(known.into_iter().zip(runs).map(of_place).collect())
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tables_page() -> PathBuf {
    workspace().join("docs/generated/LAWS-TABLES.md")
}
