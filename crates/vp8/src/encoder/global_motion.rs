//! Global motion of a picture, from the sums of its rows and columns.
//!
//! It gives motion search a starting point for camera pans and scrolled pages that exceed the search range.
//!
//! A screen scrolls farther between two frames than a camera pans, because fewer of its pictures are sent. The middle of
//! the picture, which is compared for a camera, is then out of sight. So for a screen every shift is compared where both
//! pictures overlap. The shift with the largest total gain wins, since a small overlap may match by chance.

use super::motion::Displacement;
use super::parameters::Content;

/// Limits of the motion: a share of the picture's size (1/6), and a number of samples.
const MIN_PICTURE_MULTIPLE: usize = 6;
const MAX_MOTION_SAMPLES: usize = 160;
/// The same limits for a screen that scrolls up or down: half of its height, and the longest vector of VP8.
const MIN_SCREEN_MULTIPLE: usize = 2;
const MAX_SCROLL_SAMPLES: usize = 240;
/// A shift counts only if its difference is below 5/8 of the difference without motion.
const BETTER: (u64, u64) = (5, 8);

/// Column sums use one row in this number. `lab: 2026-11-notes-vp8`.
const SUMMED: usize = 3;
/// Number of sums that are compared before the comparison may stop early.
const TOGETHER: usize = 64;

/// Finds the displacement in the plane `before` at which most of `now` appears, or zero if the result is unclear.
///
/// Both planes have `size` samples (width, height). Each is passed as its samples and the distance between rows. Rows
/// and columns are analysed separately. A screen may scroll farther up or down than a camera pans.
pub(super) fn global_motion(
    now: (&[u8], usize),
    before: (&[u8], usize),
    size: (usize, usize),
    content: Content,
) -> Displacement {
    let [now, before] = [now, before].map(|plane| Slopes::of(plane, size));
    let y = match content {
        Content::Camera => shift(&now.rows, &before.rows),
        Content::Screen => scroll(&now.rows, &before.rows),
    };
    Displacement { x: shift(&now.columns, &before.columns), y }
}

/// Differences of the mean sample between adjacent columns and adjacent rows, in 1/16. Differences do not depend on
/// brightness.
struct Slopes {
    columns: Vec<i32>,
    rows: Vec<i32>,
}

impl Slopes {
    fn of((samples, stride): (&[u8], usize), (width, height): (usize, usize)) -> Self {
        let (mut columns, mut rows) = (vec![0u32; width], Vec::with_capacity(height));
        for (at, row) in samples.chunks(stride).take(height).enumerate() {
            let row = &row[..width];
            if at % SUMMED == 0 {
                columns.iter_mut().zip(row).for_each(|(column, &sample)| *column += u32::from(sample));
            }
            rows.push(row.iter().map(|&sample| u32::from(sample)).sum());
        }
        Self { columns: slopes(&columns, height.div_ceil(SUMMED)), rows: slopes(&rows, width) }
    }
}

/// Differences between adjacent means of `sums`, each of which has `count` samples.
fn slopes(sums: &[u32], count: usize) -> Vec<i32> {
    let mean = |sum: u32| (16 * sum / count as u32) as i32;
    sums.windows(2).map(|pair| mean(pair[1]) - mean(pair[0])).collect()
}

/// The shift at which the middle of `now` matches `before` best.
fn shift(now: &[i32], before: &[i32]) -> i32 {
    let most = (now.len() / MIN_PICTURE_MULTIPLE).min(MAX_MOTION_SAMPLES);
    let middle = &now[most..now.len() - most];
    // The difference, or any value of at least `bound`. No overflow: 16384 pairs differ by at most 8160 each.
    let difference = |by: i32, bound: u32| -> u32 {
        let there = &before[(most as i32 + by) as usize..][..middle.len()];
        let mut sum = 0;
        for (now, before) in middle.chunks(TOGETHER).zip(there.chunks(TOGETHER)) {
            sum += now.iter().zip(before).map(|(now, before)| (now - before).unsigned_abs()).sum::<u32>();
            if sum >= bound {
                break;
            }
        }
        sum
    };
    let unmoved = difference(0, u32::MAX);
    let (mut least, mut found) = (unmoved, 0);
    for by in (1..=most as i32).flat_map(|by| [by, -by]) {
        let there = difference(by, least);
        if there < least {
            (least, found) = (there, by);
        }
    }
    if u64::from(least) * BETTER.1 < u64::from(unmoved) * BETTER.0 { found } else { 0 }
}

