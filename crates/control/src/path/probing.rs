//! Probing: small frames without a budget, and hellos, which measure an unknown or silent path.

use std::time::Duration;

use lockstep_transport::wire::DATAGRAM_OVERHEAD;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::deliveries::Deliveries;
use super::silence::Silence;
use crate::{InFlight, ProbingConfig};

/// Bytes that are always harmless: one Ethernet packet.
const MIN_HARMLESS_BYTES: u64 = 1_500;
/// Link bytes of a hello.
const HELLO: ByteCount = ByteCount::new(20 + DATAGRAM_OVERHEAD);

/// Decides when to send probes and hellos.
#[derive(Debug)]
pub(super) struct Probing {
    /// Longest pause between two probes, and between two hellos.
    max_pause: Duration,
    config: ProbingConfig,
    payload: ByteCount,
    /// Number of probes since the unanswered bytes exceeded the harmless amount.
    excess: u32,
}

impl Probing {
    pub(super) fn new(payload: ByteCount, max_pause: Duration, config: ProbingConfig) -> Self {
        Self { max_pause, config, payload, excess: 0 }
    }

    /// Records that a frame beyond its budget was sent.
    pub(super) fn on_probe(&mut self, silence: &Silence, deliveries: &Deliveries) {
        if silence.unanswered() > self.harmless(deliveries) {
            self.excess = self.excess.saturating_add(1);
        }
    }

    pub(super) fn on_feedback(&mut self) {
        self.excess = 0;
    }

    /// Whether a smallest frame is due now. It is due if no data in flight would delay it. It is also due after a long
    /// time without sending and feedback, since the state would not change otherwise.
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
        let (pause, max_pause) = (self.config.pause, self.max_pause);
        let silent_pause =
            if silence.drops(now) { Some(Duration::ZERO) } else { silence.delays_feedback_only().then_some(pause) };
        if let Some(pause) = silent_pause
            && silence.is_silent(now)
            && self.can_carry(now, self.payload, silence, deliveries)
        {
            return now.saturating_since(sent_at) >= pause;
        }
        let idle = now.saturating_since(sent_at.max(silence.frame_feedback_at()));
        if in_flight.bytes.get() > through_soon(silence, deliveries) {
            // If feedback was delayed but packets were not, the feedback's arrival time shows little.
            let idle = if queueing_delay > silence.config().margin { idle } else { now.saturating_since(sent_at) };
            return idle >= max_pause;
        }
        idle >= pause.saturating_mul(1 << self.excess.min(8)).min(max_pause)
    }

    /// Whether the path can carry a probe of `size`. Always true outside a silence, and if only feedback was late
    /// before.
    pub(super) fn can_carry_probe(
        &self,
        now: Timestamp,
        size: ByteCount,
        silence: &Silence,
        deliveries: &Deliveries,
    ) -> bool {
        let is_free = !silence.is_silent(now)
            || silence.round_trip().is_none()
            || silence.has_returned()
            || silence.delays_feedback_only();
        is_free || self.can_carry(now, size, silence, deliveries)
    }

    /// Pause after a hello during silence.
    pub(super) fn hello_interval(&self, now: Timestamp, silence: &Silence, deliveries: &Deliveries) -> Duration {
        let ProbingConfig { hello_pause, hello_fade, hello_share, dropped_hellos, .. } = self.config;
        let silent_for = now.saturating_since(silence.feedback_at());
        let bytes = (hello_share * deliveries.max_in_window().as_f64()) as u64;
        let rate = Bitrate::mean(ByteCount::new(bytes), deliveries.window());
        let hellos = if silence.drops(now) { dropped_hellos } else { 1 };
        (rate.time_for(HELLO).max(hello_pause).max(silent_for / hello_fade) / hellos).min(self.max_pause)
    }

    /// Whether `size` plus the unanswered bytes stays below the harmless amount plus the share of the delivery rate.
    fn can_carry(&self, now: Timestamp, size: ByteCount, silence: &Silence, deliveries: &Deliveries) -> bool {
        let rate = Bitrate::mean(deliveries.max_in_window(), deliveries.window()).mul_f64(self.config.rate_share);
        let lasting = rate.bytes_in(now.saturating_since(silence.feedback_at()));
        silence.unanswered() + size.get() <= self.harmless(deliveries) + lasting.get()
    }

    /// Bytes that may be sent into silence without harm.
    fn harmless(&self, deliveries: &Deliveries) -> u64 {
        ((self.config.silent_share * deliveries.max_in_window().as_f64()) as u64).max(MIN_HARMLESS_BYTES)
    }
}

/// Bytes in flight that delay a probe only briefly, at the rate of the last deliveries.
fn through_soon(silence: &Silence, deliveries: &Deliveries) -> u64 {
    let config = silence.config();
    let time = silence.base_round_trip().unwrap_or(config.first_round_trip) + config.margin;
    ((deliveries.in_window().as_f64() * time.div_duration_f64(deliveries.window())) as u64).max(MIN_HARMLESS_BYTES)
}
