//! Mixes the sound of the other people of a room for one loudspeaker, and finds the speaker among them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockstep_sound::{FRAME_SAMPLES, Frame, SoundFailure, SoundSink};

use crate::sound::Metronome;
use crate::{END_LIMIT, LiveError, Thread};

/// Frames of one person that may wait; beyond this, the oldest is lost. The clocks of a person's player and of the
/// loudspeaker differ. This bounds the delay between them to 40 ms.
const MAX_WAITING: usize = 2;
/// Frames over which the loudness of a person is averaged: 1 s. Another person becomes the speaker after being the
/// loudest for as long.
const SPEAKING_FRAMES: u32 = 50;

/// Sound of one person.
#[derive(Default)]
struct Track {
    waiting: VecDeque<Frame>,
    /// Moving average of the mean square of a sample.
    loudness: f64,
}

/// The speaker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Speaker {
    now: Option<u64>,
    /// The loudest person, if that is another one, and the number of frames since.
    next: Option<(u64, u32)>,
}

impl Speaker {
    /// Takes the loudest person of a frame.
    fn on_loudest(&mut self, loudest: Option<u64>) {
        let Some(loudest) = loudest.filter(|&loudest| self.now != Some(loudest)) else {
            self.next = None;
            return;
        };
        let frames = self.next.filter(|(number, _)| *number == loudest).map_or(1, |(_, frames)| frames + 1);
        self.next = Some((loudest, frames));
        if frames >= SPEAKING_FRAMES {
            (self.now, self.next) = (Some(loudest), None);
        }
    }
}

#[derive(Default)]
struct Tracks {
    tracks: BTreeMap<u64, Track>,
    speaker: Speaker,
}

impl Tracks {
    /// The sum of the next frame of each person.
    fn mix(&mut self) -> Frame {
        let mut sum = [0_i32; FRAME_SAMPLES];
        for track in self.tracks.values_mut() {
            let frame = track.waiting.pop_front().unwrap_or([0; FRAME_SAMPLES]);
            let mut energy = 0.0;
            for (sum, sample) in sum.iter_mut().zip(frame) {
                *sum += i32::from(sample);
                energy += f64::from(sample) * f64::from(sample);
            }
            track.loudness += (energy / FRAME_SAMPLES as f64 - track.loudness) / f64::from(SPEAKING_FRAMES);
        }
        let loudest = self.tracks.iter().max_by(|(_, one), (_, other)| one.loudness.total_cmp(&other.loudness));
        // Quieter than half a step of 16 bits is silence.
        self.speaker.on_loudest(loudest.filter(|(_, track)| track.loudness > 0.25).map(|(&number, _)| number));
        sum.map(|sample| sample.clamp(i16::MIN.into(), i16::MAX.into()) as i16)
    }
}

/// A loudspeaker that several calls share.
pub(crate) struct Mixer {
    tracks: Arc<Mutex<Tracks>>,
    is_over: Arc<AtomicBool>,
    thread: Thread,
}

fn locked(tracks: &Mutex<Tracks>) -> MutexGuard<'_, Tracks> {
    tracks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mixer {
    /// Starts the thread of `sink`.
    pub(crate) fn start(mut sink: Box<dyn SoundSink>) -> Result<Self, LiveError> {
        let (tracks, is_over) = (Arc::<Mutex<Tracks>>::default(), Arc::<AtomicBool>::default());
        let (mixed, ends) = (tracks.clone(), is_over.clone());
        let thread = Thread::spawn("mixer", move || {
            let failed = |failure: SoundFailure| LiveError::Sound(failure.to_string());
            let mut metronome = Metronome::start(!sink.is_live());
            while !ends.load(Ordering::Relaxed) {
                metronome.tick();
                let frame = locked(&mixed).mix();
                sink.play(&frame).map_err(failed)?;
            }
            sink.finish().map_err(failed)
        })?;
        Ok(Self { tracks, is_over, thread })
    }

    /// The sink of a person's call.
    pub(crate) fn sink_of(&self, number: u64) -> Box<dyn SoundSink> {
        locked(&self.tracks).tracks.insert(number, Track::default());
        Box::new(TrackSink { tracks: self.tracks.clone(), number })
    }

    /// The newest speaker; `None` before anybody has spoken, and when that person has left.
    pub(crate) fn speaker(&self) -> Option<u64> {
        let tracks = locked(&self.tracks);
        tracks.speaker.now.filter(|number| tracks.tracks.contains_key(number))
    }

    /// Reports the failure of the thread, once.
    pub(crate) fn check(&mut self) -> Result<(), LiveError> {
        self.thread.check()
    }

    /// Ends the thread.
    pub(crate) fn finish(&mut self) -> Result<(), LiveError> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.finish(END_LIMIT)
    }
}