/// The shift at which `now` gains most over no shift, where it overlaps with `before`.
fn scroll(now: &[i32], before: &[i32]) -> i32 {
    // There is one slope less than rows.
    let most = now.len().div_ceil(MIN_SCREEN_MULTIPLE).min(MAX_SCROLL_SAMPLES);
    let difference = |now: &[i32], before: &[i32]| -> u32 {
        now.iter().zip(before).map(|(now, before)| (now - before).unsigned_abs()).sum()
    };
    // Differences without a shift, summed up from the first row.
    let mut unmoved = vec![0u32];
    unmoved.extend(now.iter().zip(before).scan(0, |sum, (now, before)| {
        *sum += (now - before).unsigned_abs();
        Some(*sum)
    }));
    let (mut gain, mut found) = (0, 0);
    for by in (1..=most as i32).flat_map(|by| [by, -by]) {
        let length = now.len() - by.unsigned_abs() as usize;
        let (here, there) = ((-by).max(0) as usize, by.max(0) as usize);
        let without = unmoved[here + length] - unmoved[here];
        if without <= gain {
            continue;
        }
        let with = difference(&now[here..][..length], &before[there..][..length]);
        if without > with + gain && u64::from(with) * BETTER.1 < u64::from(without) * BETTER.0 {
            (gain, found) = (without - with, by);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A window into a texture of noise.
    fn view(left: usize, top: usize, width: usize, height: usize, brighter: u8) -> Vec<u8> {
        let noise = |x: usize, y: usize| {
            let mixed = ((x as u64) << 32 | y as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 57
        };
        let sample = |x: usize, y: usize| (noise(x / 7, y / 5) + noise(x / 31, y / 23)) as u8 / 2 + 60 + brighter;
        (0..height).flat_map(|y| (0..width).map(move |x| sample(left + x, top + y))).collect()
    }

    proptest! {
        #[test]
        fn pan_is_found_at_any_brightness(x in -53i32..=53, y in -29i32..=29, brighter in 0u8..40) {
            let (width, height) = (320, 180);
            let before = view(200, 200, width, height, 0);
            let now = view((200 + x) as usize, (200 + y) as usize, width, height, brighter);
            let found = global_motion((&now, width), (&before, width), (width, height), Content::Camera);
            prop_assert_eq!(found, Displacement { x, y });
        }

        #[test]
        fn screen_scrolls_by_up_to_half_of_its_height(y in -90i32..=90) {
            let (width, height) = (320, 180);
            let before = view(200, 200, width, height, 0);
            let now = view(200, (200 + y) as usize, width, height, 0);
            let found = global_motion((&now, width), (&before, width), (width, height), Content::Screen);
            prop_assert_eq!(found, Displacement { x: 0, y });
        }

        #[test]
        fn result_stays_within_limits_for_any_pictures(
            (width, height) in (1usize..40, 1usize..40),
            samples in proptest::collection::vec(any::<u8>(), 2 * 40 * 40),
        ) {
            for (content, multiple) in [(Content::Camera, MIN_PICTURE_MULTIPLE), (Content::Screen, MIN_SCREEN_MULTIPLE)] {
                let before = &samples[40 * 40..];
                let found = global_motion((&samples, width), (before, width), (width, height), content);
                prop_assert!(found.x.unsigned_abs() as usize <= width / MIN_PICTURE_MULTIPLE);
                prop_assert!(found.y.unsigned_abs() as usize <= height / multiple);
            }
        }
    }

    #[test]
    fn unrelated_pictures_have_no_global_motion() {
        let before = view(0, 0, 320, 180, 0);
        for place in [(3_000, 5_000), (1_000, 70), (9_000, 0), (500, 700), (40_000, 30_000)] {
            let now = view(place.0, place.1, 320, 180, 0);
            let found = global_motion((&now, 320), (&before, 320), (320, 180), Content::Camera);
            assert_eq!(found, Displacement::default(), "{place:?}");
        }
    }
}
