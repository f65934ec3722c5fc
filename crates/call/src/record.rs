//! The per-frame log: one record a captured frame, the same from the simulator and from a live call.

use serde::{Deserialize, Serialize};

use lockstep_control::LimitedBy;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// What became of a captured frame at the sending end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A candidate was sent.
    Sent,
    /// No candidate fitted the budget.
    SkippedOverBudget,
    /// The state it was coded from was lost meanwhile.
    SkippedStaleSource,
    /// The encoder dropped the picture, to keep its rate.
    SkippedByEncoder,
    /// A newer picture arrived before the encoder was free.
    SkippedBusy,
    /// The transport did not take the frame, as when too many fragments wait already or the call has ended.
    SkippedByTransport,
    /// The call ended before the frame was decided on.
    Unfinished,
}

/// One captured frame, from its capture to its display. Everything is on one clock: the simulator's, or in a live call
/// on one machine the system's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameRecord {
    /// Number of the captured picture, from zero.
    pub capture: u64,
    /// When the source gave the picture.
    pub captured_at: Timestamp,
    /// What the sending end did with it.
    pub outcome: Outcome,
    /// Frame number on the wire, where one was sent.
    pub frame: Option<u32>,
    /// Whether the frame sent was a key frame.
    pub key_frame: bool,
    /// Whether it was encoded from an acknowledged state because of a loss, instead of from the frame before it.
    pub recovery: bool,
    /// Quantizer index of the frame sent, 0-127.
    pub quantizer: Option<u8>,
    /// Budget at the moment of the decision.
    pub budget: Option<ByteCount>,
    /// What held the frame back; none where the encoder never asked for a budget, as for a picture that came while it was busy.
    #[serde(default)]
    pub limited_by: Option<LimitedBy>,
    /// Size of the frame sent, without datagram headers.
    pub size: Option<ByteCount>,
    /// Sizes of all candidates offered, in the order they were encoded.
    pub candidates: Vec<ByteCount>,
    /// Datagrams that the frame became, those of parity not counted.
    pub fragments: Option<u16>,
    /// Datagrams of parity that went with it.
    #[serde(default)]
    pub parity: Option<u16>,
    /// When the encoder began with the picture.
    pub encode_started_at: Option<Timestamp>,
    /// When a candidate was picked and handed to the transport.
    pub sent_at: Option<Timestamp>,
    /// When the receiver had all fragments.
    pub completed_at: Option<Timestamp>,
    /// When the picture was shown; none if it never was.
    pub displayed_at: Option<Timestamp>,
    /// Luma SSIM of the picture shown against the one captured, 0-1.
    pub ssim: Option<f64>,
    /// Luma PSNR of the picture shown against the one captured, dB.
    pub psnr_db: Option<f64>,
    /// The controller's target when the picture was captured.
    #[serde(default)]
    pub target: Option<Bitrate>,
    /// What the controller took the path to carry then.
    #[serde(default)]
    pub estimate: Option<Bitrate>,
    /// The bit rate that the encoder coded the picture for, or would have if it had not dropped it.
    #[serde(default)]
    pub codec_target: Option<Bitrate>,
}

impl FrameRecord {
    /// The record of a picture that was just captured.
    #[must_use]
    pub fn captured(capture: u64, captured_at: Timestamp) -> Self {
        Self {
            capture,
            captured_at,
            outcome: Outcome::Unfinished,
            frame: None,
            key_frame: false,
            recovery: false,
            quantizer: None,
            budget: None,
            limited_by: None,
            size: None,
            candidates: Vec::new(),
            fragments: None,
            parity: None,
            encode_started_at: None,
            sent_at: None,
            completed_at: None,
            displayed_at: None,
            ssim: None,
            psnr_db: None,
            target: None,
            estimate: None,
            codec_target: None,
        }
    }

    /// Size over budget: 1 is a full budget, more is overshoot. None for frames not sent and for an empty budget.
    #[must_use]
    pub fn fill(&self) -> Option<f64> {
        let (size, budget) = (self.size?, self.budget?);
        (budget > ByteCount::ZERO).then(|| size.as_f64() / budget.as_f64())
    }
}

/// The record of a frame at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisplayRecord {
    /// Frame number on the wire.
    pub frame: u32,
    /// Arrival of the last fragment.
    pub completed_at: Timestamp,
    /// The moment when the picture was shown.
    pub displayed_at: Timestamp,
}
