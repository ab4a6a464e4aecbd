//! The process as the operating system sees it, under the names that Prometheus' own client
//! libraries use. Only Linux tells; elsewhere, and where `/proc` is not mounted, there is nothing.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// What the system knows of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Process {
    pub(crate) cpu_seconds: f64,
    pub(crate) threads: u64,
    /// Since the Unix epoch, if the time of the boot is known.
    pub(crate) started_seconds: Option<f64>,
    pub(crate) virtual_bytes: u64,
    pub(crate) resident_bytes: u64,
    pub(crate) open_files: Option<u64>,
    /// `None` if there is no limit.
    pub(crate) open_files_max: Option<u64>,
}

/// The units of `/proc/self/stat`.
#[derive(Clone, Copy)]
struct Units {
    ticks_per_second: u64,
    page_bytes: u64,
}

impl Process {
    /// This process now.
    pub(crate) fn read() -> Option<Self> {
        let units = Units {
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            page_bytes: rustix::param::page_size() as u64,
        };
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let booted = fs::read_to_string("/proc/stat").ok().and_then(|text| boot_seconds(&text));
        let process = Self::parse(&stat, booted, units)?;
        let open_files_max = getrlimit(Resource::Nofile).current;
        Some(Self { open_files: open_files(), open_files_max, ..process })
    }

    /// What `/proc/self/stat` says, on a system that was `booted` so many seconds after the
    /// epoch.
    fn parse(stat: &str, booted: Option<u64>, units: Units) -> Option<Self> {
        // The second field is the program's name, which may hold spaces and parentheses; `fields`
        // begins with the third.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let seconds = |ticks: u64| ticks as f64 / units.ticks_per_second as f64;
        Some(Self {
            cpu_seconds: seconds(field(14)? + field(15)?),
            threads: field(20)?,
            started_seconds: booted.zip(field(22)).map(|(boot, at)| boot as f64 + seconds(at)),
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * units.page_bytes,
            open_files: None,
            open_files_max: None,
        })
    }
}

fn boot_seconds(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Since Linux 6.2 the folder's length is the number of open files; before it is zero, and they
/// have to be counted, without the one that is opened to count them.
fn open_files() -> Option<u64> {
    let folder = "/proc/self/fd";
    match fs::metadata(folder).ok()?.len() {
        0 => Some((fs::read_dir(folder).ok()?.count() as u64).saturating_sub(1)),
        length => Some(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units { ticks_per_second: 100, page_bytes: 4096 };

    #[test]
    fn fields_are_found_behind_a_name_of_any_kind() {
        // `man 5 proc_pid_stat`: utime 14, stime 15, num_threads 20, starttime 22, vsize 23, rss 24.
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 500 0 3 0 250 50 0 0 20 0 7 0 12345 \
                    1048576 256 18446744073709551615 1 1";
        let expected = Process {
            cpu_seconds: 3.0,
            threads: 7,
            started_seconds: Some(1_000_123.45),
            virtual_bytes: 1_048_576,
            resident_bytes: 1_048_576,
            open_files: None,
            open_files_max: None,
        };
        assert_eq!(Process::parse(stat, Some(1_000_000), UNITS), Some(expected));
        let without_boot = Process::parse(stat, None, UNITS).unwrap();
        assert_eq!(without_boot.started_seconds, None);
    }

    #[test]
    fn what_is_cut_off_is_not_shown() {
        for stat in ["", "42 (a", "42 (a) S 1 42", "42 (a) S x y"] {
            assert_eq!(Process::parse(stat, None, UNITS), None, "{stat}");
        }
        assert_eq!(boot_seconds("cpu 1 2 3\nbtime 1700000000\nprocesses 9\n"), Some(1_700_000_000));
        assert_eq!(boot_seconds("cpu 1 2 3\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_seen() {
        let process = Process::read().unwrap();
        assert!(process.threads >= 1 && process.resident_bytes > 100_000);
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let more = Process::read().unwrap().open_files.unwrap();
        assert!(more >= files.len() as u64);
        assert!(process.started_seconds.unwrap() > 1e9, "{process:?}");
    }
}
