//! One run: an address, and a folder with its configuration, logs and data.
//!
//! Data goes as soon as the run ends. Logs stay for the last runs. What a killed rig left is swept by the next one:
//! each run holds a file lock, and a folder whose lock is free has no owner.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};

use crate::address::Address;
use crate::workspace;

/// Folders of ended runs that are kept for reading their logs.
const RUNS_KEPT: usize = 40;

/// A run's place on disk and on the loopback network.
#[derive(Debug)]
pub struct Run {
    pub address: Address,
    directory: PathBuf,
    _lock: Flock<File>,
}

impl Run {
    /// Makes a folder named after `label` and takes an address.
    ///
    /// # Errors
    /// When the folder cannot be made or no address is free.
    pub fn start(label: &str) -> Result<Self> {
        static RUNS: AtomicU32 = AtomicU32::new(1);
        let runs = workspace::runs_dir()?;
        fs::create_dir_all(&runs).with_context(|| format!("cannot create {}", runs.display()))?;
        sweep(&runs);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let directory = runs.join(format!("{label}-{}-{number}", std::process::id()));
        if directory.exists() {
            // A former process of the same id.
            fs::remove_dir_all(&directory)
                .with_context(|| format!("cannot clear {}", directory.display()))?;
        }
        for part in ["conf", "logs", "data"] {
            let path = directory.join(part);
            fs::create_dir_all(&path)
                .with_context(|| format!("cannot create {}", path.display()))?;
        }
        let lock = crate::jars::lock(&directory.join("lock"))?;
        active().push(directory.clone());
        Ok(Self {
            address: Address::reserve()?,
            directory,
            _lock: lock,
        })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn conf(&self, file: &str) -> PathBuf {
        self.directory.join("conf").join(file)
    }

    pub fn log(&self, file: &str) -> PathBuf {
        self.directory.join("logs").join(file)
    }

    pub fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }

    pub fn data(&self, part: &str) -> PathBuf {
        self.directory.join("data").join(part)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        fs::remove_dir_all(self.directory.join("data")).ok();
        active().retain(|directory| *directory != self.directory);
    }
}

/// Removes the data of all runs of this process; for the end of an interrupted rig.
pub fn remove_all_data() {
    for directory in active().iter() {
        fs::remove_dir_all(directory.join("data")).ok();
    }
}

fn active() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    static ACTIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Clears what ended runs left: data always, logs beyond the last [`RUNS_KEPT`]. A folder that cannot be cleared stays.
fn sweep(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else {
        return;
    };
    let mut ended: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter(|entry| has_no_owner(&entry.path()))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    ended.sort();
    let beyond = ended.len().saturating_sub(RUNS_KEPT);
    for (index, (_, directory)) in ended.into_iter().enumerate() {
        let left = if index < beyond {
            directory
        } else {
            directory.join("data")
        };
        if left.exists() {
            fs::remove_dir_all(left).ok();
        }
    }
}

fn has_no_owner(directory: &Path) -> bool {
    // A folder without a lock file is one that is being made.
    let Ok(file) = File::open(directory.join("lock")) else {
        return false;
    };
    Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok()
}
