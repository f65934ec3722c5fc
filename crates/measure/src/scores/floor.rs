//! Lower bound on the video delay of a path.

use std::time::Duration;

use lockstep_call::{DelayScores, Distribution};
use lockstep_link::{LinkConfig, Trace};
use lockstep_units::{ByteCount, Timestamp};

/// Smallest packet that can show a picture: 100 bytes with all headers.
pub const SMALL_PACKET: ByteCount = ByteCount::new(100);

/// Largest ratio of a video delay to its floor that counts as near.
pub const NEAR_FLOOR: f64 = 1.5;

/// Lower bound on the video delay at every capture: the delay of a frame of one small packet ([`SMALL_PACKET`]) on an
/// otherwise idle path.
///
/// It is the sum of coding time, wait for capacity, propagation and decoding time. Queueing and large, late or lost
/// frames add to it.
#[derive(Debug, Clone)]
pub struct VideoDelayFloor {
    trace: Trace,
    /// Position in the trace when the link's clock starts.
    offset: Duration,
    /// Start of the link's clock on the call's clock.
    starts_at: Timestamp,
    propagation: Duration,
    encode_time: Duration,
    decode_time: Duration,
}

impl VideoDelayFloor {
    /// Floor of a path whose only link is `link`, without coding times. The link starts at `starts_at` on the clock of
    /// the captures.
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

    /// Adds the shortest time to code a picture and the time to decode a frame.
    #[must_use]
    pub fn with_coding(self, encode_time: Duration, decode_time: Duration) -> Self {
        Self { encode_time, decode_time, ..self }
    }

    /// Floor of a picture captured at `captured_at`; `None` if the link never carries anything again.
    #[must_use]
    pub fn of(&self, captured_at: Timestamp) -> Option<Duration> {
        let on_trace = (captured_at + self.encode_time).saturating_since(self.starts_at).saturating_add(self.offset);
        let sent_at = Timestamp::ZERO + on_trace;
        let passed_at = self.trace.time_to_pass(sent_at, SMALL_PACKET)?;
        let on_the_way = self.propagation + self.trace.conditions_at(passed_at).delay;
        Some(self.encode_time + passed_at.saturating_since(sent_at) + on_the_way + self.decode_time)
    }

    /// Distribution of the floors of pictures captured at these times.
    #[must_use]
    pub fn over(&self, captures: impl Iterator<Item = Timestamp>) -> Option<DelayScores> {
        let mut floors_ms = Distribution::of_milliseconds();
        captures.filter_map(|at| self.of(at)).for_each(|floor| floors_ms.add(floor.as_secs_f64() * 1e3));
        DelayScores::of(&mut floors_ms)
    }
}

/// Floors of the frames of a call, and the number of frames near their floors.
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

    /// Adds a frame. The floor is limited to its video delay, which ends with the call for a frame without a later
    /// display.
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

    /// Share of frames near their floor; `None` without frames.
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
    fn the_floor_adds_the_wait_for_capacity_and_fixed_delays() {
        let floor = floor(Trace::from_opportunities(vec![10, 50, 100], 100).unwrap(), 0);
        let of = |capture| floor.of(at(capture)).unwrap().as_millis();
        assert_eq!([0, 9, 10, 60, 99].map(of), [30, 21, 60, 60, 21]);
        let coding = floor.clone().with_coding(Duration::from_millis(7), Duration::from_millis(3));
        // A frame coded at 7 ms leaves at 10 ms. One coded at 11 ms leaves at 50 ms.
        assert_eq!([0, 4].map(|capture| coding.of(at(capture)).unwrap().as_millis()), [33, 69]);
    }

    #[test]
    fn the_floor_uses_the_trace_offset_and_the_start() {
        let trace = Trace::from_opportunities(vec![10, 50, 100], 100).unwrap();
        assert_eq!(floor(trace.clone(), 30).of(at(0)), Some(Duration::from_millis(40)));
        let late = VideoDelayFloor { starts_at: at(5_000), ..floor(trace, 0) };
        assert_eq!(late.of(at(5_020)), Some(Duration::from_millis(50)));
    }

    #[test]
    fn the_floor_includes_outages_and_additional_delays() {
        let segment = |milliseconds, kbps, delay| Segment {
            duration: Duration::from_millis(milliseconds),
            rate: Bitrate::from_kbps(kbps),
            conditions: Conditions { delay: Duration::from_millis(delay), ..Conditions::NONE },
        };
        let trace = Trace::from_segments(&[segment(100, 800, 0), segment(400, 0, 0), segment(100, 80, 5)], End::Hold);
        let floor = floor(trace.unwrap(), 0);
        // 100 bytes take 1 ms at first and 10 ms after the outage.
        let of = |capture| floor.of(at(capture)).unwrap().as_millis();
        assert_eq!([0, 100, 300, 700].map(of), [21, 435, 235, 35]);
    }

    #[test]
    fn a_path_without_capacity_has_no_floor() {
        let none = floor(Trace::constant(Bitrate::ZERO), 0);
        assert_eq!(none.of(at(0)), None);
        assert_eq!(none.over((0..10).map(at)), None);
        let mut scores = FloorScores::new(none);
        scores.frame(at(0), Duration::from_millis(7));
        assert_eq!((scores.floor_ms(), scores.near()), (None, None));
    }

    #[test]
    fn frames_up_to_one_and_a_half_times_their_floor_are_near() {
        // The floor is 21 ms at every capture.
        let mut scores = FloorScores::new(floor(Trace::constant(Bitrate::from_kbps(800)), 0));
        for (capture, delay_us) in [(0, 21_000), (1, 31_500), (2, 31_501), (3, 900_000)] {
            scores.frame(at(capture), Duration::from_micros(delay_us));
        }
        assert_eq!(scores.near(), Some(0.5));
        assert_eq!(scores.floor_ms().map(|floor| (floor.p50, floor.p95)), Some((21.0, 21.0)));
        // The call ended before this frame could be shown.
        scores.frame(at(4), Duration::from_millis(5));
        assert_eq!(scores.near(), Some(0.6));
    }
}
