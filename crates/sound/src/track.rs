//! The sound track of a recording: places decoded frames at their capture times and encodes one stream without gaps.

use std::collections::VecDeque;

use lockstep_units::Timestamp;

use crate::player::Decoded;
use crate::{CodingError, FRAME_DURATION, FRAME_SAMPLES, SAMPLE_RATE, SoundEncoder};

/// Maximum distance of speech from its capture time, in samples: 25 ms. Timers of hosts are less precise than the
/// clocks of sound cards. EBU R37 tolerates sound 40 ms early and 60 ms late.
const TOLERANCE: u64 = SAMPLE_RATE as u64 / 40;
/// A longer gap, in samples, remains a gap: the sender's clock jumped, or an outage stopped the pictures too.
const MAX_FILL_SAMPLES: u64 = 5 * SAMPLE_RATE as u64;
/// Maximum number of concealed samples kept until the gap ends. Concealment fades out within that time.
const MAX_CONCEALED_SAMPLES: usize = 10 * FRAME_SAMPLES;

/// A coded frame of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackPacket {
    /// The capture time of its first sample.
    pub captured: Timestamp,
    /// The Opus packet.
    pub payload: Vec<u8>,
}

/// Makes the sound track of a recording that begins at a capture time.
///
/// Gaps contain the concealment, then silence. Frames before the end of the track are dropped.
/// [`SoundTrack::fill_until`] continues the track while no sound arrives.
#[derive(Debug)]
pub struct SoundTrack {
    encoder: SoundEncoder,
    begin: Timestamp,
    /// Number of placed samples since the beginning.
    placed: u64,
    /// Placed samples that are not encoded yet.
    samples: VecDeque<i16>,
    /// Concealed samples after the placed ones. A late frame may still replace them.
    concealed: VecDeque<i16>,
    packets: VecDeque<TrackPacket>,
}

impl SoundTrack {
    /// A track that begins at capture time `begin`.
    ///
    /// # Errors
    /// If Opus has no memory.
    pub fn new(begin: Timestamp) -> Result<Self, CodingError> {
        let encoder = SoundEncoder::for_recording()?;
        let (samples, concealed, packets) = Default::default();
        Ok(Self { encoder, begin, placed: 0, samples, concealed, packets })
    }

    /// Samples from the beginning to `at`.
    fn position(&self, at: Timestamp) -> u64 {
        let samples = at.saturating_since(self.begin).as_nanos() * u128::from(SAMPLE_RATE) / 1_000_000_000;
        u64::try_from(samples).unwrap_or(u64::MAX)
    }

    /// The capture time of the sample at `position`.
    fn time(&self, position: u64) -> Timestamp {
        let nanoseconds = u128::from(position) * 1_000_000_000 / u128::from(SAMPLE_RATE);
        let begin = u128::from(self.begin.as_nanos());
        Timestamp::from_nanos(u64::try_from(begin + nanoseconds).unwrap_or(u64::MAX))
    }

    /// Places a frame.
    ///
    /// # Errors
    /// If Opus cannot code it.
    pub fn push(&mut self, decoded: &Decoded) -> Result<(), CodingError> {
        let Some(captured) = decoded.captured else {
            let room = MAX_CONCEALED_SAMPLES.saturating_sub(self.concealed.len());
            self.concealed.extend(decoded.frame.iter().take(room));
            return Ok(());
        };
        if self.begin.saturating_since(captured) >= FRAME_DURATION {
            return Ok(());
        }
        let position = self.position(captured);
        if position > self.placed + TOLERANCE || !self.concealed.is_empty() {
            self.fill(position)?;
        }
        let overlap = self.placed.saturating_sub(position);
        let skipped = if overlap > TOLERANCE { overlap } else { 0 };
        let skipped = usize::try_from(skipped).unwrap_or(FRAME_SAMPLES).min(FRAME_SAMPLES);
        self.place(&decoded.frame[skipped..])
    }

    /// Continues the track with silence until `at`, if no sound was placed up to then.
    ///
    /// # Errors
    /// If Opus cannot code it.
    pub fn fill_until(&mut self, at: Timestamp) -> Result<(), CodingError> {
        self.fill(self.position(at))
    }

    /// The next packet.
    pub fn poll_packet(&mut self) -> Option<TrackPacket> {
        self.packets.pop_front()
    }

    fn fill(&mut self, position: u64) -> Result<(), CodingError> {
        let gap = position.saturating_sub(self.placed);
        if gap == 0 {
            // A late frame replaces its concealment.
            self.concealed.clear();
            return Ok(());
        }
        if gap > MAX_FILL_SAMPLES {
            self.concealed.clear();
            let rest = (FRAME_SAMPLES - self.samples.len()) % FRAME_SAMPLES;
            self.place(&vec![0; rest])?;
            self.placed = position;
            return Ok(());
        }
        let gap = gap as usize; // at most `MAX_FILL_SAMPLES`
        let mut filling: Vec<i16> = self.concealed.drain(..).take(gap).collect();
        filling.resize(gap, 0);
        self.place(&filling)
    }

