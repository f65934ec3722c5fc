//! Sound packets: queue of the sender, record of transmissions, and detection of duplicates.
//!
//! A sound packet leaves before any fragment, is acknowledged like one, and is never sent again.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::payload::Payload;
use crate::wire::MAX_PAYLOAD;

/// Fragment index of a sound packet in lists of fragments; the frame is then a sound frame. No fragment has this index,
/// since a frame has at most 65,535 fragments, counted from 0.
pub const SOUND: u16 = u16::MAX;

/// Duration of a sound frame.
pub const SOUND_FRAME: Duration = Duration::from_millis(20);
/// Largest number of sound frames in a datagram: 120 ms, the longest Opus packet (RFC 6716, section 3.2).
pub const MAX_BUNDLED_FRAMES: usize = 6;
/// Bytes before each further frame in a datagram.
pub(crate) const FURTHER_HEADER: usize = 2;
/// Slack for the host's timers. A frame waits no longer than the others of its bundle last, plus this.
const BUNDLE_SLACK: Duration = Duration::from_millis(10);
/// Largest deviation of a capture time within a bundle. Bundled frames lose it: the receiver assumes exactly
/// [`SOUND_FRAME`] between them.
const CAPTURE_TOLERANCE: Duration = Duration::from_millis(10);

/// Largest number of waiting packets: one second of sound. Older sound would be played too late.
const MAX_WAITING_PACKETS: usize = 50;
/// Number of transmitted packets that are remembered to recognise their acknowledgements: 20 seconds.
const REMEMBERED: usize = 1_024;
/// Number of sound frames within which packets may arrive in any order.
const WINDOW: u32 = 1_024;

lockstep_units::config! {
    /// Sound that waits for transmission.
    pub struct WaitingSoundConfig = "waiting_sound" {
        /// A held packet that waits longer than this is dropped, since late sound delays all later sound.
        longest_held: Duration = 0.4, "s", 0.02..=10.0, "2026-11-control-ablation";
    }
}

/// A sound packet, whose content is a `P`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundPacket<P = Vec<u8>> {
    /// Number of the sound frame: how many frames of 20 ms were captured before, unsent ones included.
    pub frame: u32,
    /// Capture time of the first sample, sender's clock.
    pub captured: Timestamp,
    /// Coded sound, at most [`MAX_PAYLOAD`](crate::wire::MAX_PAYLOAD) bytes; empty during silence.
    pub payload: P,
}

/// Queue of packets that wait for transmission.
#[derive(Debug)]
pub(crate) struct WaitingSound<P> {
    packets: VecDeque<(Timestamp, SoundPacket<P>)>,
    newest: Option<u32>,
    /// Number of consecutive frames that leave together.
    bundle: usize,
    /// Whether packets are held back.
    held: bool,
    config: WaitingSoundConfig,
}

/// Packets that leave in one datagram: the first, the contents of the frames after it, and since when the first waited.
pub(crate) struct Bundle<P> {
    pub(crate) since: Timestamp,
    pub(crate) packet: SoundPacket<P>,
    pub(crate) further: Vec<P>,
}

impl<P: Payload> WaitingSound<P> {
    pub(crate) fn new(config: WaitingSoundConfig) -> Self {
        Self { packets: VecDeque::new(), newest: None, bundle: 1, held: false, config }
    }

    /// Sets the number of consecutive frames that leave together.
    pub(crate) fn set_bundle(&mut self, frames: usize) {
        self.bundle = frames.clamp(1, MAX_BUNDLED_FRAMES);
    }

    /// Sets whether packets are held back, and drops those that wait for too long.
    pub(crate) fn set_held(&mut self, now: Timestamp, held: bool) {
        self.held = held;
        if held {
            self.drop_old(now);
        }
    }

    fn drop_old(&mut self, now: Timestamp) {
        let longest = self.config.longest_held;
        while self.packets.front().is_some_and(|&(since, _)| now.is_later_by(longest, since)) {
            self.packets.pop_front();
        }
    }

    /// Time at which the next packet leaves; `None` if none does.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        if self.held {
            return None;
        }
        let (since, _) = self.packets.front()?;
        if self.bundle == 1 {
            return Some(Timestamp::ZERO);
        }
        // No packet follows the beginning of silence.
        let ends = self.packets.back().is_some_and(|(_, packet)| packet.payload.length() == 0);
        let now = ends || self.packets.len() >= self.bundle;
        Some(if now { Timestamp::ZERO } else { *since + SOUND_FRAME * (self.bundle - 1) as u32 + BUNDLE_SLACK })
    }

    /// Whether a packet leaves at `now`.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// Queues a packet at `now`. Returns `false` if it is not newer than all before; it is then not queued.
    pub(crate) fn push(&mut self, now: Timestamp, packet: SoundPacket<P>) -> bool {
        if self.newest.is_some_and(|newest| packet.frame <= newest) {
            return false;
        }
        self.newest = Some(packet.frame);
        if self.packets.len() == MAX_WAITING_PACKETS {
            self.packets.pop_front();
        }
        self.packets.push_back((now, packet));
        true
    }

    /// Removes the oldest packet, and those that leave with it.
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

