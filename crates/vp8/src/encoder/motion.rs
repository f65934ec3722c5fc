//! Motion search: where in a reference a block of the picture is found again.

use super::distortion::{sad, sad_between, sad_each};
use crate::motion_vector::MotionVector;

/// Whole samples to the right and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Displacement {
    pub(crate) x: i32,
    pub(crate) y: i32,
}

impl From<MotionVector> for Displacement {
    /// The nearest by whole samples.
    fn from(vector: MotionVector) -> Self {
        Self { x: (i32::from(vector.x) + 2) >> 2, y: (i32::from(vector.y) + 2) >> 2 }
    }
}

/// The displacements that a search may try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) left: i32,
    pub(crate) right: i32,
    pub(crate) top: i32,
    pub(crate) bottom: i32,
}

impl Bounds {
    /// Whether a displacement lies inside.
    #[inline]
    pub(crate) fn contain(&self, d: Displacement) -> bool {
        // What is below the least wraps around to a large number.
        let within =
            |value: i32, least: i32, most: i32| value.wrapping_sub(least) as u32 <= most.wrapping_sub(least) as u32;
        within(d.x, self.left, self.right) & within(d.y, self.top, self.bottom)
    }

    /// The nearest displacement inside.
    #[inline]
    pub(crate) fn clamp(&self, d: Displacement) -> Displacement {
        Displacement { x: d.x.clamp(self.left, self.right), y: d.y.clamp(self.top, self.bottom) }
    }
}

/// A `W` x `H` block of the picture, and the plane of a reference to find it in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WholeSampleSearch<'a, const W: usize, const H: usize> {
    /// The picture from the block's first sample on.
    pub(crate) source: &'a [u8],
    pub(crate) source_stride: usize,
    /// The reference plane with its border.
    pub(crate) reference: &'a [u8],
    pub(crate) reference_stride: usize,
    /// The index in `reference` of the block at displacement zero.
    pub(crate) origin: usize,
    pub(crate) bounds: Bounds,
    /// What a quarter sample's coding costs is roughly logarithmic in its distance from this expectation.
    pub(crate) expected: Displacement,
    /// The weight of a bit, in units of SAD.
    pub(crate) bit_weight: u32,
}

/// Starting points of a search but the first, and how many places are looked at together.
const MOST_STARTS: usize = 6;
const TOGETHER: usize = 3;

/// Where a search ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) displacement: Displacement,
    /// Sum of absolute differences there.
    pub(crate) sad: u32,
    /// The same with the weighted cost of the vector.
    pub(crate) cost: u32,
    /// The sums of absolute differences above, left, right and below, where all four were looked at.
    beside: Option<[u32; 4]>,
}

/// The corners of the hexagon, in order around it.
const HEXAGON: [(i32, i32); 6] = [(-2, 0), (-1, -2), (1, -2), (2, 0), (1, 2), (-1, 2)];
/// The neighbours of a sample, the nearer four first.
const SQUARE: [(i32, i32); 8] = [(0, -1), (-1, 0), (1, 0), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1)];

