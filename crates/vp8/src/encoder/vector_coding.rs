//! Coding of motion vector differences (RFC 6386, section 17): costs, counts and writing.

use super::bit_cost::{BIT, bit_cost, branch_cost, fitting_probability};
use super::bool_encoder::BoolEncoder;
use crate::tables::MOTION_VECTOR_UPDATE_PROBABILITIES;

/// Probabilities of both components, vertical first.
pub(crate) type VectorProbabilities = [[u8; 19]; 2];

/// Largest magnitude of a component's difference, in quarter samples.
pub(crate) const MAX_COMPONENT: i32 = 1023;

const IS_LONG: usize = 0;
const SIGN: usize = 1;
const SHORT: usize = 2;
const LONG: usize = 9;
const LONG_BITS: usize = 10;

/// Calls `visit` for each boolean of a component, with the index of its probability and its value.
#[inline]
fn component(value: i32, mut visit: impl FnMut(usize, bool)) {
    let magnitude = value.unsigned_abs() as usize;
    let bit = |n: usize| magnitude >> n & 1 == 1;
    if magnitude < 8 {
        visit(IS_LONG, false);
        visit(SHORT, bit(2));
        visit(SHORT + 1 + 3 * (magnitude >> 2), bit(1));
        visit(SHORT + 2 + 3 * (magnitude >> 2) + (magnitude >> 1 & 1), bit(0));
    } else {
        visit(IS_LONG, true);
        for n in (0..3).chain((4..LONG_BITS).rev()) {
            visit(LONG + n, bit(n));
        }
        // For magnitudes from 8 to 15 this bit is always set and not written.
        if magnitude > 15 {
            visit(LONG + 3, bit(3));
        }
    }
    if magnitude != 0 {
        visit(SIGN, value < 0);
    }
}

/// Cost of each magnitude of a component. In the long form the bits have independent costs, except for bit 3. So a cost
/// is the sum of the costs of the four lowest bits and of the higher bits.
fn component_costs(p: &[u8; 19]) -> Vec<u16> {
    let cost_of = |magnitude: i32| {
        let mut cost = 0;
        component(magnitude, |index, bit| cost += if index == SIGN { BIT } else { bit_cost(bit, p[index]) });
        cost
    };
    // With a higher bit set, bit 3 is written. The cost of that higher bit is subtracted again.
    let low: [u32; 16] = std::array::from_fn(|low| cost_of(16 + low as i32).wrapping_sub(cost_of(16)));
    let mut costs = Vec::with_capacity(MAX_COMPONENT as usize + 1);
    costs.extend((0..16).map(|magnitude| cost_of(magnitude) as u16));
    for high in (16..=MAX_COMPONENT).step_by(16) {
        let high = cost_of(high);
        // Wrapping, because the four lowest bits may cost less than zeros.
        costs.extend(low.iter().map(|&low| high.wrapping_add(low) as u16));
    }
    costs
}

/// Costs of vector differences: by component and magnitude.
#[derive(Debug, Clone, Default)]
pub(crate) struct VectorCosts {
    costs: [Vec<u16>; 2],
}

impl VectorCosts {
    /// Computes the costs with these probabilities. Both signs count one bit.
    pub(crate) fn new(probabilities: &VectorProbabilities) -> Self {
        Self { costs: probabilities.each_ref().map(component_costs) }
    }

    /// Cost of a difference in quarter samples. A difference that cannot be coded costs as much as the largest one.
    #[inline]
    pub(crate) fn of(&self, vertical: i32, horizontal: i32) -> u32 {
        let index = |value: i32| value.abs().min(MAX_COMPONENT) as usize;
        u32::from(self.costs[0][index(vertical)]) + u32::from(self.costs[1][index(horizontal)])
    }
}

/// Whether a difference can be coded.
#[inline]
pub(crate) fn is_codable(vertical: i32, horizontal: i32) -> bool {
    vertical.abs() <= MAX_COMPONENT && horizontal.abs() <= MAX_COMPONENT
}

/// Writes a difference.
pub(crate) fn write(writer: &mut BoolEncoder, vertical: i32, horizontal: i32, probabilities: &VectorProbabilities) {
    for (value, p) in [vertical, horizontal].into_iter().zip(probabilities) {
        component(value, |index, bit| writer.write(bit, p[index]));
    }
}

