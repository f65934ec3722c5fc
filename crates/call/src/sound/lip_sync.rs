//! Lip sync: a picture is shown when its sound is heard, and sound waits briefly for pictures with more delay.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_sound::RecentDelays;
use lockstep_units::Timestamp;

use super::playing::{difference, nanoseconds};
use crate::codec::{Codec, Vp8};
use crate::distribution::{DelayScores, Distribution};
use crate::receiving::Display;

/// Largest unnoticed difference between pictures and sound (EBU R37: 40 ms ahead and 60 ms behind; ITU-R BT.1359: 45 ms
/// ahead).
pub const LIP_SYNC: Duration = Duration::from_millis(45);
/// Longest time that a picture waits for its sound. The sender's capture times may be wrong.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of waiting pictures: about a second.
const MAX_WAITING_PICTURES: usize = 60;
/// Maximum size of the waiting pictures in bytes: 9 pictures of 4096x2304.
const MAX_WAITING_BYTES: usize = 128 << 20;
/// Number of shown pictures whose delays count.
const DELAYS: usize = 150;
/// Share of pictures that should appear with their sound.
const IN_TIME: f64 = 0.9;

/// Holds pictures until their sound is heard.
#[derive(Debug)]
pub struct LipSync<C: Codec = Vp8> {
    held: VecDeque<Display<C>>,
    /// Size of the held pictures in bytes.
    bytes: usize,
    /// Time of a moment, and capture time of the sound heard then.
    playback: Option<(Timestamp, Timestamp)>,
    /// Delays from capture to the possible display, in nanoseconds between two clocks.
    delays: RecentDelays,
    errors: Distribution,
    is_on: bool,
}

/// Size of the picture in bytes; zero without pixels.
fn size<C: Codec>(display: &Display<C>) -> usize {
    C::shown_pixels(&display.picture).map_or(0, |picture| picture.width() * picture.height() * 3 / 2)
}

impl<C: Codec> LipSync<C> {
    /// A lip sync before any picture or sound. If not `is_on`, pictures are shown at once, and only their offset is
    /// measured.
    #[must_use]
    pub fn new(is_on: bool) -> Self {
        Self {
            held: VecDeque::new(),
            bytes: 0,
            playback: None,
            delays: RecentDelays::new(DELAYS),
            errors: Distribution::of_milliseconds(),
            is_on,
        }
    }

    /// Sets the capture time of the sound heard at `now`; none during silence.
    pub fn on_playback(&mut self, now: Timestamp, captured: Option<Timestamp>) {
        self.playback = captured.map(|captured| (now, captured));
    }

    /// Adds a picture that could be shown at `now`. Call [`Self::poll`] after it.
    pub fn push(&mut self, now: Timestamp, display: Display<C>) {
        self.delays.note(difference(now, display.captured_at), i64::MIN);
        self.bytes += size(&display);
        self.held.push_back(display);
    }

    fn pop(&mut self) -> Option<Display<C>> {
        let display = self.held.pop_front()?;
        self.bytes -= size(&display);
        Some(display)
    }

    /// Whether too many pictures wait. Then the oldest one no longer waits for its sound.
    fn is_full(&self) -> bool {
        self.held.len() > MAX_WAITING_PICTURES || self.bytes > MAX_WAITING_BYTES
    }

    /// Minimum delay from capture to playing at which sound is heard with most pictures; nanoseconds between two
    /// clocks. None before the first picture, and if pictures do not wait either.
    #[must_use]
    pub fn min_sound_delay(&self) -> Option<i64> {
        let delay = self.is_on.then(|| self.delays.within(IN_TIME)).flatten()?;
        Some(delay.saturating_sub(nanoseconds(LIP_SYNC)))
    }

    /// When to show the picture: the unnoticed difference before its sound is heard, but after at most [`MAX_WAIT`]. At
    /// once without sound, and if too many pictures wait.
    fn due(&self, display: &Display<C>) -> Timestamp {
        let Some((at, playback)) = self.playback.filter(|_| self.is_on && !self.is_full()) else {
            return Timestamp::ZERO;
        };
        let ahead = difference(display.captured_at, playback).saturating_sub(nanoseconds(LIP_SYNC));
        (at + Duration::from_nanos(ahead.max(0).unsigned_abs())).min(display.displayed_at + MAX_WAIT)
    }

