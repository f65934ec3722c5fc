//! The conventional codec of a modelled call: `lockstep_call::ConventionalEncoder` and its transport's repairs, without
//! pixels and bytes.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_call::{ModelledEncoder, ModelledFrame, RateControl};
use lockstep_transport::LostFragment;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::outbox::{Outbox, SentFrame};
use super::packet::FRAGMENT_HEADERS;

/// The quantizers that the codec may choose, key frames that losses ask for, and how long a frame is repaired: as in
/// `lockstep_call::ConventionalEncoder` and `lockstep_transport`'s retransmission, where they have their sources.
const QUANTIZERS: (u8, u8) = (2, 106);
const KEY_FRAME_INTERVAL: Duration = Duration::from_millis(300);
const MOST_RETRIES: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_ROUND_TRIPS: u32 = 3;
const MOST_PATIENCE: Duration = Duration::from_secs(3);
/// Share of an error in size that the codec believes to last, as in the real one's curve of sizes.
const LEARNED: f64 = 0.5;

/// A frame that may have to be repaired.
#[derive(Debug, Clone, Copy)]
struct Kept {
    frame: SentFrame,
    sent_at: Timestamp,
    retries: u32,
}

#[derive(Debug)]
pub(super) struct Conventional {
    rate_control: RateControl,
    /// How much larger than the clip's mean pictures have been lately, natural logarithm.
    expected_excess: f64,
    key_frame_at: Option<Timestamp>,
    must_be_key: bool,
    kept: VecDeque<Kept>,
}

/// How a picture is to be coded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decision {
    quantizer: u8,
    pub(super) key_frame: bool,
}

impl Conventional {
    pub(super) fn new(frame_interval: Duration) -> Self {
        Self {
            rate_control: RateControl::new(frame_interval),
            expected_excess: 0.0,
            key_frame_at: None,
            must_be_key: true,
            kept: VecDeque::new(),
        }
    }

    /// Decides on a picture before it is coded; none if it is dropped.
    pub(super) fn begin(&mut self, now: Timestamp, target: Bitrate, encoder: &ModelledEncoder) -> Option<Decision> {
        let key_frame = self.must_be_key;
        if key_frame && self.key_frame_at.is_some_and(|at| now < at + KEY_FRAME_INTERVAL) {
            return None;
        }
        let sizes = self.rate_control.begin(now, target, key_frame)?;
        let size = if key_frame { sizes.key } else { sizes.inter };
        let quantizer = encoder.quantizer_for(size, self.expected_excess, key_frame);
        Some(Decision { quantizer: quantizer.clamp(QUANTIZERS.0, QUANTIZERS.1), key_frame })
    }

    /// Codes the picture as decided.
    pub(super) fn encode(&mut self, now: Timestamp, decision: Decision, encoder: &ModelledEncoder) -> ModelledFrame {
        let coded = encoder.encode(decision.quantizer, decision.key_frame);
        if decision.key_frame {
            self.must_be_key = false;
            self.key_frame_at = Some(now);
        } else {
            let error = encoder.picture().excess() - self.expected_excess;
            self.expected_excess += LEARNED * error;
        }
        self.rate_control.sent(coded.size);
        coded
    }

    /// A frame was handed to the pacer.
    pub(super) fn sent(&mut self, now: Timestamp, frame: SentFrame) {
        self.kept.push_back(Kept { frame, sent_at: now, retries: 0 });
    }

    /// The receiver has decoded everything up to `frame`.
    pub(super) fn decoded(&mut self, frame: u32) {
        while self.kept.front().is_some_and(|kept| kept.frame.number <= frame) {
            self.kept.pop_front();
        }
    }

    /// Fragments were lost: has them sent again, or gives their frames up.
    pub(super) fn lost(
        &mut self,
        now: Timestamp,
        lost: &[LostFragment],
        round_trip: Option<Duration>,
        outbox: &mut Outbox,
    ) {
        let patience = round_trip.map_or(PATIENCE, |time| PATIENCE.max(time * PATIENCE_ROUND_TRIPS)).min(MOST_PATIENCE);
        for fragment in lost {
            let Ok(index) = self.kept.binary_search_by_key(&fragment.frame, |kept| kept.frame.number) else { continue };
            let kept = &mut self.kept[index];
            let payload = fragment.size.saturating_sub(ByteCount::new(FRAGMENT_HEADERS - 28));
            let hopeless = now.saturating_since(kept.sent_at) > patience
                || kept.retries >= MOST_RETRIES * u32::from(kept.frame.fragments)
                || !outbox.repeat(now, kept.frame, fragment.fragment, payload);
            kept.retries += 1;
            if hopeless {
                // Nothing that follows can be decoded either, until a key frame comes.
                self.must_be_key = true;
                self.kept.clear();
                outbox.forget_repetitions_before(u32::MAX);
                return;
            }
        }
    }
}
