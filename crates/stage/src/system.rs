//! Memory, descriptors and CPU pressure, as the system reports them.
//!
//! Memory is judged against the limits of the control group (version 2 or 1) that the process runs
//! in, and of those around it, whichever is used up most, or else against the machine's. What the
//! kernel would give back at once, pages of files that nobody uses, is not in use.

use std::fs;
use std::path::{Path, PathBuf};

use tamarisk_control::Ratio;

/// What version 1 shows where no limit is set: the greatest number of pages.
const UNLIMITED: f64 = 9e18;

/// Where the accounts are.
pub(crate) struct System {
    /// Files of usage and limit, of the control group and of those around it.
    memory: Vec<(PathBuf, PathBuf)>,
    proc: PathBuf,
}

impl System {
    /// The one that this process runs on.
    pub(crate) fn own() -> Self {
        Self::of(Path::new("/"))
    }

    fn of(root: &Path) -> Self {
        let proc = root.join("proc");
        let groups = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
        let mounted = root.join("sys/fs/cgroup");
        let memory = memory_files(&groups)
            .map(|(used, limit)| (mounted.join(used), mounted.join(limit)))
            .filter(|(used, limit)| used.exists() && limit.exists());
        Self { memory: memory.collect(), proc }
    }

    /// The share of the groups' limits in use, the greatest; where there is none, of the machine's
    /// memory.
    pub(crate) fn memory(&self) -> Option<Ratio> {
        let of_groups = self.memory.iter().filter_map(memory_of_group);
        of_groups.reduce(|most, share| if share > most { share } else { most }).or_else(|| {
            let info = fs::read_to_string(self.proc.join("meminfo")).ok()?;
            let free = field(&info, "MemAvailable:")? / field(&info, "MemTotal:")?;
            Some(Ratio::saturating(1.0 - free))
        })
    }

    /// The least of the groups' limits and of the machine's memory, in bytes.
    pub(crate) fn memory_limit(&self) -> Option<u64> {
        let of_groups = self.memory.iter().filter_map(|(_, limit)| {
            let limit = fs::read_to_string(limit).ok()?.trim().parse().ok()?;
            (limit > 0.0 && limit < UNLIMITED).then_some(limit)
        });
        let info = fs::read_to_string(self.proc.join("meminfo")).unwrap_or_default();
        let of_machine = field(&info, "MemTotal:").map(|kibibytes| 1024.0 * kibibytes);
        of_groups.chain(of_machine).reduce(f64::min).map(|bytes| bytes as u64)
    }

    /// The share of the descriptors that this process may open, and has.
    pub(crate) fn descriptors(&self) -> Option<Ratio> {
        let limits = fs::read_to_string(self.proc.join("self/limits")).ok()?;
        let limit = field(&limits, "Max open files").filter(|limit| *limit > 0.0)?;
        // Since Linux 6.2 the folder's length is their number; before it is zero.
        let folder = self.proc.join("self/fd");
        let open = match fs::metadata(&folder).ok()?.len() {
            0 => fs::read_dir(&folder).ok()?.count() as u64,
            length => length,
        };
        Some(Ratio::saturating(open as f64 / limit))
    }

    /// The share of time in which something waited for a processor.
    pub(crate) fn cpu_pressure(&self) -> Option<Ratio> {
        some_avg10(&fs::read_to_string(self.proc.join("pressure/cpu")).ok()?)
    }
}

/// The share of a group's limit in use, if it has one.
fn memory_of_group((used, limit): &(PathBuf, PathBuf)) -> Option<Ratio> {
    let stat = fs::read_to_string(used.with_file_name("memory.stat")).unwrap_or_default();
    let idle = field(&stat, "total_inactive_file").or_else(|| field(&stat, "inactive_file"));
    let (used, limit) = (fs::read_to_string(used).ok()?, fs::read_to_string(limit).ok()?);
    share(&used, idle.unwrap_or(0.0), &limit)
}

/// The number behind `name` at the beginning of a line.
fn field(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Files of usage and limit, relative to where control groups are mounted: of the
/// process's own group and of each around it, up to the root, which is the own group as seen
/// from within a container.
fn memory_files(groups: &str) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let group_of = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let path = path.trim_start_matches('/').to_owned();
        match controllers {
            "" => Some((String::new(), path, "memory.current", "memory.max")),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                let files = ("memory.usage_in_bytes", "memory.limit_in_bytes");
                Some(("memory".to_owned(), path, files.0, files.1))
            }
            _ => None,
        }
    };
    let groups: Vec<_> = groups.lines().filter_map(group_of).collect();
    groups.into_iter().flat_map(|(controller, path, used, limit)| {
        let folders = Path::new(&path).ancestors().map(|group| Path::new(&controller).join(group));
        let folders: Vec<_> = folders.collect();
        folders.into_iter().map(move |folder| (folder.join(used), folder.join(limit)))
    })
}

