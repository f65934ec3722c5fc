//! Scores of packets: delays and losses, counted on arrival in bounded memory.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_call::{DelayScores, Distribution};
use lockstep_units::{ByteCount, Timestamp};

/// Limit on distinct sending times that are kept while nothing arrives.
const MAX_SENDING_TIMES: usize = 1 << 14;

/// Counters of the packets of the scored part.
#[derive(Debug, Clone)]
pub(crate) struct PacketLog {
    end: Timestamp,
    one_way_ms: Distribution,
    queueing_ms: Distribution,
    /// Packets that entered the link before the end.
    sent: u64,
    /// Packets among them that left the link, at any time.
    arrived: u64,
    /// Sending time of the newest packet that left the link before the end.
    newest: Option<Timestamp>,
    /// Packets sent no later than that one.
    sent_by_newest: u64,
    /// Sending times after that of the newest one, with numbers of packets.
    after_newest: VecDeque<(Timestamp, u64)>,
    /// Arrival time and delay (ms) of the first packet that left the link before the end.
    first: Option<(Timestamp, f64)>,
    /// Arrival time of the last such packet.
    last: Timestamp,
    /// Bytes of all such packets.
    bytes: ByteCount,
}

impl PacketLog {
    /// Log of packets that are sent or arrive before `end`.
    pub(crate) fn new(end: Timestamp) -> Self {
        Self {
            end,
            one_way_ms: Distribution::of_milliseconds(),
            queueing_ms: Distribution::of_milliseconds(),
            sent: 0,
            arrived: 0,
            newest: None,
            sent_by_newest: 0,
            after_newest: VecDeque::new(),
            first: None,
            last: Timestamp::ZERO,
            bytes: ByteCount::ZERO,
        }
    }

    /// Counts a packet that entered the link.
    pub(crate) fn sent(&mut self, at: Timestamp) {
        if at >= self.end {
            return;
        }
        self.sent += 1;
        if self.newest.is_some_and(|newest| at <= newest) {
            self.sent_by_newest += 1;
            return;
        }
        match self.after_newest.back_mut() {
            Some((moment, packets)) if *moment == at => *packets += 1,
            _ => self.after_newest.push_back((at, 1)),
        }
        if self.after_newest.len() > MAX_SENDING_TIMES {
            // In such a long silence, neighbouring sending times need not be distinguished.
            let joined = self.after_newest.make_contiguous().chunks(2).map(|pair| match *pair {
                [(_, first), (later, second)] => (later, first + second),
                _ => pair[0],
            });
            self.after_newest = joined.collect();
        }
    }

    /// Counts a packet of `size` that entered the link at `sent_at` and left it after `queueing` in its queue.
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
            while let Some(&(_, packets)) = self.after_newest.front().filter(|&&(moment, _)| moment <= sent_at) {
                self.sent_by_newest += packets;
                self.after_newest.pop_front();
            }
        }
        self.first.get_or_insert((at, one_way_ms));
        self.last = at;
        self.bytes += size;
    }

    /// Ends the scored part at `end`. Everything so far happened before.
    pub(crate) fn end_at(&mut self, end: Timestamp) {
        self.end = self.end.min(end);
    }

    pub(super) fn one_way_delay_ms(&mut self) -> Option<DelayScores> {
        DelayScores::of(&mut self.one_way_ms)
    }

    pub(super) fn queueing_delay_ms(&mut self) -> Option<DelayScores> {
        DelayScores::of(&mut self.queueing_ms)
    }

    /// One-way delays and that of the first arrival, ms; `None` without arrivals.
    pub(super) fn one_way(&mut self) -> Option<(&mut Distribution, f64)> {
        let (_, first) = self.first?;
        Some((&mut self.one_way_ms, first))
    }

    /// Bytes that arrived, and the time from the first to the last arrival.
    pub(super) fn arrivals(&self) -> (ByteCount, Duration) {
        let first = self.first.map_or(self.last, |(first, _)| first);
        (self.bytes, self.last.saturating_since(first))
    }

    /// Share of scored packets that never arrived, including the time recorded after the scored part
    /// ([`DRAIN`](crate::DRAIN)). `None` if nothing was sent.
    pub(super) fn loss(&self) -> Option<f64> {
        // Duplicates made by the link can exceed the packets sent.
        (self.sent > 0).then(|| self.sent.saturating_sub(self.arrived) as f64 / self.sent as f64)
    }

    /// Share of gaps: missing packets among those sent no later than the newest arrival.
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
    fn delays_cover_timely_arrivals_and_loss_missing_packets() {
        let mut log = log_of(&[0, 10, 20, 30, 40, 50]);
        // Delays of 20, 30, 40 ms; two packets never arrive; the sixth arrives after the scored part.
        for (sent, arrived, queued) in [(0, 20, 0), (10, 40, 10), (40, 80, 20)] {
            log.received(at(arrived), at(sent), SIZE, Duration::from_millis(queued));
        }
        log.received(at(1_500), at(50), SIZE, Duration::ZERO);
        assert_eq!(log.one_way_delay_ms(), Some(DelayScores { p50: 30.0, mean: 30.0, p95: 39.0 }));
        assert_eq!(log.queueing_delay_ms(), Some(DelayScores { p50: 10.0, mean: 10.0, p95: 19.0 }));
        assert_eq!(log.loss(), Some(2.0 / 6.0));
        assert!((log.gaps() - 2.0 / 5.0).abs() < 1e-12, "two of five packets sent until 40 ms are missing");
    }

    #[test]
    fn losses_at_the_end_count_and_later_packets_do_not() {
        let mut log = log_of(&[0, 900, 950, 1_000, 1_100]);
        log.received(at(20), at(0), SIZE, Duration::ZERO);
        log.received(at(1_120), at(1_100), SIZE, Duration::ZERO);
        assert_eq!(log.loss(), Some(2.0 / 3.0));
    }

    #[test]
    fn no_arrival_is_full_loss_and_no_packet_has_no_loss() {
        assert_eq!(log_of(&[]).loss(), None);
        let mut log = log_of(&[0]);
        assert_eq!((log.one_way_delay_ms(), log.loss()), (None, Some(1.0)));
    }

    #[test]
    fn memory_is_bounded_while_nothing_arrives() {
        let mut log = PacketLog::new(Timestamp::MAX);
        for packet in 0..100_000 {
            log.sent(at(packet));
        }
        assert!(log.after_newest.len() <= MAX_SENDING_TIMES, "{}", log.after_newest.len());
        log.received(at(100_020), at(99_999), SIZE, Duration::ZERO);
        assert!((log.gaps() - 0.99999).abs() < 1e-12 && log.after_newest.is_empty());
        assert_eq!(log.loss(), Some(0.99999));
    }
}
