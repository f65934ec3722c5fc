//! How short a video delay can be at all on a path.

use std::time::Duration;

use lockstep_call::{DelayScores, Distribution};
use lockstep_link::{LinkConfig, Trace};
use lockstep_units::{ByteCount, Timestamp};

/// What has to pass for a picture to be shown at all: a packet of 100 bytes with all its headers.
pub const SMALL_PACKET: ByteCount = ByteCount::new(100);

/// A video delay of up to so many times its floor is near it.
pub const NEAR_FLOOR: f64 = 1.5;

/// The video delay that a frame of one small packet ([`SMALL_PACKET`]) would have at every capture on a path on which
/// nothing else is: the time to code it, the wait until the link can first have passed it, propagation, and the time to
/// decode it. No control can do better; what a call has more than that is queueing, and frames that are larger, late or
/// lost.
#[derive(Debug, Clone)]
pub struct VideoDelayFloor {
    trace: Trace,
    /// Where the trace is when the link's clock starts, and when that is on the call's clock.
    offset: Duration,
    starts_at: Timestamp,
    propagation: Duration,
    encode_time: Duration,
    decode_time: Duration,
}

impl VideoDelayFloor {
    /// That of a path whose only link is `link`, which starts at `starts_at` on the clock of the captures. Coding takes
    /// no time.
    #[must_use]
    pub fn new(link: &LinkConfig, starts_at: Timestamp) -> Self {
        Self {
            trace: link.trace.clone(),
            offset: link.trace_offset,
            starts_at,
            propagation: link.delay,
            encode_time: Duration::ZERO,
            decode_time: Duration::ZERO,
        }
    }

    /// The same with the least times that coding a picture and decoding a frame take.
    #[must_use]
    pub fn with_coding(self, encode_time: Duration, decode_time: Duration) -> Self {
        Self { encode_time, decode_time, ..self }
    }

    /// That of a picture captured at `captured_at`; none if the link never passes anything any more.
    #[must_use]
    pub fn of(&self, captured_at: Timestamp) -> Option<Duration> {
        let on_trace = (captured_at + self.encode_time).saturating_since(self.starts_at).saturating_add(self.offset);
        let sent_at = Timestamp::ZERO + on_trace;
        let passed_at = self.trace.time_to_pass(sent_at, SMALL_PACKET)?;
        let on_the_way = self.propagation + self.trace.conditions_at(passed_at).delay;
        Some(self.encode_time + passed_at.saturating_since(sent_at) + on_the_way + self.decode_time)
    }

    /// The distribution of it over pictures captured at these moments.
    #[must_use]
    pub fn over(&self, captures: impl Iterator<Item = Timestamp>) -> Option<DelayScores> {
        let mut floors_ms = Distribution::of_milliseconds();
        captures.filter_map(|at| self.of(at)).for_each(|floor| floors_ms.add(floor.as_secs_f64() * 1e3));
        DelayScores::of(&mut floors_ms)
    }
}

/// The floors of the frames of a call, and how many frames came near theirs.
#[derive(Debug, Clone)]
pub(super) struct FloorScores {
    floor: VideoDelayFloor,
    floors_ms: Distribution,
    frames: u64,
    near: u64,
}

impl FloorScores {
    pub(super) fn new(floor: VideoDelayFloor) -> Self {
        Self { floor, floors_ms: Distribution::of_milliseconds(), frames: 0, near: 0 }
    }

    /// A frame had this video delay. One that nothing followed on the screen waits no longer than the call lasts, and
    /// its floor is no longer either.
    pub(super) fn frame(&mut self, captured_at: Timestamp, video_delay: Duration) {
        let Some(floor) = self.floor.of(captured_at) else { return };
        let floor = floor.min(video_delay);
        self.floors_ms.add(floor.as_secs_f64() * 1e3);
        self.frames += 1;
        self.near += u64::from(video_delay <= floor.mul_f64(NEAR_FLOOR));
    }

