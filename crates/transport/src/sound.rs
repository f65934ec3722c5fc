//! Sound beside the video: packets that leave before any fragment, are acknowledged like one, and are never sent again.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::payload::Payload;
use crate::wire::MAX_PAYLOAD;

/// In a list of fragments, the place of what is no fragment of a frame but a packet of sound; the frame's number beside it
/// is that of the 20 ms of sound. No fragment has this place: a frame has at most 65,535 of them, counted from 0.
pub const SOUND: u16 = u16::MAX;

/// How long a frame of sound lasts.
pub const SOUND_FRAME: Duration = Duration::from_millis(20);
/// Frames that one datagram carries at most: 120 ms, as long as the longest packet of Opus (RFC 6716, section 3.2).
pub const MOST_BUNDLED: usize = 6;
/// Bytes that a further frame in a datagram takes beside its own.
pub(crate) const FURTHER_HEADER: usize = 2;
/// Those that wait for others to leave with them wait no longer than the others' frames last, and so much for the host's
/// timers.
const BUNDLE_SLACK: Duration = Duration::from_millis(10);
/// Frames of a bundle were captured each so long after the one before; more or less by this is told as if it were so.
const CAPTURE_TOLERANCE: Duration = Duration::from_millis(10);

/// Packets that wait to leave at most: one second of them. Older ones would be heard too late.
const MOST_WAITING: usize = 50;
/// So many transmitted packets are remembered, to recognise acknowledgements: 20 seconds of them.
const REMEMBERED: usize = 1_024;
/// Over so many frames of sound, packets may arrive in any order.
const WINDOW: u32 = 1_024;

lockstep_units::config! {
    /// Sound that waits to leave.
    pub struct WaitingSoundConfig = "waiting_sound" {
        /// A packet that is held back longer than this is dropped: late words delay those after them.
        longest_held: Duration = 0.4, "s", 0.02..=10.0, "2026-11-control-ablation";
    }
}

/// A packet of sound that is made of `P`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundPacket<P = Vec<u8>> {
    /// Its frame: how many frames of 20 ms its sender captured before, those that were not sent included.
    pub frame: u32,
    /// When its first sample was captured, sender's clock.
    pub captured: Timestamp,
    /// The coded sound, at most [`MAX_PAYLOAD`](crate::wire::MAX_PAYLOAD) bytes; empty where silence begins or goes on.
    pub payload: P,
}

/// Packets that wait to leave.
#[derive(Debug)]
pub(crate) struct WaitingSound<P> {
    packets: VecDeque<(Timestamp, SoundPacket<P>)>,
    newest: Option<u32>,
    /// How many leave together, if they come one after another.
    bundle: usize,
    /// Whether nothing leaves for now.
    held: bool,
    config: WaitingSoundConfig,
}

/// Packets that leave in one datagram, the first and those of the frames after it, and since when the first waited.
pub(crate) struct Bundle<P> {
    pub(crate) since: Timestamp,
    pub(crate) packet: SoundPacket<P>,
    pub(crate) further: Vec<P>,
}

impl<P: Payload> WaitingSound<P> {
    pub(crate) fn new(config: WaitingSoundConfig) -> Self {
        Self { packets: VecDeque::new(), newest: None, bundle: 1, held: false, config }
    }

    /// So many leave together from now on.
    pub(crate) fn set_bundle(&mut self, frames: usize) {
        self.bundle = frames.clamp(1, MOST_BUNDLED);
    }

    /// Whether nothing leaves from now on, until the opposite is said; then those that wait for long make room.
    pub(crate) fn set_held(&mut self, now: Timestamp, held: bool) {
        self.held = held;
        if held {
            self.leave_out(now);
        }
    }

    fn leave_out(&mut self, now: Timestamp) {
        let longest = self.config.longest_held;
        while self.packets.front().is_some_and(|&(since, _)| now.is_later_by(longest, since)) {
            self.packets.pop_front();
        }
    }