/// Sink of one person's sound.
struct TrackSink {
    tracks: Arc<Mutex<Tracks>>,
    number: u64,
}

impl SoundSink for TrackSink {
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        if let Some(track) = locked(&self.tracks).tracks.get_mut(&self.number) {
            track.waiting.push_back(*frame);
            if track.waiting.len() > MAX_WAITING {
                track.waiting.pop_front();
            }
        }
        Ok(())
    }
}

impl Drop for TrackSink {
    fn drop(&mut self) {
        locked(&self.tracks).tracks.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mix of people with these samples in every frame.
    fn mixed(tracks: &mut Tracks, samples: &[(u64, i16)]) -> i16 {
        for &(number, sample) in samples {
            tracks.tracks.entry(number).or_default().waiting.push_back([sample; FRAME_SAMPLES]);
        }
        tracks.mix()[0]
    }

    #[test]
    fn voices_add_up_to_full_scale() {
        let mut tracks = Tracks::default();
        assert_eq!(mixed(&mut tracks, &[]), 0);
        assert_eq!(mixed(&mut tracks, &[(1, 1_000), (2, -300)]), 700);
        assert_eq!(mixed(&mut tracks, &[(1, i16::MAX), (2, 1_000)]), i16::MAX);
        assert_eq!(mixed(&mut tracks, &[(1, 5)]), 5, "a person without a frame is silent");
    }

    #[test]
    fn speaker_changes_after_a_second_and_stays_in_silence() {
        let mut tracks = Tracks::default();
        let say = |tracks: &mut Tracks, frames, samples: &[(u64, i16)]| {
            for _ in 0..frames {
                mixed(tracks, samples);
            }
            tracks.speaker.now
        };
        assert_eq!(say(&mut tracks, 100, &[(1, 0), (2, 0)]), None);
        assert_eq!(say(&mut tracks, 49, &[(1, 900), (2, 0)]), None);
        assert_eq!(say(&mut tracks, 1, &[(1, 900), (2, 0)]), Some(1));
        assert_eq!(say(&mut tracks, 20, &[(1, 0), (2, 900)]), Some(1), "a word of another person");
        assert_eq!(say(&mut tracks, 100, &[(1, 900), (2, 0)]), Some(1));
        assert_eq!(say(&mut tracks, 150, &[(1, 0), (2, 900)]), Some(2));
        assert_eq!(say(&mut tracks, 1_000, &[(1, 0), (2, 0)]), Some(2));
    }

    #[test]
    fn person_who_plays_too_fast_or_leaves_delays_nobody() {
        let tracks = Arc::<Mutex<Tracks>>::default();
        locked(&tracks).tracks.insert(1, Track::default());
        let mut sink = TrackSink { tracks: tracks.clone(), number: 1 };
        for sample in 1..=9 {
            sink.play(&[sample; FRAME_SAMPLES]).expect("a place");
        }
        assert_eq!([8, 9, 0], [0; 3].map(|_| locked(&tracks).mix()[0]));
        drop(sink);
        assert!(locked(&tracks).tracks.is_empty());
    }
}
