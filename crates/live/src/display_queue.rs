//! Queue of pictures between the call and its sink, so that decoding never waits for display.
//!
//! If the sink is too slow, pictures are dropped and counted. The sound of a recording takes the same queue.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstep_call::{Display, DisplayRecord, PictureCodec, Vp8};
use lockstep_media::VideoFormat;
use lockstep_sound::Decoded;
use lockstep_units::Timestamp;

use lockstep_session::stream::StreamName;

/// Pictures that may wait for a live sink, so that a busy host may delay its thread. Beyond this, the oldest pictures
/// are dropped.
const LIVE_PICTURES: usize = 3;
/// Bytes of pictures that may wait for a recording, because a disk may stall: 1.5 s of 1280x720 at 30 frames per
/// second.
const RECORDED_BYTES: usize = 64 << 20;
/// Pictures that may wait for a recording, whatever their size.
const RECORDED_PICTURES: usize = 8;

/// A picture that the sink took.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// Entry of the picture in the receiver's log.
    pub record: DisplayRecord,
    /// When the sender captured it, on the sender's clock.
    pub captured_at: Timestamp,
    /// Shortest round-trip time so far, which contains the least queueing delay.
    pub min_round_trip: Option<Duration>,
}

/// Frames of sound that may wait for a recording (10 s). Beyond this, the newest are dropped.
const RECORDED_SOUNDS: usize = 500;

/// Input of a sink.
pub(crate) enum Next<C: PictureCodec = Vp8> {
    Picture(Box<Waiting<C>>),
    Sound(Box<Decoded>),
}

/// A picture that waits for the sink.
pub(crate) struct Waiting<C: PictureCodec = Vp8> {
    pub(crate) display: Display<C>,
    pub(crate) name: StreamName,
    pub(crate) format: VideoFormat,
    pub(crate) shown: Shown,
}

impl<C: PictureCodec> Waiting<C> {
    /// Approximate size in memory, in bytes.
    fn bytes(&self) -> usize {
        self.format.width * self.format.height * 3 / 2
    }
}

struct Inside<C: PictureCodec> {
    waiting: VecDeque<Waiting<C>>,
    bytes: usize,
    sounds: VecDeque<Box<Decoded>>,
    is_live: bool,
    records_sound: bool,
    is_closed: bool,
    /// Pictures that the sink took since the last call of [`DisplayQueue::taken`].
    taken: Vec<Shown>,
    dropped: u64,
}

impl<C: PictureCodec> Inside<C> {
    fn is_full(&self) -> bool {
        let pictures = self.waiting.len();
        if self.is_live {
            pictures > LIVE_PICTURES
        } else {
            pictures > RECORDED_PICTURES && self.bytes > RECORDED_BYTES
        }
    }
}

/// Handle of the queue, for both sides.
pub(crate) struct DisplayQueue<C: PictureCodec = Vp8>(Arc<(Mutex<Inside<C>>, Condvar)>);

impl<C: PictureCodec> Clone for DisplayQueue<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: PictureCodec> Default for DisplayQueue<C> {
    fn default() -> Self {
        let inside = Inside {
            waiting: VecDeque::new(),
            bytes: 0,
            sounds: VecDeque::new(),
            is_live: false,
            records_sound: false,
            is_closed: false,
            taken: Vec::new(),
            dropped: 0,
        };
        Self(Arc::new((Mutex::new(inside), Condvar::new())))
    }
}

impl<C: PictureCodec> DisplayQueue<C> {
    fn inside(&self) -> MutexGuard<'_, Inside<C>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a picture. If the queue of a live sink is full, the oldest pictures are dropped; for a recording, the new
    /// one is.
    pub(crate) fn push(&self, waiting: Waiting<C>) {
        let mut inside = self.inside();
        inside.bytes += waiting.bytes();
        inside.waiting.push_back(waiting);
        while inside.is_full() {
            let dropped = if inside.is_live { inside.waiting.pop_front() } else { inside.waiting.pop_back() };
            inside.bytes -= dropped.map_or(0, |waiting| waiting.bytes());
            inside.dropped += 1;
        }
        self.0.1.notify_one();
    }

    /// Queues sound that is played now, if the sink records sound.
    pub(crate) fn push_sound(&self, sound: Decoded) {
        let mut inside = self.inside();
        if inside.records_sound && inside.sounds.len() < RECORDED_SOUNDS {
            inside.sounds.push_back(Box::new(sound));
            self.0.1.notify_one();
        }
    }

