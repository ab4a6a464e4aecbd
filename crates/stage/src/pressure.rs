//! Memory and CPU pressure, as the system reports them.
//!
//! Memory is judged against the limit of the control group that the process runs
//! in (version 2 or 1), CPU by the kernel's pressure stall information: the share
//! of time in which something that could run had to wait for a processor.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tamarisk_control::Ratio;

use crate::signal::{Level, Pressure, Signal, Signals};

/// How often the system is asked; its own averages move no faster.
const INTERVAL: Duration = Duration::from_secs(1);

/// When pressure counts as high. It counts as normal again a tenth below, so that
/// a resource at the edge does not signal every second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Share of the memory limit in use.
    pub memory: Ratio,
    /// Share of time in which something waited for a processor.
    pub cpu: Ratio,
}

impl Default for Thresholds {
    /// Nine tenths of the memory, because the last tenth can be gone in one
    /// burst; half of the time for CPU, because a busy service waits at times.
    fn default() -> Self {
        Self { memory: Ratio::saturating(0.9), cpu: Ratio::saturating(0.5) }
    }
}

/// Watches the system and signals whenever a level changes, for as long as its
/// task runs.
///
/// # Errors
/// [`NotAccounted`] if the system reports neither.
pub fn watch(
    signals: &Signals,
    thresholds: Thresholds,
) -> Result<tokio::task::JoinHandle<()>, NotAccounted> {
    let system = System::of(Path::new("/"));
    if system.memory().is_none() && system.cpu().is_none() {
        return Err(NotAccounted);
    }
    let signals = signals.clone();
    Ok(tokio::spawn(async move {
        let mut memory = Gauge::new(thresholds.memory);
        let mut cpu = Gauge::new(thresholds.cpu);
        let mut interval = tokio::time::interval(INTERVAL);
        loop {
            interval.tick().await;
            if let Some(pressure) = system.memory().and_then(|share| memory.changed(share)) {
                signals.send(Signal::Memory(pressure));
            }
            if let Some(pressure) = system.cpu().and_then(|share| cpu.changed(share)) {
                signals.send(Signal::Cpu(pressure));
            }
        }
    }))
}

/// The system has neither control groups nor pressure stall information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this system reports neither a memory limit nor CPU pressure")]
pub struct NotAccounted;

/// Where the accounts are.
struct System {
    memory: Option<(PathBuf, PathBuf)>,
    cpu: PathBuf,
}

impl System {
    fn of(root: &Path) -> Self {
        let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let mounted = root.join("sys/fs/cgroup");
        let memory = memory_files(&groups)
            .map(|(used, limit)| (mounted.join(used), mounted.join(limit)))
            .find(|(used, limit)| used.exists() && limit.exists());
        Self { memory, cpu: root.join("proc/pressure/cpu") }
    }

    /// The share of the limit in use; none where there is no limit.
    fn memory(&self) -> Option<Ratio> {
        let (used, limit) = self.memory.as_ref()?;
        share(&std::fs::read_to_string(used).ok()?, &std::fs::read_to_string(limit).ok()?)
    }

    fn cpu(&self) -> Option<Ratio> {
        some_avg10(&std::fs::read_to_string(&self.cpu).ok()?)
    }
}

/// Files of usage and limit, relative to where control groups are mounted: the
/// process's own group first, then the root, which is the own group as seen from
/// within a container.
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
        [path.as_str(), ""].map(|path| {
            let folder = Path::new(&controller).join(path);
            (folder.join(used), folder.join(limit))
        })
    })
}

fn share(used: &str, limit: &str) -> Option<Ratio> {
    /// What version 1 shows where no limit is set: the greatest number of pages.
    const UNLIMITED: f64 = 9e18;
    let limit: f64 = limit.trim().parse().ok()?;
    let used: f64 = used.trim().parse().ok()?;
    (limit > 0.0 && limit < UNLIMITED).then(|| Ratio::saturating(used / limit))
}

/// `some avg10=1.23 avg60=… total=…` → 0.0123
fn some_avg10(text: &str) -> Option<Ratio> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let avg10 = some.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
    avg10.parse::<f64>().ok().map(|percent| Ratio::saturating(percent / 100.0))
}

/// A resource's level, with hysteresis.
struct Gauge {
    high_from: Ratio,
    level: Level,
}

impl Gauge {
    fn new(high_from: Ratio) -> Self {
        Self { high_from, level: Level::Normal }
    }

    /// The pressure, if its level has changed.
    fn changed(&mut self, share: Ratio) -> Option<Pressure> {
        let level = match self.level {
            Level::Normal if share >= self.high_from => Level::High,
            Level::High if share.get() < 0.9 * self.high_from.get() => Level::Normal,
            same => same,
        };
        let changed = level != self.level;
        self.level = level;
        changed.then_some(Pressure { share, level })
    }
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
    fn no_limit_is_no_pressure() {
        assert_eq!(share("75", "max\n"), None);
        assert_eq!(share("75", "9223372036854771712"), None);
    }

    #[test]
    fn cpu_pressure_is_the_share_of_the_last_ten_seconds() {
        let text = "some avg10=12.50 avg60=0.69 avg300=0.41 total=1832333\n\
                    full avg10=99.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(some_avg10(text), Some(ratio(0.125)));
        assert_eq!(some_avg10("some avg10=many"), None);
        assert_eq!(some_avg10(""), None);
    }

    #[test]
    fn a_resource_at_the_edge_signals_once() {
        let mut gauge = Gauge::new(ratio(0.5));
        let levels = [0.4, 0.5, 0.49, 0.51, 0.46, 0.44, 0.46]
            .map(|share| gauge.changed(ratio(share)).map(|pressure| pressure.level));
        let expected = [None, Some(Level::High), None, None, None, Some(Level::Normal), None];
        assert_eq!(levels, expected);
    }
}