/// `used` without what is `idle`, as a share of `limit`.
fn share(used: &str, idle: f64, limit: &str) -> Option<Ratio> {
    let limit: f64 = limit.trim().parse().ok()?;
    let used: f64 = used.trim().parse().ok()?;
    (limit > 0.0 && limit < UNLIMITED).then(|| Ratio::saturating((used - idle) / limit))
}

/// `some avg10=1.23 avg60=… total=…` → 0.0123
fn some_avg10(text: &str) -> Option<Ratio> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let avg10 = some.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
    avg10.parse::<f64>().ok().map(|percent| Ratio::saturating(percent / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64) -> Ratio {
        Ratio::new(value).unwrap()
    }

    /// A folder that looks like a system's root, removed afterwards.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("tamarisk-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn memory_of_a_version_2_group_is_read_from_the_process_s_own_group() {
        let root = Root::new(
            "v2",
            &[
                ("proc/self/cgroup", "0::/app.slice/web.service\n"),
                ("sys/fs/cgroup/app.slice/web.service/memory.current", "75\n"),
                ("sys/fs/cgroup/app.slice/web.service/memory.max", "100\n"),
            ],
        );
        assert_eq!(System::of(&root.0).memory(), Some(ratio(0.75)));
        let stat = "anon 40\nactive_file 10\ninactive_file 25\n";
        fs::write(root.0.join("sys/fs/cgroup/app.slice/web.service/memory.stat"), stat).unwrap();
        assert_eq!(System::of(&root.0).memory(), Some(ratio(0.5)), "pages of files are given back");
    }

    #[test]
    fn within_a_container_the_own_group_is_the_root() {
        let root = Root::new(
            "container",
            &[
                ("proc/self/cgroup", "9:cpu:/x\n4:memory:/docker/abc\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "10\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "40\n"),
            ],
        );
        assert_eq!(System::of(&root.0).memory(), Some(ratio(0.25)));
    }

    #[test]
    fn the_limit_of_a_group_around_the_own_one_holds_too() {
        let root = Root::new(
            "around",
            &[
                ("proc/self/cgroup", "0::/a.slice/b\n"),
                ("sys/fs/cgroup/a.slice/memory.current", "80\n"),
                ("sys/fs/cgroup/a.slice/memory.max", "100\n"),
                ("sys/fs/cgroup/a.slice/b/memory.current", "20\n"),
                ("sys/fs/cgroup/a.slice/b/memory.max", "max\n"),
            ],
        );
        assert_eq!(System::of(&root.0).memory(), Some(ratio(0.8)));
        let own = root.0.join("sys/fs/cgroup/a.slice/b/memory.max");
        fs::write(&own, "40\n").unwrap();
        assert_eq!(System::of(&root.0).memory(), Some(ratio(0.8)));
        fs::write(&own, "22\n").unwrap();
        assert_eq!(System::of(&root.0).memory(), Some(ratio(20.0 / 22.0)), "the tightest");
        assert_eq!(System::of(&root.0).memory_limit(), Some(22));
    }

    #[test]
    fn without_a_limit_it_is_the_memory_of_the_machine() {
        assert_eq!(share("75", 0.0, "max\n"), None);
        assert_eq!(share("75", 0.0, "9223372036854771712"), None);
        let info =
            "MemTotal:         1000 kB\nMemFree:           100 kB\nMemAvailable:      400 kB\n";
        let root = Root::new("machine", &[("proc/meminfo", info)]);
        assert_eq!(System::of(&root.0).memory(), Some(ratio(0.6)));
        assert_eq!(System::of(&root.0).memory_limit(), Some(1000 * 1024));
    }

    #[test]
    fn descriptors_are_those_open_of_those_that_may_be() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max processes             10                   20                   processes\n\
                      Max open files            8                    4096                 files\n";
        let files = [("proc/self/limits", limits), ("proc/self/fd/0", ""), ("proc/self/fd/1", "")];
        let root = Root::new("descriptors", &files);
        // An ordinary folder has a length of its own, which is no number of files.
        let length = fs::metadata(root.0.join("proc/self/fd")).unwrap().len();
        let expected = if length == 0 { 2.0 } else { length as f64 } / 8.0;
        assert_eq!(System::of(&root.0).descriptors(), Some(Ratio::saturating(expected)));
        assert_eq!(System::of(Path::new("/nowhere")).descriptors(), None);
    }

    #[test]
    fn cpu_pressure_is_the_share_of_the_last_ten_seconds() {
        let text = "some avg10=12.50 avg60=0.69 avg300=0.41 total=1832333\n\
                    full avg10=99.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(some_avg10(text), Some(ratio(0.125)));
        assert_eq!(some_avg10("some avg10=many"), None);
        assert_eq!(some_avg10(""), None);
    }
}
