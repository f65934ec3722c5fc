//! Work on one picture by several threads.
//!
//! A lane is a thread that takes one piece of the work after the other: a row of macroblocks, or a half of the picture.
//! Where a row depends on the one above, its lane waits for the results of the other lane (a wavefront). Results never
//! depend on which lane does what.
//!
//! A lane that has nothing to do sleeps after about a tenth of a millisecond. If it offered its core in a loop instead,
//! other programs would take it for milliseconds each time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use crate::frame::FrameLayout;

/// Number of macroblocks from which on two lanes can share a picture, those of 640x480. Smaller pictures gain less than
/// a millisecond. `lab: 2026-11-effort`.
const SHARED_FROM: usize = 1200;

/// Largest number of lanes that can share any picture.
pub(super) const MAX_LANES: usize = 2;

/// Largest number of lanes that can share a picture of this size.
///
/// It says what a row can know of those before it, so coded bytes depend on it. They do not depend on how many lanes
/// there are.
pub(super) fn max_lanes(layout: &FrameLayout) -> usize {
    if layout.columns * layout.rows < SHARED_FROM { 1 } else { MAX_LANES }
}

/// Whether there are threads. WebAssembly has none here, and the page leaves out their code.
const HAS_THREADS: bool = cfg!(not(target_family = "wasm"));

/// Number of tests before a waiting lane sleeps. Waking up takes longer than most waits. `lab: 2026-11-effort`.
const SPINS: u32 = 4000;

/// The lanes that work on one picture.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Whether a lane has panicked, so that the results that others wait for will not come.
    abandoned: AtomicBool,
    /// Number of sleeping lanes, and what wakes them.
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    published: Condvar,
}

impl Lanes {
    /// Runs `lane` on up to `most` threads, the calling one among them. Each lane gets a function that returns the next
    /// piece of `work`. Returns the results of the lanes.
    ///
    /// If the system has no more threads, or starts them late, fewer lanes do the work. A thread that has started late is
    /// waited for.
    ///
    /// # Panics
    /// If a lane panics.
    pub(super) fn run<W: Send, T: Send>(
        &self,
        most: usize,
        work: impl Iterator<Item = W> + Send,
        lane: impl Fn(&dyn Fn() -> Option<W>) -> T + Sync,
    ) -> Vec<T> {
        let work = Mutex::new(work);
        let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
        let lane = || {
            let guard = Guard(self);
            let result = lane(&next);
            std::mem::forget(guard);
            result
        };
        if !HAS_THREADS {
            return vec![lane()];
        }
        thread::scope(|scope| {
            let spawn = |_| thread::Builder::new().name("lane".to_owned()).spawn_scoped(scope, lane).ok();
            let others: Vec<_> = (1..most).map_while(spawn).collect();
            let mut results = vec![lane()];
            for lane in others {
                match lane.join() {
                    Ok(result) => results.push(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            results
        })
    }

    /// Makes a result available to the other lanes.
    pub(super) fn publish<T>(&self, cell: &OnceLock<T>, result: T) {
        assert!(cell.set(result).is_ok(), "a result is published once");
        self.wake();
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if HAS_THREADS && self.sleepers.load(Ordering::Relaxed) > 0 {
            drop(self.lock());
            self.published.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the result of another lane.
    pub(super) fn wait<'a, T>(&self, result: &'a OnceLock<T>) -> &'a T {
        if !HAS_THREADS {
            return result.get().expect("a single lane never waits");
        }
        for _ in 0..SPINS {
            if let Some(result) = result.get() {
                return result;
            }
            std::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let mut lock = self.lock();
        loop {
            fence(Ordering::SeqCst);
            if let Some(result) = result.get() {
                self.sleepers.fetch_sub(1, Ordering::Relaxed);
                return result;
            }
            assert!(!self.abandoned.load(Ordering::Relaxed), "another lane panicked");
            lock = self.published.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Tells the other lanes when a lane panics.
struct Guard<'a>(&'a Lanes);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.abandoned.store(true, Ordering::Relaxed);
        self.0.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of 0 to `number` for all numbers below 10. Each number waits for the one before.
    fn sums(most: usize, fail_at: Option<u32>) -> Vec<u32> {
        let lanes = Lanes::default();
        let cells: Vec<OnceLock<u32>> = (0..10).map(|_| OnceLock::new()).collect();
        let counts = lanes.run(most, 0..10u32, |next| {
            let mut count = 0;
            while let Some(number) = next() {
                assert!(fail_at != Some(number), "asked to fail");
                let before = number.checked_sub(1).map_or(0, |before| *lanes.wait(&cells[before as usize]));
                lanes.publish(&cells[number as usize], before + number);
                count += 1;
            }
            count
        });
        assert_eq!((counts.len(), counts.iter().sum::<u32>()), (most, 10));
        cells.into_iter().map(|cell| cell.into_inner().expect("all numbers")).collect()
    }

    #[test]
    fn lanes_wait_for_each_other() {
        for most in 1..4 {
            assert_eq!(sums(most, None), [0, 1, 3, 6, 10, 15, 21, 28, 36, 45]);
        }
    }

    #[test]
    fn panic_in_a_lane_ends_all_lanes() {
        for fail_at in [4, 5] {
            assert!(std::panic::catch_unwind(|| sums(2, Some(fail_at))).is_err());
        }
    }
}
