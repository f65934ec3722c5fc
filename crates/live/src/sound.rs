//! Sound of a live call: one thread captures and encodes, and one decodes and plays.
//!
//! The call's own loop only passes packets on.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_call::{PictureCodec, Playback, SoundAllowance, SoundPacketSource, SoundPlayer, SoundScores, Voice};
use lockstep_socket::Clock;
use lockstep_sound::{FRAME_DURATION, FRAME_SAMPLES, Frame, SoundDecoder, SoundFailure, SoundSink, SoundSource};
use lockstep_transport::SoundPacket;
use lockstep_units::Timestamp;

use crate::Thread;
use crate::call_state::SoundQuality;
use crate::display_queue::DisplayQueue;
use crate::loop_event::{LoopEvent, SoundEvent};
use crate::{END_LIMIT, LiveError};

/// Loudspeaker of a call.
pub struct Loudspeaker {
    /// Sink of the sound.
    pub sink: Box<dyn SoundSink>,
    /// Whether pictures and sound wait for each other.
    pub lip_sync: bool,
}

/// Paces sound that no device paces.
pub(crate) struct Metronome {
    next: Instant,
    is_needed: bool,
}

impl Metronome {
    /// Starts to count; without `is_needed` it never waits.
    pub(crate) fn start(is_needed: bool) -> Self {
        Self { next: Instant::now(), is_needed }
    }

    /// Waits for the end of the current 20 ms.
    pub(crate) fn tick(&mut self) {
        if self.is_needed {
            // A host that slept does not make up for it in a burst.
            self.next =
                (self.next + FRAME_DURATION).max(Instant::now().checked_sub(FRAME_DURATION).unwrap_or(self.next));
            thread::sleep(self.next.saturating_duration_since(Instant::now()));
        }
    }
}

/// A source that can be muted: it keeps its pace, but yields silence.
struct Mutable {
    source: Box<dyn SoundSource>,
    muted: Arc<AtomicBool>,
}

impl SoundSource for Mutable {
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        if self.muted.load(Ordering::Relaxed) {
            return Ok(self.source.next_muted_frame()?.map(|_| [0; FRAME_SAMPLES]));
        }
        self.source.next_frame()
    }

    fn is_live(&self) -> bool {
        self.source.is_live()
    }
}

/// State of the microphone during the call.
pub(crate) struct Microphone {
    muted: Arc<AtomicBool>,
    allowance: Arc<Mutex<SoundAllowance>>,
    begin: Option<mpsc::Sender<()>>,
    thread: Thread,
}

impl Microphone {
    /// Starts the thread for a stream; the source waits for [`Self::begin`].
    pub(crate) fn start<C: PictureCodec>(
        source: Box<dyn SoundSource>,
        stream: usize,
        clock: Clock,
        events: &SyncSender<LoopEvent<C>>,
    ) -> Result<Self, LiveError> {
        let allowance = Arc::new(Mutex::new(SoundAllowance { bitrate: lockstep_sound::MIN_BITRATE, loss: 0.0 }));
        let (begin, begun) = mpsc::channel();
        let (current, events) = (Arc::clone(&allowance), events.clone());
        let muted = Arc::<AtomicBool>::default();
        let source: Box<dyn SoundSource> = Box::new(Mutable { source, muted: muted.clone() });
        let thread = Thread::spawn("microphone", move || {
            if begun.recv().is_err() {
                return Ok(());
            }
            let failed = |error: lockstep_sound::CodingError| LiveError::Sound(error.to_string());
            let mut metronome = Metronome::start(!source.is_live());
            let mut voice = Voice::new(source).map_err(failed)?;
            loop {
                metronome.tick();
                let allowance = *current.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(packet) = voice.next_packet(clock.now(), &allowance).map_err(failed)? else { continue };
                if events.send(LoopEvent::Sound(SoundEvent::Spoken(stream, packet))).is_err() {
                    return Ok(());
                }
            }
        })?;
        Ok(Self { muted, allowance, begin: Some(begin), thread })
    }

    /// Starts the source, unless it has started.
    pub(crate) fn begin(&mut self) {
        if let Some(begin) = self.begin.take() {
            let _ = begin.send(()); // a failed thread is detected by `check`
        }
    }

    /// Mutes or unmutes the source.
    pub(crate) fn mute(&self, muted: bool) {
        self.muted.store(muted, Ordering::Relaxed);
    }

    /// Sets the allowance of the next packets.
    pub(crate) fn allow(&self, allowance: SoundAllowance) {
        *self.allowance.lock().unwrap_or_else(PoisonError::into_inner) = allowance;
    }

    /// Reports the failure of the thread, once.
    pub(crate) fn check(&mut self) -> Result<(), LiveError> {
        self.thread.check()
    }
}

/// Packets that may wait for the loudspeaker's thread (5 s); beyond this, for example while a disk stalls, the newest
/// are lost.
const MAX_QUEUED_PACKETS: usize = 256;
/// No smallest delay is set.
const NO_LEAST_DELAY: i64 = i64::MIN;

