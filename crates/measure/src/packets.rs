//! What packets are scored by: their delays, and how many were lost. Counted as they come, in memory that does not
//! grow.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_call::{DelayScores, Distribution};
use lockstep_units::{ByteCount, Timestamp};

/// The most moments of sending that are told apart while nothing arrives.
const MOST_MOMENTS: usize = 1 << 14;

/// What is kept of the packets of the scored time.
#[derive(Debug, Clone)]
pub(crate) struct PacketLog {
    end: Timestamp,
    one_way_ms: Distribution,
    queueing_ms: Distribution,
    /// Packets that entered the link before the end, and those of them that came out of it, however late.
    sent: u64,
    arrived: u64,
    /// When the newest packet that came out before the end was sent, and the packets sent no later.
    newest: Option<Timestamp>,
    sent_by_newest: u64,
    /// When packets were sent after that one, and how many.
    unheard: VecDeque<(Timestamp, u64)>,
    /// Of what came out before the end: when the first and the last did, the first one's delay, and all bytes.
    first: Option<(Timestamp, f64)>,
    last: Timestamp,
    bytes: ByteCount,
}

impl PacketLog {
    /// Of packets that are sent or arrive before `end`.
    pub(crate) fn new(end: Timestamp) -> Self {
        Self {
            end,
            one_way_ms: Distribution::of_milliseconds(),
            queueing_ms: Distribution::of_milliseconds(),
            sent: 0,
            arrived: 0,
            newest: None,
            sent_by_newest: 0,
            unheard: VecDeque::new(),
            first: None,
            last: Timestamp::ZERO,
            bytes: ByteCount::ZERO,
        }
    }

    /// A packet entered the link.
    pub(crate) fn sent(&mut self, at: Timestamp) {
        if at >= self.end {
            return;
        }
        self.sent += 1;
        if self.newest.is_some_and(|newest| at <= newest) {
            self.sent_by_newest += 1;
            return;
        }
        match self.unheard.back_mut() {
            Some((moment, packets)) if *moment == at => *packets += 1,
            _ => self.unheard.push_back((at, 1)),
        }
        if self.unheard.len() > MOST_MOMENTS {
            // In a silence so long it does not matter which of two neighbouring moments a packet was sent at.
            let joined = self.unheard.make_contiguous().chunks(2).map(|pair| match *pair {
                [(_, first), (later, second)] => (later, first + second),
                _ => pair[0],
            });
            self.unheard = joined.collect();
        }
    }

    /// A packet of `size` that entered the link at `sent_at` came out of it after `queueing` in its queue.
    pub(crate) fn received(&mut self, at: Timestamp, sent_at: Timestamp, size: ByteCount, queueing: Duration) {
        if sent_at < self.end {
            self.arrived += 1;
        }
        if at >= self.end {
            return;
        }
        let one_way_ms = at.saturating_since(sent_at).as_secs_f64() * 1e3;
        self.one_way_ms.add(one_way_ms);
        let microseconds = u32::try_from(queueing.as_micros()).unwrap_or(u32::MAX);
        self.queueing_ms.add(f64::from(microseconds) * 1e-3);
        if self.newest.is_none_or(|newest| sent_at > newest) {
            self.newest = Some(sent_at);
            while let Some(&(_, packets)) = self.unheard.front().filter(|&&(moment, _)| moment <= sent_at) {
                self.sent_by_newest += packets;
                self.unheard.pop_front();
            }
        }
        self.first.get_or_insert((at, one_way_ms));
        self.last = at;
        self.bytes += size;
    }

    /// What is sent or arrives from `end` on does not count; what did so far was before.
    pub(crate) fn end_at(&mut self, end: Timestamp) {
        self.end = self.end.min(end);
    }

    pub(super) fn one_way_delay_ms(&mut self) -> Option<DelayScores> {
        DelayScores::of(&mut self.one_way_ms)
    }