/// Sequence numbers of the last transmitted packets, by frame.
#[derive(Debug, Default)]
pub(crate) struct TransmittedSound {
    packets: VecDeque<(u32, u64)>,
    has_forgotten: bool,
}

impl TransmittedSound {
    /// Records that a packet, newer than all before, left with this sequence number.
    pub(crate) fn push(&mut self, frame: u32, sequence: u64) {
        if self.packets.len() == REMEMBERED {
            self.packets.pop_front();
            self.has_forgotten = true;
        }
        self.packets.push_back((frame, sequence));
    }

    /// Sequence number of a frame's packet. The error is whether the packet may have been forgotten.
    pub(crate) fn find(&self, frame: u32) -> Result<u64, bool> {
        let place = self.packets.binary_search_by_key(&frame, |&(frame, _)| frame);
        let before_all = || self.packets.front().is_none_or(|&(oldest, _)| frame < oldest);
        place.map(|place| self.packets[place].1).map_err(|_| self.has_forgotten && before_all())
    }
}

/// Detects duplicate packets.
#[derive(Debug)]
pub(crate) struct ReceivedSound {
    newest: Option<u32>,
    /// Bits of the last [`WINDOW`] frames, by number modulo [`WINDOW`].
    arrived: [u64; WINDOW as usize / 64],
}

impl ReceivedSound {
    pub(crate) fn new() -> Self {
        Self { newest: None, arrived: [0; WINDOW as usize / 64] }
    }

    fn bit(frame: u32) -> (usize, u64) {
        let place = frame % WINDOW;
        ((place / 64) as usize, 1 << (place % 64))
    }

    /// Records the packet of a frame. Returns whether it is the first, and within the window.
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
                    self.arrived[word] &= !bit;
                }
                self.newest = Some(frame);
            }
        }
        let (word, bit) = Self::bit(frame);
        let is_first = self.arrived[word] & bit == 0;
        self.arrived[word] |= bit;
        is_first
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::payload::Length;

    /// Waiting frames of a number and a size each, queued at the end of their capture.
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
    fn consecutive_frames_leave_together() {
        let mut bundled = waiting(&[(0, 20), (1, 30), (2, 25), (4, 20), (5, 1_390), (6, 0)], 3);
        let taken = std::iter::from_fn(|| bundled.pop());
        let lengths: Vec<_> = taken.map(|bundle| (bundle.packet.frame, bundle.further)).collect();
        let expected = [(0, vec![Length(30), Length(25)]), (4, vec![]), (5, vec![Length(0)])];
        assert_eq!(lengths, expected);
    }

    #[test]
    fn frame_waits_no_longer_than_its_bundle_lasts() {
        let at = Timestamp::from_millis;
        assert_eq!(waiting(&[(0, 20)], 1).due(), Some(at(0)));
        assert_eq!(waiting(&[(0, 20), (1, 20)], 3).due(), Some(at(20 + 40 + 10)));
        assert_eq!(waiting(&[(0, 20), (1, 20), (2, 20)], 3).due(), Some(at(0)));
        assert_eq!(waiting(&[(0, 20), (1, 0)], 3).due(), Some(at(0)), "silence begins");
        assert_eq!(waiting(&[], 3).due(), None);
    }

    proptest! {
        #[test]
        fn duplicates_and_packets_behind_the_window_are_refused(
            steps in prop::collection::vec((0..3_000u32, any::<bool>()), 1..300),
        ) {
            let (mut received, mut seen, mut newest) = (ReceivedSound::new(), BTreeSet::new(), 0u32);
            for (step, ahead) in steps {
                let frame = if ahead { newest.saturating_add(step) } else { newest.saturating_sub(step) };
                let expected = (seen.is_empty() || frame > newest || newest - frame < WINDOW) && seen.insert(frame);
                prop_assert_eq!(received.insert(frame), expected, "frame {} after {}", frame, newest);
                newest = newest.max(frame);
            }
        }
    }

    #[test]
    fn full_queue_drops_the_oldest_packet() {
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
    fn held_sound_older_than_the_limit_is_dropped() {
        let mut held = waiting(&(0..40).map(|frame| (frame, 20)).collect::<Vec<_>>(), 1);
        let now = Timestamp::from_millis(40 * 20);
        held.set_held(now, true);
        assert_eq!(held.due(), None);
        held.set_held(now, false);
        assert_eq!(held.due(), Some(Timestamp::ZERO));
        // The packet has waited since the end of its capture, for 400 ms.
        assert_eq!(held.pop().map(|bundle| bundle.packet.frame), Some(19));
    }

    #[test]
    fn transmitted_packet_is_found_until_forgotten() {
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
