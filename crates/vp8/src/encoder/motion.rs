//! Motion search: finds a block of the picture in a reference.
//!
//! [`WholeSampleSearch::search`] finds a displacement by whole samples; [`WholeSampleSearch::refine`] and [`refine`]
//! continue with half and quarter samples.

use super::distortion::{sad, sad_between, sad_each};
use crate::motion_vector::MotionVector;

/// Displacement in whole samples, positive to the right and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Displacement {
    pub(crate) x: i32,
    pub(crate) y: i32,
}

impl From<MotionVector> for Displacement {
    /// The nearest displacement by whole samples.
    fn from(vector: MotionVector) -> Self {
        Self { x: (i32::from(vector.x) + 2) >> 2, y: (i32::from(vector.y) + 2) >> 2 }
    }
}

/// Permitted displacements of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) left: i32,
    pub(crate) right: i32,
    pub(crate) top: i32,
    pub(crate) bottom: i32,
}

impl Bounds {
    /// Whether a displacement is inside the bounds.
    #[inline]
    pub(crate) fn contain(&self, d: Displacement) -> bool {
        // A value below `least` wraps around to a large number.
        let within =
            |value: i32, least: i32, most: i32| value.wrapping_sub(least) as u32 <= most.wrapping_sub(least) as u32;
        within(d.x, self.left, self.right) & within(d.y, self.top, self.bottom)
    }

    /// The nearest displacement inside the bounds.
    #[inline]
    pub(crate) fn clamp(&self, d: Displacement) -> Displacement {
        Displacement { x: d.x.clamp(self.left, self.right), y: d.y.clamp(self.top, self.bottom) }
    }
}

/// Search for a `W` x `H` block of the picture in a plane of a reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WholeSampleSearch<'a, const W: usize, const H: usize> {
    /// The picture, from the block's first sample on.
    pub(crate) source: &'a [u8],
    pub(crate) source_stride: usize,
    /// The reference plane with its border.
    pub(crate) reference: &'a [u8],
    pub(crate) reference_stride: usize,
    /// Index of the block at displacement zero in `reference`.
    pub(crate) origin: usize,
    pub(crate) bounds: Bounds,
    /// Expected displacement. The cost of a vector is roughly logarithmic in the distance from it.
    pub(crate) expected: Displacement,
    /// Weight of a bit in units of SAD.
    pub(crate) bit_weight: u32,
}

/// Largest number of starting points after the first, and number of positions that are evaluated at once.
const MAX_STARTS: usize = 6;
const TOGETHER: usize = 3;

/// Result of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) displacement: Displacement,
    /// SAD at the displacement.
    pub(crate) sad: u32,
    /// SAD and the weighted cost of the vector.
    pub(crate) cost: u32,
    /// SADs above, left, right and below, if all four were evaluated.
    beside: Option<[u32; 4]>,
}

/// Corners of the hexagon in order around it.
const HEXAGON: [(i32, i32); 6] = [(-2, 0), (-1, -2), (1, -2), (2, 0), (1, 2), (-1, 2)];
/// Neighbours of a sample, the nearest four first.
const SQUARE: [(i32, i32); 8] = [(0, -1), (-1, 0), (1, 0), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1)];

impl<const W: usize, const H: usize> WholeSampleSearch<'_, W, H> {
    /// SAD at a displacement inside the bounds.
    #[inline]
    pub(crate) fn sad_at(&self, d: Displacement) -> u32 {
        sad::<W, H>(self.source, self.source_stride, &self.reference[self.at(d)..], self.reference_stride)
    }

    /// Index of the block in the reference at a displacement inside the bounds.
    #[inline]
    pub(crate) fn at(&self, d: Displacement) -> usize {
        (self.origin as isize + d.y as isize * self.reference_stride as isize + d.x as isize) as usize
    }

    /// Approximate SAD at a vector in quarter samples, at most one sample outside the bounds.
    #[inline]
    pub(crate) fn sad_between(&self, (x, y): (i32, i32)) -> u32 {
        let start = self.origin as isize + (y >> 2) as isize * self.reference_stride as isize + (x >> 2) as isize;
        let (reference, stride) = (&self.reference[start as usize..], self.reference_stride);
        sad_between::<W, H>(self.source, self.source_stride, reference, stride, ((x & 3) as usize, (y & 3) as usize))
    }

    /// Approximate cost of a displacement in units of SAD: the code lengths of the two components.
    #[inline]
    fn vector_cost(&self, d: Displacement) -> u32 {
        // Twice the binary length of four times the difference. The appended one avoids a test for zero.
        let bits = |difference: i32| 2 * (8 * difference.unsigned_abs() + 1).ilog2();
        self.bit_weight * (2 + bits(d.x - self.expected.x) + bits(d.y - self.expected.y))
    }

    #[inline]
    fn found(&self, displacement: Displacement, sad: u32) -> Found {
        Found { displacement, sad, cost: sad + self.vector_cost(displacement), beside: None }
    }

    /// Evaluates several displacements. One outside the bounds is replaced by `inside`.
    #[inline]
    fn try_each<const N: usize>(&self, displacements: [Displacement; N], inside: Displacement) -> [Found; N] {
        let displacements = displacements.map(|d| if self.bounds.contain(d) { d } else { inside });
        let places = displacements.map(|d| self.at(d));
        let sads = sad_each::<W, H, N>(self.source, self.source_stride, self.reference, self.reference_stride, places);
        std::array::from_fn(|index| self.found(displacements[index], sads[index]))
    }

    /// Starts at the best of `starts` and descends: to the corners of a hexagon until none is better (at most `steps`
    /// times), then to the neighbours. Stops early if the SAD is below `good_enough`. `first_sad` is the SAD at the
    /// first start, if it is known.
    pub(crate) fn search(
        &self,
        starts: &[Displacement],
        first_sad: Option<u32>,
        steps: usize,
        good_enough: u32,
    ) -> Found {
        let first = self.bounds.clamp(starts[0]);
        let mut best = self.found(first, first_sad.unwrap_or_else(|| self.sad_at(first)));
        let mut others = [first; MAX_STARTS];
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
        // After a step, only the three corners in its direction are new.
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

    /// The best of a displacement and its eight neighbours. Diagonal neighbours are evaluated only if a near one is
    /// better.
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

    /// A cheaper [`refine`] that uses [`WholeSampleSearch::sad_between`].
    ///
    /// In each dimension it moves only towards the neighbour with the lower SAD. A diagonal step is evaluated only if
    /// one of the straight steps is better. `weigh` returns the cost of a vector's bits. `lab: 2026-11-notes-vp8`.
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
        // Continues by a quarter sample: onwards where the half-sample step was no better, back where it was.
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

/// Refines a vector (quarter samples; horizontal, vertical) by half samples, then by quarter samples. Each step
/// evaluates the four nearest positions, then the diagonal one between the better two. `cost` evaluates a vector;
/// `best` is the cost of `start`.
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