    pub(super) fn queueing_delay_ms(&mut self) -> Option<DelayScores> {
        DelayScores::of(&mut self.queueing_ms)
    }

    /// The one-way delays, milliseconds, and that of the first packet to arrive; none if none did.
    pub(super) fn one_way(&mut self) -> Option<(&mut Distribution, f64)> {
        let (_, first) = self.first?;
        Some((&mut self.one_way_ms, first))
    }

    /// Bytes that arrived, and the time from the first arrival to the last.
    pub(super) fn arrivals(&self) -> (ByteCount, Duration) {
        let first = self.first.map_or(self.last, |(first, _)| first);
        (self.bytes, self.last.saturating_since(first))
    }

    /// Share of the packets sent in the scored time that did not arrive, neither in that time nor in what was recorded
    /// after it (a driver goes on for [`DRAIN`](crate::DRAIN)). None where nothing was sent.
    pub(super) fn loss(&self) -> Option<f64> {
        // Copies that the link makes may outnumber what was sent.
        (self.sent > 0).then(|| self.sent.saturating_sub(self.arrived) as f64 / self.sent as f64)
    }

    /// Share of gaps: of what was sent no later than the newest that arrived, that which did not.
    pub(super) fn gaps(&self) -> f64 {
        self.sent_by_newest.saturating_sub(self.one_way_ms.count()) as f64 / self.sent_by_newest.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: ByteCount = ByteCount::new(1_000);

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    fn log_of(sent: &[u64]) -> PacketLog {
        let mut log = PacketLog::new(at(1_000));
        sent.iter().for_each(|&sent| log.sent(at(sent)));
        log
    }

    #[test]
    fn delays_are_of_what_arrived_in_time_and_loss_of_what_never_did() {
        let mut log = log_of(&[0, 10, 20, 30, 40, 50]);
        // Delays of 20, 30, 40 ms; two never arrive; the sixth does after the scored time.
        for (sent, arrived, queued) in [(0, 20, 0), (10, 40, 10), (40, 80, 20)] {
            log.received(at(arrived), at(sent), SIZE, Duration::from_millis(queued));
        }
        log.received(at(1_500), at(50), SIZE, Duration::ZERO);
        assert_eq!(log.one_way_delay_ms(), Some(DelayScores { p50: 30.0, mean: 30.0, p95: 39.0 }));
        assert_eq!(log.queueing_delay_ms(), Some(DelayScores { p50: 10.0, mean: 10.0, p95: 19.0 }));
        assert_eq!(log.loss(), Some(2.0 / 6.0));
        assert!((log.gaps() - 2.0 / 5.0).abs() < 1e-12, "of the five sent until 40 ms two are missing");
    }

    #[test]
    fn what_is_lost_at_the_end_counts_and_what_is_sent_after_it_does_not() {
        let mut log = log_of(&[0, 900, 950, 1_000, 1_100]);
        log.received(at(20), at(0), SIZE, Duration::ZERO);
        log.received(at(1_120), at(1_100), SIZE, Duration::ZERO);
        assert_eq!(log.loss(), Some(2.0 / 3.0));
    }

    #[test]
    fn nothing_that_arrived_is_a_loss_of_all_and_nothing_that_was_sent_of_none() {
        assert_eq!(log_of(&[]).loss(), None);
        let mut log = log_of(&[0]);
        assert_eq!((log.one_way_delay_ms(), log.loss()), (None, Some(1.0)));
    }

    #[test]
    fn a_silence_of_any_length_is_counted_in_bounded_memory() {
        let mut log = PacketLog::new(Timestamp::MAX);
        for packet in 0..100_000 {
            log.sent(at(packet));
        }
        assert!(log.unheard.len() <= MOST_MOMENTS, "{}", log.unheard.len());
        log.received(at(100_020), at(99_999), SIZE, Duration::ZERO);
        assert!((log.gaps() - 0.99999).abs() < 1e-12 && log.unheard.is_empty());
        assert_eq!(log.loss(), Some(0.99999));
    }
}