    /// The picture to show at `now`: the newest one whose sound is heard.
    pub fn poll(&mut self, now: Timestamp) -> Option<Display<C>> {
        let mut shown = None;
        while self.held.front().is_some_and(|first| self.due(first) <= now) {
            shown = self.pop();
        }
        let shown = shown?;
        if let Some((at, playback)) = self.playback {
            let ahead = difference(shown.captured_at, playback).saturating_sub(difference(now, at));
            self.errors.add(ahead.unsigned_abs() as f64 * 1e-6);
        }
        Some(Display { displayed_at: now, ..shown })
    }

    /// Time of the next picture of [`Self::poll`] without other events. A time in the past means now.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.held.front().map(|first| self.due(first))
    }

    /// Whether pictures wait.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Differences between pictures and the sound heard at their display.
    #[must_use]
    pub fn errors(&mut self) -> Option<DelayScores> {
        DelayScores::of(&mut self.errors)
    }
}

#[cfg(test)]
mod tests {
    use lockstep_vp8::Picture;

    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    fn picture(frame: u32, captured: u64, shown: u64) -> Display {
        Display {
            frame,
            captured_at: at(captured),
            completed_at: at(shown),
            displayed_at: at(shown),
            picture: Picture::from_i420(2, 2, vec![0; 6]).unwrap(),
        }
    }

    #[test]
    fn picture_waits_until_its_sound_is_near() {
        let mut sync = LipSync::new(true);
        sync.on_playback(at(200), Some(at(100)));
        sync.push(at(200), picture(0, 180, 200));
        // Its sound is heard at 280 ms; a difference of 45 ms is unnoticed.
        assert_eq!(sync.poll_timeout(), Some(at(235)));
        assert!(sync.poll(at(234)).is_none());
        let shown = sync.poll(at(235)).unwrap();
        assert_eq!((shown.frame, shown.displayed_at), (0, at(235)));
        assert_eq!(sync.errors().unwrap().p50, 45.0);
    }

    #[test]
    fn picture_of_a_wrong_capture_time_waits_a_second() {
        let mut sync = LipSync::new(true);
        sync.on_playback(at(200), Some(at(100)));
        sync.push(at(200), picture(0, 10_000_000, 200));
        assert!(sync.poll(at(1_199)).is_none() && sync.is_holding());
        assert_eq!(sync.poll_timeout(), Some(at(1_200)));
        assert_eq!(sync.poll(at(1_200)).map(|shown| shown.frame), Some(0));
    }

    #[test]
    fn pictures_waiting_for_sound_are_bounded_in_bytes() {
        let large = Picture::from_i420(4096, 2304, vec![0; 4096 * 2304 * 3 / 2]).unwrap();
        let mut sync = LipSync::new(true);
        sync.on_playback(at(200), Some(at(100)));
        let mut shown = Vec::new();
        for frame in 0..30 {
            let ahead = picture(frame, 10_000_000 + u64::from(frame), 200);
            sync.push(at(200), Display { picture: large.clone(), ..ahead });
            assert!(sync.poll_timeout().is_some());
            shown.extend(sync.poll(at(200)).map(|shown| shown.frame));
        }
        assert_eq!(shown, (0..21).collect::<Vec<_>>(), "nine wait, and the oldest are shown instead");
    }

    #[test]
    fn newest_picture_is_shown_at_once_without_sound() {
        let mut silent = LipSync::new(true);
        let mut off = LipSync::new(false);
        off.on_playback(at(200), Some(at(100)));
        for sync in [&mut silent, &mut off] {
            sync.push(at(200), picture(0, 150, 200));
            sync.push(at(200), picture(1, 180, 200));
            assert_eq!(sync.poll(at(200)).map(|shown| shown.frame), Some(1));
            assert!(sync.poll(at(300)).is_none());
        }
        assert_eq!(off.errors().map(|errors| errors.p50), Some(80.0));
        assert_eq!(off.min_sound_delay(), None);
    }

    #[test]
    fn sound_waits_for_late_pictures() {
        let mut sync = LipSync::new(true);
        for frame in 0..100 {
            sync.push(at(1_000 + u64::from(frame)), picture(frame, 900 + u64::from(frame), 0));
        }
        assert_eq!(sync.min_sound_delay(), Some(nanoseconds(Duration::from_millis(55))));
    }

    #[test]
    fn pictures_delayed_by_an_outage_do_not_delay_sound() {
        let mut sync = LipSync::new(true);
        let delays = [vec![100; 50], (0..30).rev().map(|late| 100 + 40 * late).collect(), vec![100; 50]].concat();
        for (frame, delay) in (0..).zip(delays) {
            let captured = 1_000 + 40 * u64::from(frame);
            sync.push(at(captured + delay), picture(frame, captured, captured + delay));
        }
        assert_eq!(sync.min_sound_delay(), Some(nanoseconds(Duration::from_millis(55))));
    }
}
