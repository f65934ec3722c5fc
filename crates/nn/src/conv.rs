//! Convolutions: gathers the numbers under the kernel, and multiplies them with the filters.

use crate::product::{Packed, ROWS};
use crate::view::View;

/// Largest number of gathered numbers at a time.
const GATHERED: usize = 1 << 17;

/// A convolution over one or two dimensions. One dimension is treated as two, with length 1 in the second.
#[derive(Debug)]
pub(crate) struct Conv {
    /// Weights of each group: a row per number under the kernel, a column per filter.
    pub groups: Vec<Packed>,
    pub bias: Vec<f32>,
    pub kernel: [usize; 2],
    pub strides: [usize; 2],
    pub dilations: [usize; 2],
    /// Padding before each dimension.
    pub pads: [usize; 2],
}

impl Conv {
    pub fn run(&self, input: View<'_>, shape: &[usize]) -> Vec<f32> {
        let plane = |shape: &[usize]| [shape[2], shape.get(3).copied().unwrap_or(1)];
        let (from, to) = (plane(input.shape), plane(shape));
        let (calls, channels) = (shape[0], input.shape[1] / self.groups.len());
        let (places, filters) = (to[0] * to[1], shape[1] / self.groups.len());
        let under = channels * self.kernel[0] * self.kernel[1];
        let mut output = vec![0.0; calls * shape[1] * places];
        // Limits the number of positions at a time, so that `rows` stays small.
        let together = (GATHERED / under.max(1)).clamp(ROWS, places.max(ROWS));
        let (mut rows, mut sums) = (vec![0.0; together * under], vec![0.0; together * filters]);
        for call in 0..calls {
            for (group, weights) in self.groups.iter().enumerate() {
                let first = (call * self.groups.len() + group) * channels * from[0] * from[1];
                let planes = &input.numbers[first..first + channels * from[0] * from[1]];
                let bias = &self.bias[group * filters..(group + 1) * filters];
                let first = (call * shape[1] + group * filters) * places;
                for begin in (0..places).step_by(together) {
                    let count = together.min(places - begin);
                    let (rows, sums) = (&mut rows[..count * under], &mut sums[..count * filters]);
                    self.gather(planes, channels, from, to[1], begin, rows);
                    sums.chunks_exact_mut(filters).for_each(|sums| sums.copy_from_slice(bias));
                    weights.add_product(rows, sums);
                    for (at, sums) in sums.chunks_exact(filters).enumerate() {
                        for (filter, &sum) in sums.iter().enumerate() {
                            output[first + filter * places + begin + at] = sum;
                        }
                    }
                }
            }
        }
        output
    }

    /// Gathers the numbers under the kernel, for positions from `begin` on; a line has `across` positions. Writes a row
    /// per position, with zeros for padding.
    fn gather(&self, planes: &[f32], channels: usize, from: [usize; 2], across: usize, begin: usize, rows: &mut [f32]) {
        let at = |place: usize, under: usize, axis: usize| {
            (place * self.strides[axis] + under * self.dilations[axis])
                .checked_sub(self.pads[axis])
                .filter(|&at| at < from[axis])
        };
        let [height, width] = self.kernel;
        for (place, row) in rows.chunks_exact_mut((channels * height * width).max(1)).enumerate() {
            let (y, x) = ((begin + place) / across, (begin + place) % across);
            for (under, number) in row.iter_mut().enumerate() {
                let (channel, down, right) = (under / (height * width), under / width % height, under % width);
                let source = at(y, down, 0).zip(at(x, right, 1));
                *number = source.map_or(0.0, |(y, x)| planes[(channel * from[0] + y) * from[1] + x]);
            }
        }
    }
}