    pub(super) fn floor_ms(&mut self) -> Option<DelayScores> {
        DelayScores::of(&mut self.floors_ms)
    }

    /// The share of the frames that came near their floor; none of no frames.
    pub(super) fn near(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.near as f64 / self.frames as f64)
    }
}

#[cfg(test)]
mod tests {
    use lockstep_link::{Conditions, End, Segment};
    use lockstep_units::Bitrate;

    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    fn floor(trace: Trace, offset: u64) -> VideoDelayFloor {
        let link = LinkConfig {
            delay: Duration::from_millis(20),
            trace_offset: Duration::from_millis(offset),
            ..LinkConfig::new(trace)
        };
        VideoDelayFloor::new(&link, Timestamp::ZERO)
    }

    #[test]
    fn the_floor_is_the_wait_for_the_next_opportunity_and_all_that_nothing_can_shorten() {
        let floor = floor(Trace::from_opportunities(vec![10, 50, 100], 100).unwrap(), 0);
        let of = |capture| floor.of(at(capture)).unwrap().as_millis();
        assert_eq!([0, 9, 10, 60, 99].map(of), [30, 21, 60, 60, 21]);
        let coding = floor.clone().with_coding(Duration::from_millis(7), Duration::from_millis(3));
        // Coded at 7, it leaves at 10; coded at 11, it has missed that and leaves at 50.
        assert_eq!([0, 4].map(|capture| coding.of(at(capture)).unwrap().as_millis()), [33, 69]);
    }

    #[test]
    fn the_floor_is_of_the_trace_where_the_call_meets_it() {
        let trace = Trace::from_opportunities(vec![10, 50, 100], 100).unwrap();
        assert_eq!(floor(trace.clone(), 30).of(at(0)), Some(Duration::from_millis(40)));
        let late = VideoDelayFloor { starts_at: at(5_000), ..floor(trace, 0) };
        assert_eq!(late.of(at(5_020)), Some(Duration::from_millis(50)));
    }

    #[test]
    fn an_outage_is_waited_for_and_its_delay_comes_on_top() {
        let segment = |milliseconds, kbps, delay| Segment {
            duration: Duration::from_millis(milliseconds),
            rate: Bitrate::from_kbps(kbps),
            conditions: Conditions { delay: Duration::from_millis(delay), ..Conditions::NONE },
        };
        let trace = Trace::from_segments(&[segment(100, 800, 0), segment(400, 0, 0), segment(100, 80, 5)], End::Hold);
        let floor = floor(trace.unwrap(), 0);
        // 100 bytes take a millisecond at first, ten after the outage.
        let of = |capture| floor.of(at(capture)).unwrap().as_millis();
        assert_eq!([0, 100, 300, 700].map(of), [21, 435, 235, 35]);
    }

    #[test]
    fn where_nothing_passes_any_more_there_is_no_floor() {
        let none = floor(Trace::constant(Bitrate::ZERO), 0);
        assert_eq!(none.of(at(0)), None);
        assert_eq!(none.over((0..10).map(at)), None);
        let mut scores = FloorScores::new(none);
        scores.frame(at(0), Duration::from_millis(7));
        assert_eq!((scores.floor_ms(), scores.near()), (None, None));
    }

    #[test]
    fn frames_within_one_and_a_half_times_their_floor_are_near_it() {
        // 21 ms at every capture.
        let mut scores = FloorScores::new(floor(Trace::constant(Bitrate::from_kbps(800)), 0));
        for (capture, delay_us) in [(0, 21_000), (1, 31_500), (2, 31_501), (3, 900_000)] {
            scores.frame(at(capture), Duration::from_micros(delay_us));
        }
        assert_eq!(scores.near(), Some(0.5));
        assert_eq!(scores.floor_ms().map(|floor| (floor.p50, floor.p95)), Some((21.0, 21.0)));
        // The call ended before it could have been shown.
        scores.frame(at(4), Duration::from_millis(5));
        assert_eq!(scores.near(), Some(0.6));
    }
}
