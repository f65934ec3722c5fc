//! Per-frame log as a table with one row per captured picture.

use lockstep_call::{FrameRecord, Outcome};
use lockstep_units::Timestamp;

/// Function that computes a column of the log from a record.
#[derive(Debug, Clone, Copy)]
pub enum FrameColumn {
    /// Integer.
    Integer(fn(&FrameRecord) -> Option<i64>),
    /// Number. Times are seconds since the given start of the call.
    Number(fn(&FrameRecord, Timestamp) -> Option<f64>),
    /// Boolean.
    Flag(fn(&FrameRecord) -> bool),
    /// Text.
    Text(fn(&FrameRecord) -> String),
    /// Video delay, seconds ([`LoggedFrame::video_delay`](crate::LoggedFrame::video_delay)).
    VideoDelay,
}

fn since(start: Timestamp, moment: Option<Timestamp>) -> Option<f64> {
    moment.map(|moment| moment.saturating_since(start).as_secs_f64())
}

fn outcome(record: &FrameRecord) -> String {
    match record.outcome {
        Outcome::Sent => "sent",
        Outcome::SkippedOverBudget => "skipped_over_budget",
        Outcome::SkippedStaleSource => "skipped_stale_source",
        Outcome::SkippedByEncoder => "skipped_by_encoder",
        Outcome::SkippedBusy => "skipped_busy",
        Outcome::SkippedByTransport => "skipped_by_transport",
        Outcome::Unfinished => "unfinished",
    }
    .to_owned()
}

fn limited_by(record: &FrameRecord) -> String {
    record.limited_by.map_or_else(String::new, |limit| limit.name().to_owned())
}

fn candidates(record: &FrameRecord) -> String {
    record.candidates.iter().map(|size| size.get().to_string()).collect::<Vec<_>>().join(";")
}

/// Columns of the log in order, by name.
pub const FRAME_COLUMNS: &[(&str, FrameColumn)] = &[
    ("capture", FrameColumn::Integer(|record| i64::try_from(record.capture).ok())),
    ("captured_at", FrameColumn::Number(|record, start| since(start, Some(record.captured_at)))),
    ("outcome", FrameColumn::Text(outcome)),
    ("frame", FrameColumn::Integer(|record| record.frame.map(i64::from))),
    ("key_frame", FrameColumn::Flag(|record| record.key_frame)),
    ("recovery", FrameColumn::Flag(|record| record.recovery)),
    ("quantizer", FrameColumn::Integer(|record| record.quantizer.map(i64::from))),
    ("effort", FrameColumn::Integer(|record| record.effort.map(i64::from))),
    ("budget", FrameColumn::Integer(|record| record.budget.and_then(|bytes| i64::try_from(bytes.get()).ok()))),
    ("limited_by", FrameColumn::Text(limited_by)),
    ("size", FrameColumn::Integer(|record| record.size.and_then(|bytes| i64::try_from(bytes.get()).ok()))),
    ("candidates", FrameColumn::Text(candidates)),
    ("fragments", FrameColumn::Integer(|record| record.fragments.map(i64::from))),
    ("parity", FrameColumn::Integer(|record| record.parity.map(i64::from))),
    ("encode_started_at", FrameColumn::Number(|record, start| since(start, record.encode_started_at))),
    ("sent_at", FrameColumn::Number(|record, start| since(start, record.sent_at))),
    ("completed_at", FrameColumn::Number(|record, start| since(start, record.completed_at))),
    ("displayed_at", FrameColumn::Number(|record, start| since(start, record.displayed_at))),
    ("video_delay", FrameColumn::VideoDelay),
    ("ssim", FrameColumn::Number(|record, _| record.ssim)),
    ("psnr_db", FrameColumn::Number(|record, _| record.psnr_db)),
    ("text_ssim", FrameColumn::Number(|record, _| record.text_ssim)),
    ("target_bps", FrameColumn::Integer(|record| record.target.and_then(|rate| i64::try_from(rate.as_bps()).ok()))),
    ("estimate_bps", FrameColumn::Integer(|record| record.estimate.and_then(|rate| i64::try_from(rate.as_bps()).ok()))),
];

#[cfg(test)]
mod tests {
    use lockstep_control::LimitedBy;

    use super::*;

    #[test]
    fn outcomes_have_the_same_names_in_json_and_tables() {
        let outcomes = [
            Outcome::Sent,
            Outcome::SkippedOverBudget,
            Outcome::SkippedStaleSource,
            Outcome::SkippedByEncoder,
            Outcome::SkippedBusy,
            Outcome::SkippedByTransport,
            Outcome::Unfinished,
        ];
        for of in outcomes {
            let record = FrameRecord { outcome: of, ..FrameRecord::captured(0, Timestamp::ZERO) };
            assert_eq!(serde_json::to_value(of).unwrap(), outcome(&record), "{of:?}");
        }
    }

    #[test]
    fn limits_have_the_same_names_in_json_and_tables() {
        for limit in LimitedBy::ALL {
            let record = FrameRecord { limited_by: Some(limit), ..FrameRecord::captured(0, Timestamp::ZERO) };
            assert_eq!(serde_json::to_value(limit).unwrap(), limited_by(&record));
        }
    }
}
