//! Waits for background threads, drops files from the page cache, and pins the thread to a core.

use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use filterblock_testkit::measure::clock;
use rustix::fs::{Advice, fadvise};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::engine::{Outcome, text};

/// The maximum time to wait until the process is idle.
const MOST_WAITING: Duration = Duration::from_secs(300);
/// The time over which CPU use and changes of files are observed.
const WINDOW: Duration = Duration::from_millis(100);
/// The number of quiet windows in a row after which the process counts as idle.
const QUIET_WINDOWS: u32 = 4;

/// Waits until the process is idle, which takes several quiet windows in a row. In a quiet window,
/// the process uses less than 5 % of a core, and the files in `dir` keep their number and size. The
/// benchmark observes the process, because not every engine tells when its compactions end.
pub fn wait_idle(dir: &Path) -> Outcome<()> {
    let start = Instant::now();
    let (mut quiet, mut cpu, mut files) = (0, clock::process_time(), contents(dir));
    while quiet < QUIET_WINDOWS {
        sleep(WINDOW);
        let (cpu_now, files_now) = (clock::process_time(), contents(dir));
        let is_quiet = cpu_now - cpu < WINDOW / 20 && files_now == files;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        (cpu, files) = (cpu_now, files_now);
        if start.elapsed() > MOST_WAITING {
            let seconds = MOST_WAITING.as_secs();
            return Err(format!(
                "{}: background work does not end within {seconds} s; leave the store out with --stores",
                dir.display()
            ));
        }
    }
    Ok(())
}

/// Returns the time that [`wait_idle`] takes if the process is idle from the start.
pub fn idle_check() -> Duration {
    WINDOW * QUIET_WINDOWS
}

/// Returns the number of files in a folder and its subfolders, and the bytes that the files take on
/// disk. A file or folder that cannot be read is left out, for example because it vanished.
pub fn contents(dir: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let mut sum = (0, 0);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(found) if found.is_dir() => {
                let (files, bytes) = contents(&entry.path());
                sum = (sum.0 + files, sum.1 + bytes);
            }
            Ok(found) => sum = (sum.0 + 1, sum.1 + found.blocks() * 512),
            Err(_) => {}
        }
    }
    sum
}

/// Writes every file of a closed store to the device, and drops it from the page cache.
pub fn drop_files(dir: &Path) -> Outcome<()> {
    for entry in fs::read_dir(dir).map_err(text)? {
        let path = entry.map_err(text)?.path();
        if path.is_dir() {
            drop_files(&path)?;
        } else {
            let file = File::open(&path).map_err(text)?;
            // Pages that are not yet written cannot be dropped.
            file.sync_all().map_err(text)?;
            fadvise(&file, 0, None, Advice::DontNeed).map_err(text)?;
        }
    }
    Ok(())
}

/// Keeps the calling thread on one core until this value is dropped. The benchmark opens engines on
/// a thread that is not pinned, so that the engines' threads may run on every core.
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pins the calling thread to the core `cpu`.
    pub fn to(cpu: usize) -> Outcome<Self> {
        let before = sched_getaffinity(None).map_err(text)?;
        clock::pin(Some(cpu))?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The mask was valid before. If this call fails, the thread stays pinned.
        let _ = sched_setaffinity(None, &self.before);
    }
}
