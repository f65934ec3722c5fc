//! Records of a live sender, which wait until another thread has measured the quality of their frames.

use std::collections::VecDeque;

use lockstep_call::FrameRecord;
use lockstep_media::PictureQuality;

/// Frames that may wait for measurement; on a slow machine, further ones are not measured.
const MAX_QUEUED_FRAMES: usize = 32;

/// Records in capture order, some of which still lack their quality.
#[derive(Debug, Default)]
pub(crate) struct Measuring {
    records: VecDeque<FrameRecord>,
    /// Captured pictures whose quality is being measured, in order.
    measured: VecDeque<u64>,
}

impl Measuring {
    /// Whether one more frame may be measured.
    pub(crate) fn has_room(&self) -> bool {
        self.measured.len() < MAX_QUEUED_FRAMES
    }

    /// Starts the measurement of captured picture `capture`; its record follows.
    pub(crate) fn begin(&mut self, capture: u64) {
        self.measured.push_back(capture);
    }

    /// Adds a complete record of the call.
    pub(crate) fn push(&mut self, record: FrameRecord) {
        self.records.push_back(record);
    }

    /// Ends the measurement of captured picture `capture`; without a quality, it was not measured.
    pub(crate) fn measured(&mut self, capture: u64, quality: Option<PictureQuality>) {
        self.measured.retain(|&other| other != capture);
        let record = self.records.iter_mut().find(|record| record.capture == capture);
        if let (Some(record), Some(quality)) = (record, quality) {
            record.set_quality(quality);
        }
    }

    /// The next record, if it is complete.
    pub(crate) fn pop(&mut self) -> Option<FrameRecord> {
        let record = self.records.front()?;
        if self.measured.contains(&record.capture) { None } else { self.records.pop_front() }
    }

    /// The next record, when no measurement follows.
    pub(crate) fn pop_any(&mut self) -> Option<FrameRecord> {
        self.records.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use lockstep_units::Timestamp;

    use super::*;

    #[test]
    fn records_keep_their_order_and_wait_for_measurements() {
        let mut measuring = Measuring::default();
        for capture in 0..4 {
            if capture == 1 {
                measuring.begin(capture);
            }
            measuring.push(FrameRecord::captured(capture, Timestamp::ZERO));
        }
        let next = |measuring: &mut Measuring| measuring.pop().map(|record| (record.capture, record.ssim));
        assert_eq!(next(&mut measuring), Some((0, None)));
        assert_eq!(next(&mut measuring), None);
        measuring.measured(1, Some(PictureQuality { ssim: 0.9, psnr_db: 40.0, text_ssim: None }));
        assert_eq!(next(&mut measuring), Some((1, Some(0.9))));
        assert_eq!(next(&mut measuring), Some((2, None)));
    }
}
