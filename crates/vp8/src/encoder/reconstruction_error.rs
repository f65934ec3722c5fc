//! How far a frame's reconstruction is from the picture, for whoever asks: coding itself never does.

use super::analysis::Analysis;
use super::distortion::row_squared_error;
use super::encoded::Encoded;

impl Analysis {
    /// The sum of squared differences between the picture and what a candidate of it shows, over the visible part of all
    /// three planes.
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