    /// Waits for the next sound or picture for the sink; `None` after the last.
    pub(crate) fn take(&self) -> Option<Next<C>> {
        let mut inside = self.inside();
        while inside.waiting.is_empty() && inside.sounds.is_empty() && !inside.is_closed {
            inside = self.0.1.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(sound) = inside.sounds.pop_front() {
            return Some(Next::Sound(sound));
        }
        let waiting = inside.waiting.pop_front()?;
        inside.bytes -= waiting.bytes();
        inside.taken.push(waiting.shown);
        Some(Next::Picture(Box::new(waiting)))
    }

    /// Sets whether the sink is live: only the newest pictures matter.
    pub(crate) fn is_live(&self, is_live: bool) {
        self.inside().is_live = is_live;
    }

    /// Makes the queue accept sound, for a sink that records it.
    pub(crate) fn records_sound(&self) {
        self.inside().records_sound = true;
    }

    /// Marks the end of the pictures.
    pub(crate) fn close(&self) {
        self.inside().is_closed = true;
        self.0.1.notify_one();
    }

    /// Pictures that the sink took since the last call.
    pub(crate) fn taken(&self) -> Vec<Shown> {
        std::mem::take(&mut self.inside().taken)
    }

    /// Pictures dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.inside().dropped
    }

    /// Whether no picture waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.inside().waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use lockstep_call::DisplayRecord;
    use lockstep_media::FrameRate;
    use lockstep_units::Timestamp;
    use lockstep_vp8::Picture;

    use super::*;

    /// Picture `frame` with `side` x `side` pixels.
    fn waiting(frame: u32, side: usize) -> Waiting {
        let at = Timestamp::ZERO;
        let picture = Picture::from_i420(side, side, vec![0; side * side * 3 / 2]).expect("a picture");
        let display = Display { frame, captured_at: at, completed_at: at, displayed_at: at, picture };
        let record = DisplayRecord { frame, completed_at: at, displayed_at: at };
        let shown = Shown { record, captured_at: at, min_round_trip: None };
        let format = VideoFormat { width: side, height: side, frame_rate: FrameRate::default() };
        Waiting { display, name: StreamName::default(), format, shown }
    }

    fn frames(queue: &DisplayQueue) -> Vec<u32> {
        queue.close();
        let pictures = std::iter::from_fn(|| queue.take()).filter_map(|next| match next {
            Next::Picture(waiting) => Some(waiting.display.frame),
            Next::Sound(_) => None,
        });
        pictures.collect()
    }

    #[test]
    fn live_sink_gets_the_newest_pictures() {
        let queue = <DisplayQueue>::default();
        queue.is_live(true);
        (0..10).for_each(|frame| queue.push(waiting(frame, 16)));
        assert_eq!(queue.dropped(), 7);
        assert_eq!(frames(&queue), [7, 8, 9]);
        assert_eq!(queue.taken().iter().map(|shown| shown.record.frame).collect::<Vec<_>>(), [7, 8, 9]);
        assert!(queue.taken().is_empty() && queue.is_empty());
    }

    #[test]
    fn recording_gets_the_oldest_pictures_within_its_memory_limit() {
        let queue = <DisplayQueue>::default();
        (0..1_000).for_each(|frame| queue.push(waiting(frame, 16)));
        assert_eq!(queue.dropped(), 0, "they are small");
        assert_eq!(frames(&queue).len(), 1_000);
        let queue = <DisplayQueue>::default();
        (0..60).for_each(|frame| queue.push(waiting(frame, 1_024)));
        let kept = RECORDED_BYTES / (1_024 * 1_024 * 3 / 2);
        assert_eq!(queue.dropped() as usize, 60 - kept);
        assert_eq!(frames(&queue), (0..kept as u32).collect::<Vec<_>>());
    }

    #[test]
    fn sound_waits_only_for_a_sink_that_records_it() {
        let sound = |captured| Decoded { captured, frame: [0; lockstep_sound::FRAME_SAMPLES] };
        let queue = <DisplayQueue>::default();
        queue.push_sound(sound(None));
        queue.records_sound();
        (0..1_000).for_each(|_| queue.push_sound(sound(Some(Timestamp::ZERO))));
        queue.close();
        let sounds: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(sounds.len(), RECORDED_SOUNDS);
        assert!(sounds.iter().all(|next| matches!(next, Next::Sound(sound) if sound.captured.is_some())));
    }
}
