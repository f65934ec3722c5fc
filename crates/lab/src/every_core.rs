//! Runs calls on every core and shows progress.

use std::num::NonZero;
use std::thread::available_parallelism;

use anyhow::Result;

use lockstep_runner::progress::Progress;
use lockstep_sim::in_parallel;

/// Runs `run` on each of `calls`, and passes each result to `keep` with the index of its call. `what` labels the
/// progress, which includes the `kept` calls of an earlier run.
///
/// # Errors
/// The first failure of `run` or `keep`, which ends the other calls.
pub fn on_every_core<Call: Sync, Outcome: Send>(
    what: &str,
    kept: usize,
    calls: &[Call],
    run: impl Fn(&Call) -> Result<Outcome> + Sync,
    mut keep: impl FnMut(usize, Outcome) -> Result<()>,
) -> Result<()> {
    let workers = available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let all = kept + calls.len();
    let mut progress = Progress::new(what, all as u64);
    let (mut count, mut failure) = (kept, None);
    in_parallel(calls, workers, run, |index, outcome| {
        count += 1;
        progress.update(count as u64, &format!("{count} of {all} calls"));
        let kept = outcome.and_then(|outcome| keep(index, outcome));
        let is_kept = kept.is_ok();
        if let Err(error) = kept {
            failure.get_or_insert(error);
        }
        is_kept
    });
    progress.finish();
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn each_result_is_kept_with_its_index() {
        let mut kept = [0; 40];
        let calls: Vec<u64> = (0..40).collect();
        let run = |&call: &u64| Ok(call * call);
        on_every_core("test", 0, &calls, run, |index, outcome| {
            kept[index] = outcome;
            Ok(())
        })
        .unwrap();
        assert!(calls.iter().zip(kept).all(|(call, kept)| call * call == kept));
    }

    #[test]
    fn first_failure_of_run_or_keep_is_the_error() {
        let run = |&call: &u64| if call == 3 { bail!("call 3 failed") } else { Ok(call) };
        let failed = on_every_core("test", 0, &[1, 2, 3], run, |_, _| Ok(()));
        assert_eq!(failed.unwrap_err().to_string(), "call 3 failed");
        let failed = on_every_core("test", 0, &[1], run, |_, _| bail!("the disk is full"));
        assert_eq!(failed.unwrap_err().to_string(), "the disk is full");
    }
}
