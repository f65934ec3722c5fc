//! By how much a whole picture has moved, from the sums of its rows and of its columns alone: where the search of a macroblock
//! begins that finds nothing near. A camera that pans, a page that is scrolled by more than a few samples.

use super::motion::Displacement;

/// No picture is thought to have moved by more than this share of its size, or than so many samples.
const MOST_SHARE: usize = 6;
const MOST: usize = 160;
/// Sums that match no better than by this share more than unmoved ones say nothing.
const BETTER: (u64, u64) = (5, 8);

/// Of every so many rows the columns are summed. All of them, and sums compared to their ends, took 9 % of the time of coding a
/// picture of 640x272 that moves.
const SUMMED: usize = 3;
/// Sums are compared so many at a time, until they differ by more than others do.
const TOGETHER: usize = 64;

/// Where in the plane `before` most of `now` is found again, both of `size` samples, width and height, and given from their
/// first one on, with the distance between rows; nowhere else if that is not clear. Rows and columns are looked at apart.
pub(super) fn global_motion(now: (&[u8], usize), before: (&[u8], usize), size: (usize, usize)) -> Displacement {
    let [now, before] = [now, before].map(|plane| Slopes::of(plane, size));
    Displacement { x: shift(&now.columns, &before.columns), y: shift(&now.rows, &before.rows) }
}

/// How columns, and rows, differ from one to the next in the mean of their samples, 1/16: the whole picture may have become
/// brighter.
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

/// How each of some sums of `count` samples differs from the one before, as their means.
fn slopes(sums: &[u32], count: usize) -> Vec<i32> {
    let mean = |sum: u32| (16 * sum / count as u32) as i32;
    sums.windows(2).map(|pair| mean(pair[1]) - mean(pair[0])).collect()
}

/// At which shift the middle of `now` is most like `before`.
fn shift(now: &[i32], before: &[i32]) -> i32 {
    let most = (now.len() / MOST_SHARE).min(MOST);
    let middle = &now[most..now.len() - most];
    // As far as it is less than `bound`. It fits: 16384 pairs differ by at most 8160.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A window into a scene of blotches.
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
        fn a_pan_is_found_however_bright_it_is(x in -53i32..=53, y in -29i32..=29, brighter in 0u8..40) {
            let (width, height) = (320, 180);
            let before = view(200, 200, width, height, 0);
            let now = view((200 + x) as usize, (200 + y) as usize, width, height, brighter);
            let found = global_motion((&now, width), (&before, width), (width, height));
            prop_assert_eq!(found, Displacement { x, y });
        }

        #[test]
        fn any_two_pictures_can_be_compared(
            (width, height) in (1usize..40, 1usize..40),
            samples in proptest::collection::vec(any::<u8>(), 2 * 40 * 40),
        ) {
            let found = global_motion((&samples, width), (&samples[40 * 40..], width), (width, height));
            prop_assert!(found.x.unsigned_abs() as usize <= width / 6 && found.y.unsigned_abs() as usize <= height / 6);
        }
    }

    #[test]
    fn what_has_nothing_in_common_has_not_moved() {
        let before = view(0, 0, 320, 180, 0);
        for place in [(3_000, 5_000), (1_000, 70), (9_000, 0), (500, 700), (40_000, 30_000)] {
            let now = view(place.0, place.1, 320, 180, 0);
            let found = global_motion((&now, 320), (&before, 320), (320, 180));
            assert_eq!(found, Displacement::default(), "{place:?}");
        }
    }
}
