//! Memory limit of a target.

use cap::Cap;
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Runs `work` with a limit of `bytes` of additional memory. Larger allocations fail, which ends the process with
/// "memory allocation of N bytes failed". The input is then a finding.
pub fn bounded<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + bytes).expect("the limit exceeds the allocated memory");
    let result = work();
    ALLOCATOR.set_limit(usize::MAX).expect("any memory is within this limit");
    result
}