impl<const W: usize, const H: usize> WholeSampleSearch<'_, W, H> {
    /// The sum of absolute differences at a displacement inside the bounds.
    #[inline]
    pub(crate) fn sad_at(&self, d: Displacement) -> u32 {
        sad::<W, H>(self.source, self.source_stride, &self.reference[self.at(d)..], self.reference_stride)
    }

    /// The index in the reference of the block at a displacement inside the bounds.
    #[inline]
    pub(crate) fn at(&self, d: Displacement) -> usize {
        (self.origin as isize + d.y as isize * self.reference_stride as isize + d.x as isize) as usize
    }

    /// Roughly the sum of absolute differences at a vector in quarter samples, a sample or less outside the bounds.
    #[inline]
    pub(crate) fn sad_between(&self, (x, y): (i32, i32)) -> u32 {
        let start = self.origin as isize + (y >> 2) as isize * self.reference_stride as isize + (x >> 2) as isize;
        let (reference, stride) = (&self.reference[start as usize..], self.reference_stride);
        sad_between::<W, H>(self.source, self.source_stride, reference, stride, ((x & 3) as usize, (y & 3) as usize))
    }

    /// Roughly the cost of coding a displacement, in units of SAD: the length of the two components' codes.
    #[inline]
    fn vector_cost(&self, d: Displacement) -> u32 {
        // Twice the length of four times the difference in binary: a one behind it spares the question whether it is zero.
        let bits = |difference: i32| 2 * (8 * difference.unsigned_abs() + 1).ilog2();
        self.bit_weight * (2 + bits(d.x - self.expected.x) + bits(d.y - self.expected.y))
    }

    #[inline]
    fn found(&self, displacement: Displacement, sad: u32) -> Found {
        Found { displacement, sad, cost: sad + self.vector_cost(displacement), beside: None }
    }

    /// What is found at several displacements; one outside the bounds counts as `inside`.
    #[inline]
    fn try_each<const N: usize>(&self, displacements: [Displacement; N], inside: Displacement) -> [Found; N] {
        let displacements = displacements.map(|d| if self.bounds.contain(d) { d } else { inside });
        let places = displacements.map(|d| self.at(d));
        let sads = sad_each::<W, H, N>(self.source, self.source_stride, self.reference, self.reference_stride, places);
        std::array::from_fn(|index| self.found(displacements[index], sads[index]))
    }

    /// The best of the starting points, of which the first's sum of absolute differences is known if `first_sad` is, and
    /// from there downhill: a hexagon's corners until none is better (at most `steps` times), then the neighbours. Stops
    /// early where the difference falls below `good_enough`.
    pub(crate) fn search(
        &self,
        starts: &[Displacement],
        first_sad: Option<u32>,
        steps: usize,
        good_enough: u32,
    ) -> Found {
        let first = self.bounds.clamp(starts[0]);
        let mut best = self.found(first, first_sad.unwrap_or_else(|| self.sad_at(first)));
        let mut others = [first; MOST_STARTS];
        let mut count = 0;
        for (index, &start) in starts.iter().enumerate().skip(1) {
            let start = self.bounds.clamp(start);
            if !starts[..index].contains(&start) {
                others[count] = start;
                count += 1;
            }
        }
        for others in others.as_chunks::<TOGETHER>().0.iter().take(count.div_ceil(TOGETHER)) {
            for found in self.try_each(*others, first) {
                if found.cost < best.cost {
                    best = found;
                }
            }
        }
        if best.sad < good_enough {
            return best;
        }
        // After a step only the three corners ahead are new.
        let mut corners = 0..6;
        for _ in 0..steps {
            let center = best.displacement;
            let mut direction = None;
            for first in corners.step_by(TOGETHER) {
                let corners: [usize; TOGETHER] = std::array::from_fn(|index| (first + index) % 6);
                let places = corners.map(|corner| {
                    let (x, y) = HEXAGON[corner];
                    Displacement { x: center.x + x, y: center.y + y }
                });
                for (found, corner) in self.try_each(places, center).into_iter().zip(corners) {
                    if found.cost < best.cost {
                        best = found;
                        direction = Some(corner);
                    }
                }
            }
            match direction {
                Some(corner) => corners = corner + 5..corner + 8,
                None => break,
            }
        }
        self.neighbours(best)
    }

    /// The best among a displacement and its eight neighbours; the diagonal ones only beside a better near one.
    fn neighbours(&self, from: Found) -> Found {
        let center = from.displacement;
        let mut best = from;
        for (index, four) in SQUARE.as_chunks::<4>().0.iter().enumerate() {
            let places = four.map(|(x, y)| Displacement { x: center.x + x, y: center.y + y });
            let found = self.try_each(places, center);
            for found in found {
                if found.cost < best.cost {
                    best = found;
                }
            }
            if index == 0 && best.displacement == center {
                let sad = |side: usize| if self.bounds.contain(places[side]) { found[side].sad } else { u32::MAX };
                best.beside = Some(std::array::from_fn(sad));
                break;
            }
        }
        best
    }

    /// [`refine`] by [`WholeSampleSearch::sad_between`] for less: in each direction only towards where the whole samples
    /// around are more alike. `weigh` costs a vector's bits. A diagonal step is looked at only where one of the straight ones
    /// beside it is better: that takes 3 to 4 % of the time where much moves, and 0.1 to 0.2 % of bits (twelve clips).
    pub(crate) fn refine(&self, from: &Found, weigh: impl Fn((i32, i32)) -> u32) -> ((i32, i32), u32) {
        let Displacement { x, y } = from.displacement;
        let [up, left, right, down] = from.beside.unwrap_or_else(|| {
            std::array::from_fn(|side| {
                let d = Displacement { x: x + SQUARE[side].0, y: y + SQUARE[side].1 };
                if self.bounds.contain(d) { self.sad_at(d) } else { u32::MAX }
            })
        });
        let towards = (if left < right { -1 } else { 1 }, if up < down { -1 } else { 1 });
        let start = (4 * x, 4 * y);
        let (mut center, mut best) = (start, from.sad + weigh(start));
        let (x, y) = start;
        let (dx, dy) = (2 * towards.0, 2 * towards.1);
        let mut nearest = |center: &mut (i32, i32), places: &[(i32, i32)]| {
            for &place in places {
                let cost = self.sad_between(place) + weigh(place);
                if cost < best {
                    (*center, best) = (place, cost);
                }
            }
        };
        nearest(&mut center, &[(x + dx, y), (x, y + dy)]);
        if center != start {
            nearest(&mut center, &[(x + dx, y + dy)]);
        }
        // Onwards towards the more alike neighbour where halfway is no better, and back where it is.
        let step = |at: i32, start: i32, towards: i32| at + if at == start { towards } else { -towards };
        let (x, y) = (step(center.0, start.0, towards.0), step(center.1, start.1, towards.1));
        let half = center;
        nearest(&mut center, &[(x, half.1), (half.0, y)]);
        if center != half {
            nearest(&mut center, &[(x, y)]);
        }
        (center, best)
    }
}

/// Moves a vector (quarter samples; horizontal, vertical) downhill by half, then by quarter samples: at each step the
/// four nearest, then the diagonal one between the better two. `cost` judges a vector; `best` is what the start costs.
pub(crate) fn refine(start: (i32, i32), best: u32, mut cost: impl FnMut((i32, i32)) -> u32) -> ((i32, i32), u32) {
    let (half, best) = refine_by(2, start, best, &mut cost);
    refine_by(1, half, best, cost)
}

/// One step of [`refine`].
#[inline]
fn refine_by(step: i32, (x, y): (i32, i32), best: u32, mut cost: impl FnMut((i32, i32)) -> u32) -> ((i32, i32), u32) {
    let (left, right) = (cost((x - step, y)), cost((x + step, y)));
    let (up, down) = (cost((x, y - step)), cost((x, y + step)));
    let diagonal = (if left < right { x - step } else { x + step }, if up < down { y - step } else { y + step });
    let diagonal_cost = cost(diagonal);
    let candidates = [
        ((x - step, y), left),
        ((x + step, y), right),
        ((x, y - step), up),
        ((x, y + step), down),
        (diagonal, diagonal_cost),
    ];
    let (mut center, mut best) = ((x, y), best);
    for (vector, cost) in candidates {
        if cost < best {
            (center, best) = (vector, cost);
        }
    }
    (center, best)
}
