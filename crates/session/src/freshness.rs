//! Monitors whether the newest picture of each stream is recent. One monitor outlives the connections of a call.

use std::time::Duration;

use lockstep_units::Timestamp;

use crate::event::CallEvent;
use crate::stream::MAX_STREAMS;

/// The newest picture of a stream.
#[derive(Debug, Clone, Copy)]
struct Newest {
    /// Age of the picture at the time `at`.
    age: Duration,
    at: Timestamp,
    is_stale: bool,
}

impl Newest {
    fn age(&self, now: Timestamp) -> Duration {
        self.age + now.saturating_since(self.at)
    }
}

/// Reports [`CallEvent::Stale`] and [`CallEvent::Fresh`] by the age of the newest picture of each stream.
///
/// Its owner passes it from one connection to the next, and polls it between them.
#[derive(Debug, Clone, Default)]
pub struct Freshness {
    limit: Option<Duration>,
    /// State by stream; `None` before pictures of the stream are expected.
    streams: Vec<Option<Newest>>,
}

impl Freshness {
    /// A monitor that reports pictures of age `limit` as stale; `None` never reports any.
    #[must_use]
    pub fn new(limit: Option<Duration>) -> Self {
        Self { limit, streams: Vec::new() }
    }

    /// Expects pictures of `stream` from `now` on, unless they were expected before.
    pub fn expect(&mut self, stream: usize, now: Timestamp) {
        if let Some(newest) = self.stream(stream) {
            newest.get_or_insert(Newest { age: Duration::ZERO, at: now, is_stale: false });
        }
    }

    /// Sets the age of the newest picture of `stream` at `now`.
    pub fn set_age(&mut self, stream: usize, now: Timestamp, age: Duration) {
        if let Some(newest) = self.stream(stream) {
            let is_stale = newest.is_some_and(|newest| newest.is_stale);
            *newest = Some(Newest { age, at: now, is_stale });
        }
    }

    fn stream(&mut self, stream: usize) -> Option<&mut Option<Newest>> {
        if stream >= MAX_STREAMS {
            return None;
        }
        self.streams.resize(self.streams.len().max(stream + 1), None);
        self.streams.get_mut(stream)
    }

    /// The next change by `now`.
    pub fn poll(&mut self, now: Timestamp) -> Option<CallEvent> {
        let limit = self.limit?;
        self.streams.iter_mut().enumerate().find_map(|(stream, newest)| {
            let newest = newest.as_mut()?;
            let age = newest.age(now);
            let is_stale = age >= limit;
            if std::mem::replace(&mut newest.is_stale, is_stale) == is_stale {
                return None;
            }
            Some(if is_stale { CallEvent::Stale { stream, age } } else { CallEvent::Fresh { stream } })
        })
    }

    /// When the next stream becomes stale, if no picture of it arrives.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let limit = self.limit?;
        let fresh = self.streams.iter().flatten().filter(|newest| !newest.is_stale);
        fresh.map(|newest| newest.at + limit.saturating_sub(newest.age)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(300);

    #[test]
    fn stream_is_stale_once_between_two_connections() {
        let mut freshness = Freshness::new(Some(LIMIT));
        freshness.expect(0, Timestamp::ZERO);
        freshness.set_age(1, Timestamp::from_millis(100), Duration::from_millis(50));
        assert_eq!(freshness.poll_timeout(), Some(Timestamp::from_millis(300)));
        // The connection ends, and another one begins.
        assert_eq!(freshness.poll(Timestamp::from_millis(300)), Some(CallEvent::Stale { stream: 0, age: LIMIT }));
        freshness.expect(0, Timestamp::from_millis(320));
        assert_eq!(freshness.poll(Timestamp::from_millis(340)), None);
        assert_eq!(freshness.poll_timeout(), Some(Timestamp::from_millis(350)));
        let stale = freshness.poll(Timestamp::from_millis(350));
        assert_eq!(stale, Some(CallEvent::Stale { stream: 1, age: LIMIT }));
        freshness.set_age(0, Timestamp::from_millis(400), Duration::from_millis(40));
        assert_eq!(freshness.poll(Timestamp::from_millis(400)), Some(CallEvent::Fresh { stream: 0 }));
        assert_eq!(freshness.poll(Timestamp::from_millis(400)), None);
    }

    #[test]
    fn nothing_is_stale_without_a_limit() {
        let mut freshness = Freshness::default();
        freshness.expect(0, Timestamp::ZERO);
        assert_eq!((freshness.poll(Timestamp::from_millis(1 << 40)), freshness.poll_timeout()), (None, None));
    }
}
