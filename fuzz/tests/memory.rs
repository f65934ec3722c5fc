//! Alone in its process: the limit is the whole process's.

use lockstep_fuzz::memory::bounded;

#[test]
fn more_than_the_bound_is_refused_and_the_bound_ends_with_the_work() {
    let reserve = || Vec::<u8>::new().try_reserve_exact(2 << 20);
    assert_eq!(bounded(3 << 20, reserve), Ok(()));
    assert!(bounded(1 << 20, reserve).is_err());
    assert_eq!(reserve(), Ok(()));
}
