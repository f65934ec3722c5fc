//! Runs independent jobs on several cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Runs `work` on each of `jobs` with `workers` threads. `done` receives each result with the index of its job, in
/// order of completion. This order varies; the results do not if `work` depends only on its job. If `done` returns
/// false, no further job starts.
pub fn in_parallel<Job: Sync, Outcome: Send>(
    jobs: &[Job],
    workers: NonZero<usize>,
    work: impl Fn(&Job) -> Outcome + Sync,
    mut done: impl FnMut(usize, Outcome) -> bool,
) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (results, finished) = mpsc::channel();
        for _ in 0..workers.get().min(jobs.len()) {
            let (results, next, work) = (results.clone(), &next, &work);
            scope.spawn(move || {
                while let Some((index, job)) = take(jobs, next) {
                    if results.send((index, work(job))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for (index, outcome) in finished {
            if !done(index, outcome) {
                next.store(jobs.len(), Ordering::Relaxed);
                break;
            }
        }
    });
}

/// Takes the next job.
fn take<'a, Job>(jobs: &'a [Job], next: &AtomicUsize) -> Option<(usize, &'a Job)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, jobs.get(index)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_runs_once_on_any_number_of_threads() {
        let jobs: Vec<u32> = (0..50).collect();
        for workers in [1, 3, 100] {
            let mut results = vec![None; jobs.len()];
            in_parallel(
                &jobs,
                NonZero::new(workers).unwrap(),
                |job| job * job,
                |index, result| {
                    assert_eq!(results[index].replace(result), None);
                    true
                },
            );
            assert!(results.iter().zip(&jobs).all(|(result, job)| *result == Some(job * job)));
        }
    }

    #[test]
    fn no_job_starts_after_done_returns_false() {
        let jobs: Vec<u32> = (0..1_000_000).collect();
        let mut count = 0;
        in_parallel(
            &jobs,
            NonZero::new(2).unwrap(),
            |&job| job,
            |_, _| {
                count += 1;
                count < 3
            },
        );
        assert_eq!(count, 3);
    }
}
