//! Matrix products, which take most of the time of a run.
//!
//! Each sum adds its terms in order and rounds after each, so that the result is equal on every machine. Vector
//! instructions compute several sums in parallel, never several terms of one sum.

/// Number of columns summed in parallel.
const COLUMNS: usize = 8;
/// Number of rows multiplied together.
pub(crate) const ROWS: usize = 4;

/// A matrix of `inner` rows, packed in bands of [`COLUMNS`] columns; zeros fill the last band.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    bands: Vec<f32>,
    pub inner: usize,
    pub columns: usize,
}

impl Packed {
    /// Packs the matrix with the elements `at(row, column)`.
    pub fn new(inner: usize, columns: usize, at: impl Fn(usize, usize) -> f32) -> Self {
        let mut bands = vec![0.0; columns.div_ceil(COLUMNS) * COLUMNS * inner];
        for (band, packed) in bands.chunks_exact_mut((inner * COLUMNS).max(1)).enumerate() {
            for (row, numbers) in packed.chunks_exact_mut(COLUMNS).enumerate() {
                for (place, number) in numbers.iter_mut().enumerate().take(columns - band * COLUMNS) {
                    *number = at(row, band * COLUMNS + place);
                }
            }
        }
        Self { bands, inner, columns }
    }

    /// Adds the product of `left`, with rows of `inner` numbers, and this matrix to `into`, row by row.
    pub fn add_product(&self, left: &[f32], into: &mut [f32]) {
        let (inner, columns) = (self.inner, self.columns);
        if inner == 0 || columns == 0 {
            return;
        }
        for (left, into) in left.chunks(ROWS * inner).zip(into.chunks_mut(ROWS * columns)) {
            for (band, packed) in self.bands.chunks_exact(inner * COLUMNS).enumerate() {
                let at = band * COLUMNS;
                let width = COLUMNS.min(columns - at);
                let mut sums = [[0.0; COLUMNS]; ROWS];
                if left.len() == ROWS * inner {
                    let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &left[row * inner..(row + 1) * inner]);
                    tile(rows, packed, &mut sums);
                } else {
                    for (row, sums) in left.chunks_exact(inner).zip(&mut sums) {
                        tile([row], packed, std::array::from_mut(sums));
                    }
                }
                for (sums, into) in sums.iter().zip(into.chunks_exact_mut(columns)) {
                    for (number, sum) in into[at..at + width].iter_mut().zip(sums) {
                        *number += sum;
                    }
                }
            }
        }
    }
}

/// Sums of `COUNT` rows with one band.
#[inline(always)]
fn tile<const COUNT: usize>(rows: [&[f32]; COUNT], packed: &[f32], sums: &mut [[f32; COLUMNS]; COUNT]) {
    let mut own = *sums;
    for (place, weights) in packed.chunks_exact(COLUMNS).enumerate() {
        for (row, sums) in rows.iter().zip(&mut own) {
            let number = row[place];
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum += number * weight;
            }
        }
    }
    *sums = own;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_sums_its_terms_in_order() {
        let number = |row: usize, column: usize| ((row * 31 + column * 17) % 23) as f32 * 0.37 - 4.0;
        for (rows, inner, columns) in [(1, 1, 1), (3, 5, 7), (4, 8, 8), (9, 33, 26), (10, 0, 3)] {
            let left: Vec<f32> = (0..rows * inner).map(|place| number(place, place / 3)).collect();
            let packed = Packed::new(inner, columns, number);
            let mut product = vec![0.5; rows * columns];
            packed.add_product(&left, &mut product);
            for row in 0..rows {
                for column in 0..columns {
                    let terms = (0..inner).map(|place| left[row * inner + place] * number(place, column));
                    assert_eq!(product[row * columns + column].to_bits(), (0.5 + terms.sum::<f32>()).to_bits());
                }
            }
        }
    }
}
