//! A separate test process, because the limit applies to the whole process.

use lockstep_fuzz::memory::bounded;

#[test]
fn allocations_above_the_bound_fail_only_during_the_work() {
    let reserve = || Vec::<u8>::new().try_reserve_exact(2 << 20);
    assert_eq!(bounded(3 << 20, reserve), Ok(()));
    assert!(bounded(1 << 20, reserve).is_err());
    assert_eq!(reserve(), Ok(()));
}
