//! The records of a live sender, which wait until the quality of their frames has been measured on another thread.

use std::collections::VecDeque;

use lockstep_call::FrameRecord;

/// Frames that may wait to be measured; of a machine too slow for that, the next ones are not.
const MOST_MEASURED: usize = 32;

/// Luma SSIM and PSNR (dB) of a frame.
pub(crate) type Quality = (f64, f64);

/// Records in the order of capture, some of which still lack a quality.
#[derive(Debug, Default)]
pub(crate) struct Measuring {
    records: VecDeque<FrameRecord>,
    /// The captured pictures whose quality is being measured, in order.
    measured: VecDeque<u64>,
}

impl Measuring {
    /// Whether one more may be measured.
    pub(crate) fn has_room(&self) -> bool {
        self.measured.len() < MOST_MEASURED
    }

    /// The quality of captured picture `capture` is being measured; its record comes next.
    pub(crate) fn begin(&mut self, capture: u64) {
        self.measured.push_back(capture);
    }

    /// A record that the call has decided on.
    pub(crate) fn push(&mut self, record: FrameRecord) {
        self.records.push_back(record);
    }

    /// The quality of captured picture `capture` is known, or will not be.
    pub(crate) fn measured(&mut self, capture: u64, quality: Option<Quality>) {
        self.measured.retain(|&other| other != capture);
        if let (Some(record), Some((ssim, psnr_db))) =
            (self.records.iter_mut().find(|record| record.capture == capture), quality)
        {
            (record.ssim, record.psnr_db) = (Some(ssim), Some(psnr_db));
        }
    }

    /// The next record of which nothing is missing any more.
    pub(crate) fn pop(&mut self) -> Option<FrameRecord> {
        let record = self.records.front()?;
        if self.measured.contains(&record.capture) { None } else { self.records.pop_front() }
    }

    /// The next record, when nothing more will be measured.
    pub(crate) fn pop_any(&mut self) -> Option<FrameRecord> {
        self.records.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use lockstep_units::Timestamp;

    use super::*;

    #[test]
    fn records_come_in_order_and_wait_for_what_is_being_measured() {
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
        measuring.measured(1, Some((0.9, 40.0)));
        assert_eq!(next(&mut measuring), Some((1, Some(0.9))));
        assert_eq!(next(&mut measuring), Some((2, None)));
    }
}
