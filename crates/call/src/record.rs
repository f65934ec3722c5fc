//! Frame log: one record per captured picture, identical for the simulator and a live call.

use serde::{Deserialize, Serialize};

use lockstep_control::LimitedBy;
use lockstep_media::PictureQuality;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Outcome of a captured picture at the sending end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A candidate was sent.
    Sent,
    /// No candidate fitted the budget.
    SkippedOverBudget,
    /// Its source state was lost during coding.
    SkippedStaleSource,
    /// The encoder skipped the picture to keep its rate.
    SkippedByEncoder,
    /// A newer picture arrived before the encoder was free.
    SkippedBusy,
    /// The transport refused the frame, for example because too many fragments wait or the call has ended.
    SkippedByTransport,
    /// The call ended before the decision.
    Unfinished,
}

/// Record of one captured picture, from capture to display. All times are on one clock: the simulator's, or the
/// system's in a live call on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameRecord {
    /// Number of the captured picture, from zero.
    pub capture: u64,
    /// Time when the source delivered the picture.
    pub captured_at: Timestamp,
    /// Its outcome at the sending end.
    pub outcome: Outcome,
    /// Frame number on the wire, if a frame was sent.
    pub frame: Option<u32>,
    /// Whether the frame sent was a key frame.
    pub key_frame: bool,
    /// Whether it was coded from an acknowledged state because of a loss, instead of from the previous frame.
    pub recovery: bool,
    /// Quantizer index of the sent frame, 0 to 127.
    pub quantizer: Option<u8>,
    /// Budget at the decision.
    pub budget: Option<ByteCount>,
    /// Limit that bound the frame; none if the encoder requested no budget, for example because it was busy.
    #[serde(default)]
    pub limited_by: Option<LimitedBy>,
    /// Size of the sent frame without datagram headers.
    pub size: Option<ByteCount>,
    /// Sizes of all candidates, in the order of coding.
    pub candidates: Vec<ByteCount>,
    /// Number of states that the sender held at the decision, apart from the empty one.
    #[serde(default)]
    pub sender_states: Option<u16>,
    /// Number of states that the receiver held at its newest acknowledgement before the decision.
    #[serde(default)]
    pub receiver_states: Option<u16>,
    /// Memory of the frame's target state by itself.
    #[serde(default)]
    pub state_size: Option<ByteCount>,
    /// Number of its datagrams without parity.
    pub fragments: Option<u16>,
    /// Number of its parity datagrams.
    #[serde(default)]
    pub parity: Option<u16>,
    /// Effort level of the encoder, from 0; none for codecs without levels.
    #[serde(default)]
    pub effort: Option<u8>,
    /// Time when the encoder started with the picture.
    pub encode_started_at: Option<Timestamp>,
    /// Time when a candidate was chosen and passed to the transport.
    pub sent_at: Option<Timestamp>,
    /// Time when the receiver had all fragments.
    pub completed_at: Option<Timestamp>,
    /// Time when the picture was displayed; none if it never was.
    pub displayed_at: Option<Timestamp>,
    /// Luma SSIM of the displayed picture against the captured one, 0 to 1.
    pub ssim: Option<f64>,
    /// Luma PSNR of the displayed picture against the captured one, dB.
    pub psnr_db: Option<f64>,
    /// Luma SSIM of the text in a displayed screen, 0 to 1; none for other pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_ssim: Option<f64>,
    /// The controller's target at capture.
    #[serde(default)]
    pub target: Option<Bitrate>,
    /// The controller's estimate of the path's capacity at capture.
    #[serde(default)]
    pub estimate: Option<Bitrate>,
    /// Target of the encoder for the picture, or the target that it would have had if not skipped.
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
            sender_states: None,
            receiver_states: None,
            state_size: None,
            fragments: None,
            parity: None,
            effort: None,
            encode_started_at: None,
            sent_at: None,
            completed_at: None,
            displayed_at: None,
            ssim: None,
            psnr_db: None,
            text_ssim: None,
            target: None,
            estimate: None,
            codec_target: None,
        }
    }

    /// Sets the measured quality of the displayed picture.
    pub fn set_quality(&mut self, quality: PictureQuality) {
        let PictureQuality { ssim, psnr_db, text_ssim } = quality;
        (self.ssim, self.psnr_db, self.text_ssim) = (Some(ssim), Some(psnr_db), text_ssim);
    }

    /// Size over budget: 1 is a full budget, more is overshoot. None for unsent frames and an empty budget.
    #[must_use]
    pub fn fill(&self) -> Option<f64> {
        let (size, budget) = (self.size?, self.budget?);
        (budget > ByteCount::ZERO).then(|| size.as_f64() / budget.as_f64())
    }
}

/// Record of a frame at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisplayRecord {
    /// Frame number on the wire.
    pub frame: u32,
    /// Arrival time of the last fragment.
    pub completed_at: Timestamp,
    /// Display time of the picture.
    pub displayed_at: Timestamp,
}
