//! Pictures between the call and its sink: whoever decodes never waits for whoever shows. Of pictures for which the sink has no
//! time some are left out, and counted. The sound of a recording takes the same way.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstep_call::{Display, DisplayRecord, PictureCodec, Vp8};
use lockstep_media::VideoFormat;
use lockstep_sound::Decoded;
use lockstep_units::Timestamp;

use crate::stream::StreamName;

/// Pictures that wait for a sink of which only what is shown now matters: as many as pass while a busy host's thread does not
/// run. Of more the oldest are left out.
const LIVE_PICTURES: usize = 3;
/// Bytes of pictures that wait for a sink that is to keep each, a recording: a disk may take no bytes for a while. That is 1.5 s
/// of 1280x720 at 30 a second.
const RECORDED_BYTES: usize = 64 << 20;
/// And so many pictures in any case, however large they are.
const RECORDED_PICTURES: usize = 8;

/// A picture that the sink took.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// The picture's place in the receiver's log.
    pub record: DisplayRecord,
    /// When the sender captured it, on the sender's clock.
    pub captured_at: Timestamp,
    /// The shortest round trip so far, without what queues added to others.
    pub shortest_round_trip: Option<Duration>,
}

/// Frames of sound that wait for a recording: ten seconds. The newest of more are dropped.
const RECORDED_SOUNDS: usize = 500;

/// Input of a sink.
pub(crate) enum Next<C: PictureCodec = Vp8> {
    Picture(Box<Waiting<C>>),
    Sound(Box<Decoded>),
}

/// A picture on its way to the sink.
pub(crate) struct Waiting<C: PictureCodec = Vp8> {
    pub(crate) display: Display<C>,
    pub(crate) name: StreamName,
    pub(crate) format: VideoFormat,
    pub(crate) shown: Shown,
}

impl<C: PictureCodec> Waiting<C> {
    /// Bytes that are held for it, about.
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
    /// What the sink has taken and nobody asked for yet.
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

/// The queue; both ends of it.
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

    /// A picture is to be shown. For a sink that is shown now, the oldest ones that wait are left out for it if there is no
    /// room; for a recording it is left out itself.
    pub(crate) fn push(&self, waiting: Waiting<C>) {
        let mut inside = self.inside();
        inside.bytes += waiting.bytes();
        inside.waiting.push_back(waiting);
        while inside.is_full() {
            let left_out = if inside.is_live { inside.waiting.pop_front() } else { inside.waiting.pop_back() };
            inside.bytes -= left_out.map_or(0, |waiting| waiting.bytes());
            inside.dropped += 1;
        }
        self.0.1.notify_one();
    }

    /// Sound that is played now; it waits if the sink records sound.
    pub(crate) fn push_sound(&self, sound: Decoded) {
        let mut inside = self.inside();
        if inside.records_sound && inside.sounds.len() < RECORDED_SOUNDS {
            inside.sounds.push_back(Box::new(sound));
            self.0.1.notify_one();
        }
    }

    /// The next sound or picture for the sink, once there is one; none when there will be no more.
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

    /// The sink is one of which only what is shown now matters.
    pub(crate) fn is_live(&self, is_live: bool) {
        self.inside().is_live = is_live;
    }

    /// The sink records sound.
    pub(crate) fn records_sound(&self) {
        self.inside().records_sound = true;
    }

    /// No more pictures will come.
    pub(crate) fn close(&self) {
        self.inside().is_closed = true;
        self.0.1.notify_one();
    }

    /// What the sink has taken since this was last asked.
    pub(crate) fn taken(&self) -> Vec<Shown> {
        std::mem::take(&mut self.inside().taken)
    }

    /// Pictures left out so far.
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

    /// Picture `frame` of so many pixels a side.
    fn waiting(frame: u32, side: usize) -> Waiting {
        let at = Timestamp::ZERO;
        let picture = Picture::from_i420(side, side, vec![0; side * side * 3 / 2]).expect("a picture");
        let display = Display { frame, captured_at: at, completed_at: at, displayed_at: at, picture };
        let record = DisplayRecord { frame, completed_at: at, displayed_at: at };
        let shown = Shown { record, captured_at: at, shortest_round_trip: None };
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
    fn a_sink_that_is_shown_now_gets_the_newest_and_what_it_took_is_what_was_shown() {
        let queue = <DisplayQueue>::default();
        queue.is_live(true);
        (0..10).for_each(|frame| queue.push(waiting(frame, 16)));
        assert_eq!(queue.dropped(), 7);
        assert_eq!(frames(&queue), [7, 8, 9]);
        assert_eq!(queue.taken().iter().map(|shown| shown.record.frame).collect::<Vec<_>>(), [7, 8, 9]);
        assert!(queue.taken().is_empty() && queue.is_empty());
    }

    #[test]
    fn a_recording_gets_every_picture_up_to_a_bound_of_memory_and_then_those_that_came_first() {
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