/// Counts of the booleans of vector differences: false and true.
#[derive(Debug, Clone, Default)]
pub(crate) struct VectorCounts {
    counts: [[[u32; 2]; 19]; 2],
}

impl VectorCounts {
    /// Counts one difference.
    pub(crate) fn add(&mut self, vertical: i32, horizontal: i32) {
        for (value, counts) in [vertical, horizontal].into_iter().zip(&mut self.counts) {
            component(value, |index, bit| counts[index][usize::from(bit)] += 1);
        }
    }

    /// Writes the probability updates that save bits in this frame (RFC 6386, section 17.2).
    pub(crate) fn write_updates(&self, writer: &mut BoolEncoder, probabilities: &mut VectorProbabilities) {
        for (component, counts) in self.counts.iter().enumerate() {
            for (index, &[falses, trues]) in counts.iter().enumerate() {
                let flag = MOTION_VECTOR_UPDATE_PROBABILITIES[component][index];
                let old = probabilities[component][index];
                // Seven bits are written, so probabilities are even, or one instead of zero.
                let sent = fitting_probability(falses, trues) >> 1;
                let new = if sent == 0 { 1 } else { sent << 1 };
                let change = u64::from(bit_cost(true, flag) + 7 * BIT);
                let update = falses + trues > 0
                    && new != old
                    && branch_cost(falses, trues, new) + change
                        < branch_cost(falses, trues, old) + u64::from(bit_cost(false, flag));
                writer.write(update, flag);
                if update {
                    writer.write_literal(u32::from(sent), 7);
                    probabilities[component][index] = new;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bool_decoder::BoolDecoder;
    use crate::tables::{DEFAULT_MOTION_VECTOR_PROBABILITIES, SHORT_VECTOR_TREE};

    /// Reads a component as RFC 6386, section 17.2, specifies.
    fn read(decoder: &mut BoolDecoder<'_>, p: &[u8; 19]) -> i32 {
        let mut value = 0;
        if decoder.read_bool(p[IS_LONG]) {
            for bit in (0..3).chain((4..10).rev()) {
                value += i32::from(decoder.read_bool(p[LONG + bit])) << bit;
            }
            if value & 0xfff0 == 0 || decoder.read_bool(p[LONG + 3]) {
                value += 8;
            }
        } else {
            let mut node = 0usize;
            loop {
                let next = SHORT_VECTOR_TREE[node + usize::from(decoder.read_bool(p[SHORT + node / 2]))];
                if next <= 0 {
                    value = -i32::from(next);
                    break;
                }
                node = next as usize;
            }
        }
        if value != 0 && decoder.read_bool(p[SIGN]) { -value } else { value }
    }

    #[test]
    fn cost_of_a_magnitude_matches_its_booleans() {
        for p in &DEFAULT_MOTION_VECTOR_PROBABILITIES {
            let costs = component_costs(p);
            assert_eq!(costs.len(), MAX_COMPONENT as usize + 1);
            for (magnitude, cost) in costs.into_iter().enumerate() {
                let mut expected = 0;
                component(magnitude as i32, |index, bit| {
                    expected += if index == SIGN { BIT } else { bit_cost(bit, p[index]) };
                });
                assert_eq!(u32::from(cost), expected, "{magnitude}");
            }
        }
    }

    #[test]
    fn differences_round_trip_at_their_expected_cost() {
        let probabilities = DEFAULT_MOTION_VECTOR_PROBABILITIES;
        let costs = VectorCosts::new(&probabilities);
        let mut writer = BoolEncoder::with_capacity(0);
        let mut cost = 0;
        for value in -MAX_COMPONENT..=MAX_COMPONENT {
            write(&mut writer, value, -value, &probabilities);
            cost += costs.of(value, -value);
        }
        let bytes = writer.finish();
        let (bits, expected) = (8.0 * bytes.len() as f64, f64::from(cost) / 256.0);
        assert!((bits - expected).abs() < expected / 20.0, "{bits} bits, expected {expected}");
        let mut decoder = BoolDecoder::new(&bytes);
        for value in -MAX_COMPONENT..=MAX_COMPONENT {
            assert_eq!(read(&mut decoder, &probabilities[0]), value);
            assert_eq!(read(&mut decoder, &probabilities[1]), -value);
        }
    }
}
