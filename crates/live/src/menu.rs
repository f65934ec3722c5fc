//! Codes the candidates of a menu in parallel.

use std::thread;

use lockstep_call::{Candidate, Codec, MenuRunner};

/// Codes the first candidate on the calling thread and each other candidate on a separate thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadedMenu;

impl<C: Codec<Analysis: Sync>> MenuRunner<C> for ThreadedMenu {
    fn run(&self, analysis: &C::Analysis, quantizers: &[u8]) -> Vec<Candidate<C>> {
        let Some((&first, others)) = quantizers.split_first() else { return Vec::new() };
        thread::scope(|scope| {
            let others: Vec<_> =
                others.iter().map(|&quantizer| scope.spawn(move || C::encode(analysis, quantizer))).collect();
            let mut candidates = vec![C::encode(analysis, first)];
            candidates.extend(others.into_iter().map(|other| match other.join() {
                Ok(candidate) => candidate,
                Err(panic) => std::panic::resume_unwind(panic),
            }));
            candidates
        })
    }
}