    /// When what waits leaves; none if nothing does.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        if self.held {
            return None;
        }
        let (since, _) = self.packets.front()?;
        if self.bundle == 1 {
            return Some(Timestamp::ZERO);
        }
        // Nothing comes after silence has begun.
        let ends = self.packets.back().is_some_and(|(_, packet)| packet.payload.length() == 0);
        let now = ends || self.packets.len() >= self.bundle;
        Some(if now { Timestamp::ZERO } else { *since + SOUND_FRAME * (self.bundle - 1) as u32 + BUNDLE_SLACK })
    }

    /// Whether something leaves at `now`.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// A packet more, since `now`; says whether it is newer than all before, as it must be.
    pub(crate) fn push(&mut self, now: Timestamp, packet: SoundPacket<P>) -> bool {
        if self.newest.is_some_and(|newest| packet.frame <= newest) {
            return false;
        }
        self.newest = Some(packet.frame);
        if self.packets.len() == MOST_WAITING {
            self.packets.pop_front();
        }
        self.packets.push_back((now, packet));
        true
    }

    /// The oldest, with those that follow it and leave with it.
    pub(crate) fn pop(&mut self) -> Option<Bundle<P>> {
        let (since, packet) = self.packets.pop_front()?;
        let mut further = Vec::new();
        let mut length = packet.payload.length();
        while further.len() + 1 < self.bundle
            && let Some((_, next)) = self.packets.front()
        {
            let place = 1 + further.len() as u32;
            let captured = packet.captured + SOUND_FRAME * place;
            let apart = captured.saturating_since(next.captured).max(next.captured.saturating_since(captured));
            length += FURTHER_HEADER + next.payload.length();
            if Some(next.frame) != packet.frame.checked_add(place) || apart > CAPTURE_TOLERANCE || length > MAX_PAYLOAD
            {
                break;
            }
            further.extend(self.packets.pop_front().map(|(_, next)| next.payload));
        }
        Some(Bundle { since, packet, further })
    }
}

/// The sequence numbers of the packets that were transmitted last, by their frames.
#[derive(Debug, Default)]
pub(crate) struct TransmittedSound {
    packets: VecDeque<(u32, u64)>,
    has_forgotten: bool,
}

impl TransmittedSound {
    /// A packet newer than all before left as datagram `sequence`.
    pub(crate) fn push(&mut self, frame: u32, sequence: u64) {
        if self.packets.len() == REMEMBERED {
            self.packets.pop_front();
            self.has_forgotten = true;
        }
        self.packets.push_back((frame, sequence));
    }

    /// The sequence number of a frame's packet. If there is none, the error says whether that may be forgotten.
    pub(crate) fn find(&self, frame: u32) -> Result<u64, bool> {
        let place = self.packets.binary_search_by_key(&frame, |&(frame, _)| frame);
        let before_all = || self.packets.front().is_none_or(|&(oldest, _)| frame < oldest);
        place.map(|place| self.packets[place].1).map_err(|_| self.has_forgotten && before_all())
    }
}

/// Which packets came already.
#[derive(Debug)]
pub(crate) struct HeardSound {
    newest: Option<u32>,
    /// Of the last [`WINDOW`] frames, by their numbers modulo that.
    heard: [u64; WINDOW as usize / 64],
}

impl HeardSound {
    pub(crate) fn new() -> Self {
        Self { newest: None, heard: [0; WINDOW as usize / 64] }
    }

    fn bit(frame: u32) -> (usize, u64) {
        let place = frame % WINDOW;
        ((place / 64) as usize, 1 << (place % 64))
    }

