//! Reconstruction error of a frame, which only `fit` needs.

use super::analysis::Analysis;
use super::distortion::row_squared_error;
use super::encoded::Encoded;

impl Analysis {
    /// Sum of squared differences between the picture and a candidate's reconstruction, over the visible part of all
    /// planes.
    pub(super) fn squared_error(&self, encoded: &Encoded) -> u64 {
        let (shown, source) = (encoded.picture(), &self.source);
        let mut error = 0;
        for (source, shown) in source.planes.iter().zip(shown.planes()) {
            let rows = shown.rows().enumerate();
            error += rows.map(|(y, row)| u64::from(row_squared_error(&source.at(0, y)[..row.len()], row))).sum::<u64>();
        }
        error
    }
}