    fn place(&mut self, samples: &[i16]) -> Result<(), CodingError> {
        self.samples.extend(samples);
        self.placed = self.placed.saturating_add(samples.len() as u64);
        while self.samples.len() >= FRAME_SAMPLES {
            let begin = self.placed.saturating_sub(self.samples.len() as u64);
            let mut frame = [0; FRAME_SAMPLES];
            frame.iter_mut().zip(self.samples.drain(..FRAME_SAMPLES)).for_each(|(to, from)| *to = from);
            if let Some(payload) = self.encoder.encode(&frame)? {
                let captured = self.time(begin);
                self.packets.push_back(TrackPacket { captured, payload });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Frame, LOOK_AHEAD, SoundDecoder};

    const LOUD: i16 = 8_000;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(50_000 + milliseconds)
    }

    /// A frame of a 500 Hz tone.
    fn tone() -> Frame {
        std::array::from_fn(|sample| if sample % 96 < 48 { LOUD } else { -LOUD })
    }

    fn sound_at(milliseconds: u64) -> Decoded {
        Decoded { captured: Some(at(milliseconds)), frame: tone() }
    }

    fn concealed() -> Decoded {
        Decoded { captured: None, frame: tone() }
    }

    /// For each millisecond of a track, whether it is loud. A player that ignores gaps would play it this way.
    fn loud(track: &mut SoundTrack) -> Vec<bool> {
        let mut decoder = SoundDecoder::new().unwrap();
        let (mut samples, mut next) = (Vec::new(), at(0));
        while let Some(packet) = track.poll_packet() {
            assert_eq!(packet.captured, next, "there is a gap");
            next += FRAME_DURATION;
            samples.extend(decoder.decode(&packet.payload).unwrap());
        }
        let loud = |samples: &[i16]| samples.iter().map(|sample| i32::from(sample.unsigned_abs())).max() > Some(2_000);
        samples[LOOK_AHEAD.min(samples.len())..].chunks(48).map(loud).collect()
    }

    /// The milliseconds at which a track turns loud or silent.
    fn changes(loud: &[bool]) -> Vec<usize> {
        (0..loud.len()).filter(|&at| loud[at] != (at > 0 && loud[at - 1])).collect()
    }

    fn assert_near(changes: &[usize], expected: &[usize]) {
        let near = changes.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) <= 6);
        assert!(near && changes.len() == expected.len(), "{changes:?}, expected {expected:?}");
    }

    #[test]
    fn beep_is_at_its_capture_time() {
        let mut track = SoundTrack::new(at(0)).unwrap();
        for beep in [313, 1_427] {
            (0..10).for_each(|frame| track.push(&sound_at(beep + 20 * frame)).unwrap());
        }
        track.fill_until(at(2_000)).unwrap();
        assert_near(&changes(&loud(&mut track)), &[313, 513, 1_427, 1_627]);
    }

    #[test]
    fn late_sender_timers_do_not_cut_speech() {
        let mut track = SoundTrack::new(at(0)).unwrap();
        for frame in 0..50 {
            track.push(&sound_at(20 * frame + frame * 7 % 16)).unwrap();
        }
        assert_eq!(track.placed, 50 * FRAME_SAMPLES as u64);
    }

    #[test]
    fn fast_sound_card_clock_does_not_shift_the_track() {
        let mut track = SoundTrack::new(at(0)).unwrap();
        // The clock is 1 % fast. After ten seconds, contiguous frames would be 100 ms late.
        for frame in 0..500 {
            let captured = at(0) + Duration::from_micros(19_800) * frame as u32;
            track.push(&Decoded { captured: Some(captured), frame: tone() }).unwrap();
        }
        let end = 9_900 * SAMPLE_RATE as u64 / 1_000;
        assert!(track.placed.abs_diff(end) <= TOLERANCE + FRAME_SAMPLES as u64, "{}, expected {end}", track.placed);
    }

    #[test]
    fn late_packet_replaces_concealment() {
        let mut lost = SoundTrack::new(at(0)).unwrap();
        let mut late = SoundTrack::new(at(0)).unwrap();
        for (track, next) in [(&mut lost, 60), (&mut late, 20)] {
            track.push(&sound_at(0)).unwrap();
            (0..2).for_each(|_| track.push(&concealed()).unwrap());
            track.push(&sound_at(next)).unwrap();
        }
        assert_eq!((lost.placed, late.placed), (4 * FRAME_SAMPLES as u64, 2 * FRAME_SAMPLES as u64));
        lost.fill_until(at(200)).unwrap();
        assert_near(&changes(&loud(&mut lost)), &[0, 80]);
    }

    #[test]
    fn sound_before_the_recording_is_dropped() {
        let mut track = SoundTrack::new(at(100)).unwrap();
        (0..5).for_each(|frame| track.push(&sound_at(20 * frame)).unwrap());
        assert_eq!((track.placed, track.poll_packet()), (0, None));
        track.push(&sound_at(100)).unwrap();
        assert_eq!(track.poll_packet().map(|packet| packet.captured), Some(at(100)));
    }

    #[test]
    fn sound_that_arrives_after_its_silence_is_dropped() {
        let mut track = SoundTrack::new(at(0)).unwrap();
        track.fill_until(at(1_000)).unwrap();
        track.push(&sound_at(500)).unwrap();
        assert_eq!(track.placed, u64::from(SAMPLE_RATE));
    }

    #[test]
    fn jump_of_the_clock_leaves_a_gap_without_memory_cost() {
        let mut track = SoundTrack::new(at(0)).unwrap();
        track.push(&sound_at(0)).unwrap();
        track.push(&sound_at(3_600_000)).unwrap();
        track.fill_until(Timestamp::from_nanos(u64::MAX)).unwrap();
        track.push(&Decoded { captured: Some(Timestamp::from_nanos(u64::MAX)), frame: tone() }).unwrap();
        let times: Vec<_> = std::iter::from_fn(|| track.poll_packet()).map(|packet| packet.captured).collect();
        assert_eq!((times.len(), times[0], times[1]), (3, at(0), at(3_600_000)));
    }
}
