//! How strongly to filter the reconstruction.

use super::analysis::Analysis;
use super::distortion::row_squared_error;
use super::parameters::Preset;
use crate::frame::{BORDER, FrameLayout};
use crate::header::{FrameHeader, LoopFilterHeader};
use crate::loop_filter::filter_frame;
use crate::macroblock::MacroblockInfo;

/// The filter's level for a frame whose `samples` are reconstructed but not filtered: by rule in real time, by trial for quality.
pub(super) fn choose_level(
    analysis: &Analysis,
    quantizer: u8,
    samples: &[u8],
    infos: &[MacroblockInfo],
    header: &FrameHeader,
) -> u8 {
    let start = usual_level(quantizer, analysis.key_frame);
    if analysis.preset == Preset::RealTime {
        return start;
    }
    let strip = Strip::new(analysis, infos, samples);
    let mut scratch = strip.samples.clone();
    let mut error_at = |level: u8| strip.error(level, analysis, header, &mut scratch);
    let (mut best, mut best_error) = (start, error_at(start));
    for step in [8, 4, 2, 1] {
        let from = best;
        for level in [from.saturating_sub(step), (from + step).min(63)] {
            let error = error_at(level);
            if error < best_error {
                (best, best_error) = (level, error);
            }
        }
    }
    best
}

/// The level that suits a quantizer in most pictures: about what trials find.
fn usual_level(quantizer: u8, key_frame: bool) -> u8 {
    let level = u32::from(quantizer) * u32::from(quantizer) / 400 + u32::from(quantizer) / 8;
    (if key_frame { level } else { level * 7 / 8 }).min(63) as u8
}

/// Rows around the strip.
const MARGIN: usize = BORDER / 2;

/// The middle third of a frame's rows: enough to judge the filter by.
struct Strip<'a> {
    layout: FrameLayout,
    first: usize,
    infos: &'a [MacroblockInfo],
    samples: Vec<u8>,
}

impl<'a> Strip<'a> {
    fn new(analysis: &Analysis, infos: &'a [MacroblockInfo], samples: &[u8]) -> Self {
        let mut layout = analysis.layout;
        let rows = layout.rows.div_ceil(3);
        let first = (layout.rows - rows) / 2;
        layout.rows = rows;
        let mut strip = Vec::new();
        for (index, plane) in layout.planes.iter_mut().enumerate() {
            let size = if index == 0 { 16 } else { 8 };
            // With as much around it as a whole frame has at least: the filter may read there.
            let margin = MARGIN * plane.stride;
            let start = plane.origin + first * size * plane.stride - margin;
            let length = rows * size * plane.stride + 2 * margin;
            plane.origin = strip.len() + margin;
            plane.height = rows * size;
            strip.extend_from_slice(&samples[start..start + length]);
        }
        Self { layout, first, infos: &infos[first * layout.columns..(first + rows) * layout.columns], samples: strip }
    }

    /// Squared luma error of the strip filtered at `level`.
    fn error(&self, level: u8, analysis: &Analysis, header: &FrameHeader, scratch: &mut [u8]) -> u64 {
        scratch.copy_from_slice(&self.samples);
        let filter = LoopFilterHeader { level, ..header.loop_filter };
        let (deltas, segmentation) = (&header.loop_filter_deltas, &header.segmentation);
        filter_frame(scratch, &self.layout, self.infos, analysis.key_frame, &filter, deltas, segmentation);
        let source = &analysis.source.planes[0];
        let plane = &self.layout.planes[0];
        (0..plane.height)
            .map(|y| {
                let original = &source.at(0, 16 * self.first + y)[..plane.width];
                u64::from(row_squared_error(original, &scratch[plane.origin + y * plane.stride..][..plane.width]))
            })
            .sum()
    }
}
