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

/// Share of packets that are gaps in what arrived: of those sent no later than the newest that arrived within `length`,
/// the ones that did not. None where nothing arrived.
pub(super) fn loss(recorder: &SeriesRecorder, length: Duration) -> Option<f64> {
    let packets = recorder.packets_until(recorder.start() + length);
    let newest = packets.iter().map(|packet| packet.sent_at).max()?;
    let sent = recorder.sent_by(newest);
    // Copies that the link makes may outnumber what was sent.
    let lost = sent.saturating_sub(packets.len());
    Some(lost as f64 / sent.max(1) as f64)
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
    fn delays_and_loss_are_of_what_arrived_in_time() {
        let mut recorder = SeriesRecorder::new(Timestamp::ZERO);
        let size = ByteCount::new(1_000);
        for sent in [0, 10, 20, 30, 40, 50] {
            recorder.sent(at(sent), size);
        }
        // Delays of 20, 30, 40 ms; of the five sent until 40 ms two are missing; the sixth is still on its way.
        for (sent, arrived, queued) in [(0, 20, 0), (10, 40, 10), (40, 80, 20)] {
            recorder.received(at(arrived), at(sent), size, Duration::from_millis(queued));
        }
        recorder.received(at(1_500), at(50), size, Duration::ZERO);
        let scores = PacketScores::of(&recorder, SECOND);
        assert_eq!(scores.one_way_delay_ms, Some(DelayScores { p50: 30.0, mean: 30.0, p95: 39.0 }));
        assert_eq!(scores.queueing_delay_ms, Some(DelayScores { p50: 10.0, mean: 10.0, p95: 19.0 }));
        assert_eq!(scores.loss, Some(2.0 / 5.0));
    }

    #[test]
    fn nothing_that_arrived_scores_nothing() {
        let mut recorder = SeriesRecorder::new(Timestamp::ZERO);
        recorder.sent(at(0), ByteCount::new(1_000));
        let scores = PacketScores::of(&recorder, SECOND);
        assert_eq!((scores.one_way_delay_ms, scores.loss), (None, None));
    }
}
