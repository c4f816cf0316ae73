//! The disk of the run directory. While it is full, the VM waits for room, and its deadlines are paused: those of its
//! execs, of its boot, and of requests to its guest.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

/// The interval between checks of a full disk.
const POLL: Duration = Duration::from_millis(500);
/// The interval between checks of a disk that is not full.
const LOW_POLL: Duration = Duration::from_secs(1);
/// Below this, a VM is stopped before it finds no room. A worker may delete its ballast to free space for messages, and
/// a running VM would use that space.
const LOW_BYTES: u64 = 8 << 20;
/// On a small file system, the limit is this part of it.
const LOW_SHARE: u64 = 100;
/// The free bytes with which a VM continues: more than a worker's ballast frees for messages.
const ROOM_BYTES: u64 = 16 << 20;
/// On a small file system, the limit is this part of it.
const ROOM_SHARE: u64 = 40;
/// A disk that has room only for this long counts as full all the time.
const RELAPSE: Duration = Duration::from_secs(5);

/// The state of a full disk for clients.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FullDisk {
    pub for_ms: u64,
    /// The time that the VM waits for room before it is given up.
    pub limit_ms: u64,
    pub available_bytes: u64,
    /// The free bytes with which the VM continues.
    pub needed_bytes: u64,
}

#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    limit: Duration,
    waiting: Cell<usize>,
    since: Cell<Option<Instant>>,
    /// The last period in which the disk was full: its begin and its end.
    earlier: Cell<Option<(Instant, Instant)>>,
    full: watch::Sender<bool>,
    /// Available and total bytes, for tests.
    #[cfg(test)]
    pub pretended: Cell<Option<(u64, u64)>>,
}

/// A task waits for room until this is dropped.
#[derive(Debug)]
pub struct Waiting(Rc<Disk>);

impl Drop for Waiting {
    fn drop(&mut self) {
        let disk = &self.0;
        disk.waiting.set(disk.waiting.get() - 1);
        if disk.waiting.get() > 0 {
            return;
        }
        if let Some(since) = disk.since.take() {
            disk.earlier.set(Some((since, Instant::now())));
        }
        disk.full.send_replace(false);
    }
}

/// The time was up before the work was done.
#[derive(Debug, PartialEq, Eq)]
pub struct TimeIsUp;

/// Returns true for a failure that more room would have prevented.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSPC) | Some(libc::EDQUOT)
    )
}

impl Disk {
    pub fn new(folder: impl Into<PathBuf>, limit: Duration) -> Rc<Self> {
        Rc::new(Self {
            folder: folder.into(),
            limit,
            waiting: Cell::new(0),
            since: Cell::new(None),
            earlier: Cell::new(None),
            full: watch::Sender::new(false),
            #[cfg(test)]
            pretended: Cell::new(None),
        })
    }

    /// Registers a task that waits for room; the disk counts as full until every such registration is dropped.
    pub fn wait_begins(self: &Rc<Self>) -> Waiting {
        self.waiting.set(self.waiting.get() + 1);
        if self.waiting.get() == 1 {
            let now = Instant::now();
            let since = match self.earlier.get() {
                Some((since, ended)) if now - ended < RELAPSE => since,
                _ => now,
            };
            self.since.set(Some(since));
            self.full.send_replace(true);
        }
        Waiting(self.clone())
    }

    /// Returns once the disk has room, but not before the next check.
    pub async fn room(&self) {
        loop {
            tokio::time::sleep(POLL).await;
            if self.has_room() {
                return;
            }
        }
    }

    /// Returns once so little room is left that the VM should be stopped. Calls its argument once a second.
    pub async fn runs_low(&self, meanwhile: impl Fn()) {
        loop {
            tokio::time::sleep(LOW_POLL).await;
            meanwhile();
            let (available, size) = self.bytes();
            if available < LOW_BYTES.min(size / LOW_SHARE) {
                return;
            }
        }
    }

    /// Returns the available bytes, and the bytes of the whole file system. If the file system does not report them, it
    /// counts as having room, and only writing shows whether it has.
    fn bytes(&self) -> (u64, u64) {
        #[cfg(test)]
        if let Some(bytes) = self.pretended.get() {
            return bytes;
        }
        match rustix::fs::statvfs(&self.folder) {
            Ok(found) => {
                let unit = found.f_frsize;
                (
                    found.f_bavail.saturating_mul(unit),
                    found.f_blocks.saturating_mul(unit),
                )
            }
            Err(_) => (u64::MAX, u64::MAX),
        }
    }

    pub fn has_room(&self) -> bool {
        let (available, size) = self.bytes();
        available >= needed(size)
    }

    /// Runs `work` until it does not fail for lack of room.
    pub async fn once_there_is_room<T>(
        self: &Rc<Self>,
        mut work: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut waiting = None;
        loop {
            match work() {
                Err(error) if is_full(&error) => {
                    waiting.get_or_insert_with(|| self.wait_begins());
                    self.room().await;
                }
                other => return other,
            }
        }
    }

