//! How much memory a target may take.

use cap::Cap;
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Runs `work`, which may hold at most `bytes` at a time beyond what is held already: more is refused, which ends the
/// process with "memory allocation of N bytes failed" and makes the input a finding.
pub fn bounded<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + bytes).expect("the limit is above what is allocated");
    let result = work();
    ALLOCATOR.set_limit(usize::MAX).expect("nothing is above this limit");
    result
}