/// State of the loudspeaker during the call.
pub(crate) struct Player {
    packets: Option<SyncSender<(Timestamp, SoundPacket)>>,
    min_delay: Arc<AtomicI64>,
    scores: Arc<Mutex<Option<SoundScores>>>,
    quality: Arc<Mutex<SoundQuality>>,
    one_way_delay: Arc<Mutex<Duration>>,
    thread: Thread,
}

impl Player {
    /// Starts the thread. `recording` receives the played sound.
    pub(crate) fn start<C: PictureCodec>(
        sink: Box<dyn SoundSink>,
        clock: Clock,
        events: &SyncSender<LoopEvent<C>>,
        recording: DisplayQueue<C>,
    ) -> Result<Self, LiveError> {
        let (packets, came) = mpsc::sync_channel::<(Timestamp, SoundPacket)>(MAX_QUEUED_PACKETS);
        let min_delay = Arc::new(AtomicI64::new(NO_LEAST_DELAY));
        let scores = Arc::new(Mutex::new(None));
        let one_way_delay = Arc::new(Mutex::new(Duration::ZERO));
        let (delay_limit, scored, events) = (Arc::clone(&min_delay), Arc::clone(&scores), events.clone());
        let way = Arc::clone(&one_way_delay);
        let quality = Arc::<Mutex<SoundQuality>>::default();
        let so_far = quality.clone();
        let thread = Thread::spawn("loudspeaker", move || {
            let decoder = SoundDecoder::new().map_err(|error| LiveError::Sound(error.to_string()))?;
            let mut metronome = Metronome::start(!sink.is_live());
            let mut playing = SoundPlayer::new(decoder, Some(sink));
            'playing: loop {
                metronome.tick();
                loop {
                    match came.try_recv() {
                        Ok((at, packet)) => playing.insert(at, packet),
                        Err(mpsc::TryRecvError::Empty) => break,
                        Err(mpsc::TryRecvError::Disconnected) => break 'playing,
                    }
                }
                match delay_limit.load(Ordering::Relaxed) {
                    NO_LEAST_DELAY => {}
                    delay => playing.set_min_delay(delay),
                }
                let now = clock.now();
                playing.play(now).map_err(|failure| LiveError::Sound(failure.to_string()))?;
                while let Some(decoded) = playing.poll_decoded() {
                    recording.push_sound(decoded);
                }
                let statistics = playing.statistics();
                let (packets, concealed_share) = (statistics.playout.packets, statistics.concealed_share());
                *so_far.lock().unwrap_or_else(PoisonError::into_inner) = SoundQuality { packets, concealed_share };
                // The event may be dropped; the thread must not wait for the call.
                let _ = events.try_send(LoopEvent::Sound(SoundEvent::Playback(now, playing.playing_captured_at())));
            }
            let way = *way.lock().unwrap_or_else(PoisonError::into_inner);
            *scored.lock().unwrap_or_else(PoisonError::into_inner) = Some(playing.scores(Some(way)));
            playing.finish().map_err(|failure| LiveError::Sound(failure.to_string()))
        })?;
        Ok(Self { packets: Some(packets), min_delay, scores, quality, one_way_delay, thread })
    }

    /// Passes on a packet that arrived at `at`.
    pub(crate) fn insert(&self, at: Timestamp, packet: SoundPacket) {
        if let Some(packets) = &self.packets {
            let _ = packets.try_send((at, packet)); // a failed thread is detected by `check`
        }
    }

    /// Sets the smallest playout delay after capture in nanoseconds, between the two clocks.
    pub(crate) fn set_min_delay(&self, delay: i64) {
        self.min_delay.store(delay, Ordering::Relaxed);
    }

    /// Quality of the received sound so far.
    pub(crate) fn sound_quality(&self) -> SoundQuality {
        *self.quality.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the failure of the thread, once.
    pub(crate) fn check(&mut self) -> Result<(), LiveError> {
        self.thread.check()
    }

    /// Completes the recording of the sound, and returns its scores; `one_way_delay` is the one-way delay of the fastest
    /// datagram.
    pub(crate) fn finish(&mut self, one_way_delay: Duration) -> Result<Option<SoundScores>, LiveError> {
        *self.one_way_delay.lock().unwrap_or_else(PoisonError::into_inner) = one_way_delay;
        self.packets = None;
        self.thread.finish(END_LIMIT)?;
        Ok(self.scores.lock().unwrap_or_else(PoisonError::into_inner).take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metronome_ticks_every_20_ms_and_skips_missed_ticks() {
        let mut metronome = Metronome::start(true);
        metronome.next = Instant::now().checked_sub(Duration::from_secs(5)).unwrap_or_else(Instant::now);
        let begun = Instant::now();
        // After five seconds of sleep, one tick comes at once instead of 250, and the next ones in time.
        (0..6).for_each(|_| metronome.tick());
        assert!(begun.elapsed() >= 4 * FRAME_DURATION);
    }
}
