//! When a small frame is sent although no budget holds one, so that something is learned of the path.

use std::time::Duration;

use lockstep_transport::wire::CARRIAGE;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::WINDOW;
use super::deliveries::Deliveries;
use super::silence::{FIRST_ROUND_TRIP, Silence};
use crate::InFlight;

/// Least and longest pause between two probes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Least pause between two probes while sound is acknowledged: sound goes first, but it says little of what pictures may have.
const PAUSE_BESIDE_SOUND: Duration = Duration::from_millis(250);
/// Bytes in flight are through soon if the path needs no longer for them than a base round trip and this.
const SOON: Duration = Duration::from_millis(150);
/// The share of a window's deliveries that may go into silence before probes become rare: if those bytes are only queued,
/// they are through 100 ms after the path works again.
const SILENT_SHARE: (u64, u64) = (1, 5);
const LEAST_HARMLESS: u64 = 1_500;
/// The share of the delivery rate that probes may use as long as a silence lasts. Of 0.02, 0.05, 0.1 and no such bound this
/// had the highest QoE_d (lab: `docs/controllers.md`, "Into silence").
const RATE_SHARE: f64 = 0.02;
/// Packets of a small probe: where only feedback was late before, probes are due while the path can carry one.
const SMALL_PROBE: u64 = 2;
/// Least and longest pause between two hellos into silence.
const GREETING_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Bytes of a hello on the link.
const GREETING: ByteCount = ByteCount::new(20 + CARRIAGE);
/// Hellos use one part in so many of the rate that the path delivered.
const GREETING_SHARE: u64 = 16;
/// A pause between hellos lasts one part in so many of the silence: a path that loses packets in bursts works again after
/// so many packets, not after so much time.
const GREETINGS_FADE: u32 = 40;

/// Decides on probes and hellos.
#[derive(Debug)]
pub(super) struct Probing {
    payload: ByteCount,
    /// Probes since they exceed what does no harm.
    excess: u32,
}

impl Probing {
    pub(super) fn new(payload: ByteCount) -> Self {
        Self { payload, excess: 0 }
    }

    /// A frame was sent that its budget did not hold.
    pub(super) fn on_probe(&mut self, silence: &Silence, deliveries: &Deliveries) {
        if silence.unanswered() > harmless(deliveries) {
            self.excess = self.excess.saturating_add(1);
        }
    }

    pub(super) fn on_feedback(&mut self) {
        self.excess = 0;
    }

    /// Whether a frame is due now, as small as there is: nothing is in flight that it could wait behind, or nothing was sent
    /// or acknowledged for so long that nothing would change otherwise.
    pub(super) fn is_due(
        &self,
        now: Timestamp,
        in_flight: InFlight,
        queueing_delay: Duration,
        silence: &Silence,
        deliveries: &Deliveries,
    ) -> bool {
        let Some(sent_at) = silence.fragment_sent_at() else { return true };
        if silence.has_returned() || in_flight.bytes == ByteCount::ZERO && !silence.is_silent(now) {
            return true;
        }
        let small = ByteCount::new(SMALL_PROBE * self.payload.get());
        if silence.delays_feedback_only() && silence.is_silent(now) && can_carry(now, small, silence, deliveries) {
            return now.saturating_since(sent_at) >= PAUSES.0;
        }
        let idle = now.saturating_since(sent_at.max(silence.frame_feedback_at()));
        if in_flight.bytes.get() > through_soon(silence, deliveries) {
            // Where packets did not wait but feedback did, its arrival says little.
            let idle = if queueing_delay > SOON { idle } else { now.saturating_since(sent_at) };
            return idle >= PAUSES.1;
        }
        let pause = PAUSES.0.saturating_mul(1 << self.excess.min(8)).min(PAUSES.1);
        let is_beside_sound = silence.feedback_at() > silence.frame_feedback_at();
        let pause = if is_beside_sound { pause.max(PAUSE_BESIDE_SOUND) } else { pause };
        idle >= pause
    }
}

/// Whether the path can carry a probe of `size`: outside of a silence, or where only feedback was late before, always.
pub(super) fn can_carry_probe(now: Timestamp, size: ByteCount, silence: &Silence, deliveries: &Deliveries) -> bool {
    let is_free = !silence.is_silent(now)
        || silence.round_trip().is_none()
        || silence.has_returned()
        || silence.delays_feedback_only();
    is_free || can_carry(now, size, silence, deliveries)
}

/// Pause after a hello into silence.
pub(super) fn greeting_pause(now: Timestamp, silence: &Silence, deliveries: &Deliveries) -> Duration {
    let silent_for = now.saturating_since(silence.feedback_at());
    let rate = Bitrate::mean(ByteCount::new(deliveries.most_in_window().get() / GREETING_SHARE), WINDOW);
    let (least, longest) = GREETING_PAUSES;
    rate.time_for(GREETING).max(silent_for / GREETINGS_FADE).clamp(least, longest)
}

/// Whether `size` and the unanswered bytes stay below what does no harm and [`RATE_SHARE`].
fn can_carry(now: Timestamp, size: ByteCount, silence: &Silence, deliveries: &Deliveries) -> bool {
    let rate = Bitrate::mean(deliveries.most_in_window(), WINDOW).mul_f64(RATE_SHARE);
    let lasting = rate.bytes_in(now.saturating_since(silence.feedback_at()));
    silence.unanswered() + size.get() <= harmless(deliveries) + lasting.get()
}

/// Bytes in flight behind which a probe does not wait for long, at the rate of the last deliveries.
fn through_soon(silence: &Silence, deliveries: &Deliveries) -> u64 {
    let time = silence.base_round_trip().unwrap_or(FIRST_ROUND_TRIP) + SOON;
    ((deliveries.in_window().as_f64() * time.div_duration_f64(WINDOW)) as u64).max(LEAST_HARMLESS)
}

/// Bytes that may go into silence without harm.
fn harmless(deliveries: &Deliveries) -> u64 {
    (deliveries.most_in_window().get() * SILENT_SHARE.0 / SILENT_SHARE.1).max(LEAST_HARMLESS)
}