    /// A packet of frame `frame` came; says whether it is the first, and not too old to tell.
    pub(crate) fn insert(&mut self, frame: u32) -> bool {
        match self.newest {
            Some(newest) if frame <= newest => {
                if newest - frame >= WINDOW {
                    return false;
                }
            }
            newest => {
                let first = newest.map_or(frame, |newest| newest.saturating_add(1));
                for passed in first.max(frame.saturating_sub(WINDOW - 1))..=frame {
                    let (word, bit) = Self::bit(passed);
                    self.heard[word] &= !bit;
                }
                self.newest = Some(frame);
            }
        }
        let (word, bit) = Self::bit(frame);
        let is_first = self.heard[word] & bit == 0;
        self.heard[word] |= bit;
        is_first
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::payload::Length;

    /// Frames that wait since their ends, of so many bytes each.
    fn waiting(frames: &[(u32, u32)], bundle: usize) -> WaitingSound<Length> {
        let mut waiting = WaitingSound::new(WaitingSoundConfig::default());
        waiting.set_bundle(bundle);
        for &(frame, bytes) in frames {
            let captured = Timestamp::ZERO + SOUND_FRAME * frame;
            assert!(waiting.push(captured + SOUND_FRAME, SoundPacket { frame, captured, payload: Length(bytes) }));
        }
        waiting
    }

    #[test]
    fn frames_that_follow_each_other_leave_together_and_no_others() {
        let mut bundled = waiting(&[(0, 20), (1, 30), (2, 25), (4, 20), (5, 1_390), (6, 0)], 3);
        let taken = std::iter::from_fn(|| bundled.pop());
        let lengths: Vec<_> = taken.map(|bundle| (bundle.packet.frame, bundle.further)).collect();
        let expected = [(0, vec![Length(30), Length(25)]), (4, vec![]), (5, vec![Length(0)])];
        assert_eq!(lengths, expected);
    }

    #[test]
    fn a_frame_waits_for_those_it_leaves_with_and_no_longer_than_they_take() {
        let at = Timestamp::from_millis;
        assert_eq!(waiting(&[(0, 20)], 1).due(), Some(at(0)));
        assert_eq!(waiting(&[(0, 20), (1, 20)], 3).due(), Some(at(20 + 40 + 10)));
        assert_eq!(waiting(&[(0, 20), (1, 20), (2, 20)], 3).due(), Some(at(0)));
        assert_eq!(waiting(&[(0, 20), (1, 0)], 3).due(), Some(at(0)), "silence begins");
        assert_eq!(waiting(&[], 3).due(), None);
    }

    proptest! {
        #[test]
        fn each_packet_is_heard_once_and_none_that_is_far_behind(
            steps in prop::collection::vec((0..3_000u32, any::<bool>()), 1..300),
        ) {
            let (mut heard, mut seen, mut newest) = (HeardSound::new(), BTreeSet::new(), 0u32);
            for (step, ahead) in steps {
                let frame = if ahead { newest.saturating_add(step) } else { newest.saturating_sub(step) };
                let expected = (seen.is_empty() || frame > newest || newest - frame < WINDOW) && seen.insert(frame);
                prop_assert_eq!(heard.insert(frame), expected, "frame {} after {}", frame, newest);
                newest = newest.max(frame);
            }
        }
    }

    #[test]
    fn what_waits_for_too_long_makes_room() {
        let mut waiting = WaitingSound::new(WaitingSoundConfig::default());
        for frame in 0..60 {
            let packet = SoundPacket { frame, captured: Timestamp::ZERO, payload: Length(1) };
            assert!(waiting.push(Timestamp::ZERO, packet));
        }
        let old = SoundPacket { frame: 59, captured: Timestamp::ZERO, payload: Length(1) };
        assert!(!waiting.push(Timestamp::ZERO, old));
        assert_eq!(waiting.pop().map(|bundle| bundle.packet.frame), Some(10));
    }

    #[test]
    fn of_what_is_held_back_the_newest_is_kept_and_leaves_when_the_path_is_free_again() {
        let mut held = waiting(&(0..40).map(|frame| (frame, 20)).collect::<Vec<_>>(), 1);
        let now = Timestamp::from_millis(40 * 20);
        held.set_held(now, true);
        assert_eq!(held.due(), None);
        held.set_held(now, false);
        assert_eq!(held.due(), Some(Timestamp::ZERO));
        // It waits since its end, 400 ms ago.
        assert_eq!(held.pop().map(|bundle| bundle.packet.frame), Some(19));
    }

    #[test]
    fn a_packet_is_found_forgotten_or_was_never_sent() {
        let mut transmitted = TransmittedSound::default();
        assert_eq!(transmitted.find(0), Err(false));
        for at in 0..1_100 {
            transmitted.push(2 * at, u64::from(at) + 7);
        }
        assert_eq!(transmitted.find(2_000), Ok(1_007));
        assert_eq!(transmitted.find(2_001), Err(false));
        assert_eq!(transmitted.find(100), Err(true));
        assert_eq!(transmitted.find(2_200), Err(false));
    }
}