    /// Reports the state of a full disk; `None` if it is not full.
    pub fn report(&self) -> Option<FullDisk> {
        let since = self.since.get()?;
        let (available_bytes, size) = self.bytes();
        Some(FullDisk {
            for_ms: millis(since.elapsed()),
            limit_ms: millis(self.limit),
            available_bytes,
            needed_bytes: needed(size),
        })
    }

    /// Sleeps for `length`, not counting the time in which the disk is full.
    pub async fn sleep(&self, length: Duration) {
        let mut full = self.full.subscribe();
        let mut left = length;
        // The sender lives as long as `self`, so waiting for it does not fail.
        loop {
            let _ = full.wait_for(|full| !full).await;
            let start = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(left) => return,
                _ = full.wait_for(|full| *full) => left = left.saturating_sub(start.elapsed()),
            }
        }
    }

    /// Returns the outcome of `work`, unless it takes longer than `length`, not counting the time in which the disk is
    /// full.
    pub async fn within<T>(
        &self,
        length: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, TimeIsUp> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.sleep(length) => Err(TimeIsUp),
        }
    }

    /// Returns once the disk has been full for longer than a VM waits. Calls its argument repeatedly while it is full.
    pub async fn given_up(&self, meanwhile: impl Fn()) {
        let mut full = self.full.subscribe();
        loop {
            let _ = full.wait_for(|full| *full).await;
            if self
                .since
                .get()
                .is_some_and(|since| since.elapsed() >= self.limit)
            {
                return;
            }
            meanwhile();
            tokio::time::sleep(POLL.min(self.limit)).await;
        }
    }

    /// Holds the value of `pause` each time that the disk is full. Never returns.
    pub async fn stand_still<T>(&self, pause: impl Fn() -> T) {
        let mut full = self.full.subscribe();
        loop {
            let _ = full.wait_for(|full| *full).await;
            let _paused = pause();
            let _ = full.wait_for(|full| !full).await;
        }
    }

    pub fn limit_text(&self) -> String {
        format!(
            "the disk of {} had no free space for {} s",
            self.folder.display(),
            self.limit.as_secs_f32()
        )
    }
}

/// Returns the free bytes with which a VM continues, on a file system of `size` bytes.
fn needed(size: u64) -> u64 {
    ROOM_BYTES.min(size / ROOM_SHARE)
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(work)
    }

    #[test]
    fn time_in_which_the_disk_is_full_counts_for_no_deadline() {
        run(async {
            let disk = Disk::new("/", Duration::from_secs(60));
            let start = Instant::now();
            let waiting = disk.wait_begins();
            let early = disk.within(Duration::from_millis(20), async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                drop(waiting);
                std::future::pending::<()>().await;
            });
            assert_eq!(early.await, Err(TimeIsUp));
            assert!(start.elapsed() >= Duration::from_millis(220));
        });
    }

    #[test]
    fn a_disk_is_full_while_anybody_waits_and_says_since_when() {
        run(async {
            let disk = Disk::new("/", Duration::from_secs(60));
            assert!(disk.report().is_none());
            let one = disk.wait_begins();
            let two = disk.wait_begins();
            drop(one);
            tokio::time::sleep(Duration::from_millis(30)).await;
            let report = disk.report().unwrap();
            assert!(report.for_ms >= 30 && report.limit_ms == 60_000);
            drop(two);
            assert!(disk.report().is_none());
            let _again = disk.wait_begins();
            let report = disk.report().unwrap();
            assert!(report.for_ms >= 30, "room for a moment is no room");
        });
    }

    #[test]
    fn it_is_given_up_after_its_limit_and_not_before() {
        run(async {
            let disk = Disk::new("/", Duration::from_millis(100));
            let looks = Cell::new(0);
            let given_up = disk.given_up(|| looks.set(looks.get() + 1));
            let nobody = tokio::time::timeout(Duration::from_millis(150), given_up);
            assert!(nobody.await.is_err(), "nobody waits");
            let _waiting = disk.wait_begins();
            disk.given_up(|| looks.set(looks.get() + 1)).await;
            assert!(looks.get() > 0);
        });
    }

    #[test]
    fn only_the_want_of_room_is_waited_for() {
        run(async {
            let disk = Disk::new("/", Duration::from_secs(60));
            let tries = Cell::new(0);
            let done = disk.once_there_is_room(|| {
                tries.set(tries.get() + 1);
                match tries.get() {
                    1 => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
                    2 => Err(io::Error::from_raw_os_error(libc::EDQUOT)),
                    _ => Ok(()),
                }
            });
            done.await.unwrap();
            assert_eq!(tries.get(), 3);
            let broken = disk
                .once_there_is_room(|| Err::<(), _>(io::Error::from_raw_os_error(libc::EIO)))
                .await;
            assert_eq!(broken.unwrap_err().raw_os_error(), Some(libc::EIO));
        });
    }
}
