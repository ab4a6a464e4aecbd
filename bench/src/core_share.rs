//! Processes that together have a part of a core, as containers have: so that they are the
//! bottleneck where the load generator has no more than a core either.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const GROUPS: &str = "/sys/fs/cgroup";

/// In which the part is given: short against response times, long against what it costs the kernel.
const PERIOD_MICROS: u32 = 10_000;

/// A control group, which ends with this value; its processes must have ended before.
pub struct CoreShare(PathBuf);

impl CoreShare {
    /// A group that has `share` of one core.
    ///
    /// # Errors
    /// If the system has no control groups, or they are not ours to make.
    pub fn new(name: &str, share: f64) -> Result<Self> {
        let name = format!("{name}-{}", std::process::id());
        let quota = (share * f64::from(PERIOD_MICROS)).round();
        let is_unified = Path::new(GROUPS).join("cgroup.controllers").exists();
        let (folder, limits) = if is_unified {
            fs::write(Path::new(GROUPS).join("cgroup.subtree_control"), "+cpu")
                .context("control groups cannot be given parts of a core; are you root?")?;
            let limit = ("cpu.max", format!("{quota} {PERIOD_MICROS}"));
            (Path::new(GROUPS).join(name), vec![limit])
        } else {
            let period = ("cpu.cfs_period_us", PERIOD_MICROS.to_string());
            let quota = ("cpu.cfs_quota_us", quota.to_string());
            (Path::new(GROUPS).join("cpu").join(name), vec![period, quota])
        };
        let shown = folder.display().to_string();
        fs::create_dir(&folder)
            .with_context(|| format!("{shown} cannot be made; are you root?"))?;
        let group = Self(folder);
        for (file, limit) in limits {
            let path = group.0.join(file);
            fs::write(&path, limit).with_context(|| format!("{} is rejected", path.display()))?;
        }
        Ok(group)
    }

    /// From now on the process belongs to the group, with all its threads.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn add(&self, process: u32) -> Result<()> {
        let path = self.0.join("cgroup.procs");
        fs::write(&path, process.to_string())
            .with_context(|| format!("{} is rejected", path.display()))
    }
}

impl Drop for CoreShare {
    fn drop(&mut self) {
        // An empty group takes next to nothing.
        let _ = fs::remove_dir(&self.0);
    }
}
