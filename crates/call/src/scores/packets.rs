//! Scores of packets: their delays, and how many were lost.

use std::time::Duration;

use super::{DelayScores, SeriesRecorder};

/// Delays and loss of the packets that came out of the link within the scored time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PacketScores {
    pub(super) one_way_delay_ms: Option<DelayScores>,
    pub(super) queueing_delay_ms: Option<DelayScores>,
    pub(super) loss: Option<f64>,
}

impl PacketScores {
    pub(super) fn of(recorder: &SeriesRecorder, length: Duration) -> Self {
        let packets = recorder.packets_until(recorder.start() + length);
        let delays = |delay: fn(&_) -> f64| DelayScores::of(packets.iter().map(delay).collect());
        Self {
            one_way_delay_ms: delays(super::PacketRecord::one_way_delay_ms),
            queueing_delay_ms: delays(super::PacketRecord::queueing_delay_ms),
            loss: loss(recorder, length),
        }
    }
}

/// Share of the packets sent within `length` that did not arrive, neither in that time nor in what was recorded after it
/// (a driver goes on for [`DRAIN`](crate::DRAIN)). None where nothing was sent.
fn loss(recorder: &SeriesRecorder, length: Duration) -> Option<f64> {
    let (sent, arrived) = recorder.sent_and_arrived(recorder.start() + length);
    // Copies that the link makes may outnumber what was sent.
    (sent > 0).then(|| sent.saturating_sub(arrived) as f64 / sent as f64)
}

#[cfg(test)]
mod tests {
    use lockstep_units::{ByteCount, Timestamp};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    #[test]
    fn delays_are_of_what_arrived_in_time_and_loss_of_what_never_did() {
        let mut recorder = SeriesRecorder::new(Timestamp::ZERO);
        let size = ByteCount::new(1_000);
        for sent in [0, 10, 20, 30, 40, 50] {
            recorder.sent(at(sent), size);
        }
        // Delays of 20, 30, 40 ms; two never arrive; the sixth does after the scored time.
        for (sent, arrived, queued) in [(0, 20, 0), (10, 40, 10), (40, 80, 20)] {
            recorder.received(at(arrived), at(sent), size, Duration::from_millis(queued));
        }
        recorder.received(at(1_500), at(50), size, Duration::ZERO);
        let scores = PacketScores::of(&recorder, SECOND);
        assert_eq!(scores.one_way_delay_ms, Some(DelayScores { p50: 30.0, mean: 30.0, p95: 39.0 }));
        assert_eq!(scores.queueing_delay_ms, Some(DelayScores { p50: 10.0, mean: 10.0, p95: 19.0 }));
        assert_eq!(scores.loss, Some(2.0 / 6.0));
    }

    #[test]
    fn what_is_lost_at_the_end_counts_and_what_is_sent_after_it_does_not() {
        let mut recorder = SeriesRecorder::new(Timestamp::ZERO);
        let size = ByteCount::new(1_000);
        for sent in [0, 900, 950, 1_000, 1_100] {
            recorder.sent(at(sent), size);
        }
        recorder.received(at(20), at(0), size, Duration::ZERO);
        recorder.received(at(1_120), at(1_100), size, Duration::ZERO);
        assert_eq!(PacketScores::of(&recorder, SECOND).loss, Some(2.0 / 3.0));
    }

    #[test]
    fn nothing_that_arrived_is_a_loss_of_all_and_nothing_that_was_sent_of_none() {
        let mut recorder = SeriesRecorder::new(Timestamp::ZERO);
        assert_eq!(PacketScores::of(&recorder, SECOND).loss, None);
        recorder.sent(at(0), ByteCount::new(1_000));
        let scores = PacketScores::of(&recorder, SECOND);
        assert_eq!((scores.one_way_delay_ms, scores.loss), (None, Some(1.0)));
    }
}
