//! Memory that frames are made in, used again for the frames that follow.

use std::fmt;
use std::panic::UnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::encoder::macroblock_motion::MacroblockMotion;
use crate::encoder::packed_token::PackedToken;
use crate::frame::{Frame, FrameBuffer, FrameLayout};
use crate::macroblock::MacroblockInfo;

/// Memory for coding and decoding, which its owner keeps from frame to frame: a system would take large blocks back and
/// hand them out again page by page, at a few hundredths of the time that a frame takes.
///
/// Whoever codes or decodes one frame after another owns an arena and passes it on ([`Analysis::new_in`], [`decode_in`]).
/// It is memory and nothing else: what is coded never depends on it. It remembers the samples of the frames that were
/// made in it; once no state and no picture holds a frame any more, the next is made in its place. What that leaves over
/// beyond a few frames is given back then, as is what has another size.
///
/// A clone is another handle of the same arena, for jobs on other threads. All memory goes with the last handle, and with
/// the states and pictures that still hold some.
///
/// [`Analysis::new_in`]: crate::Analysis::new_in
/// [`decode_in`]: crate::decode_in
#[derive(Clone, Default)]
pub struct Arena(Arc<Shelves>);

#[derive(Default)]
struct Shelves {
    /// The samples of frames, the newest last; those are spare that nothing else holds.
    frames: Mutex<Vec<Arc<[u8]>>>,
    macroblocks: Shelf<MacroblockInfo>,
    motion: Shelf<MacroblockMotion>,
    tokens: Shelf<PackedToken>,
}

/// Spare frames that are kept when a frame begins. A menu of three candidates, or three passes, leave three behind for
/// each picture: the next picture's first takes one.
const MOST_SPARE_FRAMES: usize = 2;
/// Spare vectors of each type: those of so many candidates that are coded beside each other.
const MOST_SPARE_VECTORS: usize = 3;

/// Empty vectors of one type, with the memory that they took.
pub(crate) struct Shelf<T>(Mutex<Vec<Vec<T>>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Shelf<T> {
    /// An empty vector with room for `capacity` elements.
    pub(crate) fn take(&self, capacity: usize) -> Vec<T> {
        let mut vector = locked(&self.0).pop().unwrap_or_default();
        vector.reserve(capacity);
        vector
    }

    /// Takes back what a vector took.
    pub(crate) fn give_back(&self, mut vector: Vec<T>) {
        vector.clear();
        let mut spare = locked(&self.0);
        if vector.capacity() > 0 && spare.len() < MOST_SPARE_VECTORS {
            spare.push(vector);
        }
    }
}

/// What a lock holds is whole at any time, whatever happened to who had it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arena {
    /// A frame to be made. All of its samples are to be written: what they are now is unspecified.
    pub(crate) fn frame(&self, layout: FrameLayout) -> FrameBuffer {
        match self.spare(layout.length()) {
            Some(samples) => FrameBuffer::on(samples, layout),
            None => FrameBuffer::new(layout),
        }
    }

    /// The newest spare frame of this length. Others of it are kept, up to a few, and no others.
    fn spare(&self, length: usize) -> Option<Arc<[u8]>> {
        let mut frames = locked(&self.0.frames);
        let mut found = None;
        let mut spare = 0;
        for index in (0..frames.len()).rev() {
            if Arc::get_mut(&mut frames[index]).is_none() {
                continue;
            }
            if frames[index].len() != length || found.is_some() && spare == MOST_SPARE_FRAMES {
                frames.remove(index);
            } else if found.is_none() {
                found = Some(frames.remove(index));
            } else {
                spare += 1;
            }
        }
        found
    }

    /// Ends the making of a frame, and remembers it.
    pub(crate) fn finish(&self, buffer: FrameBuffer) -> Frame {
        let frame = buffer.finish();
        locked(&self.0.frames).push(frame.shared_samples());
        frame
    }

    /// A frame whose making is ended, after `rest`, once somebody asks for its samples. If nobody ever does, the frame's
    /// memory is spare as soon as no state holds the frame any more.
    pub(crate) fn finish_when_asked(
        &self,
        buffer: FrameBuffer,
        rest: impl FnOnce(&mut FrameBuffer) + Send + UnwindSafe + 'static,
    ) -> Frame {
        let layout = buffer.layout();
        let unasked = Unasked { buffer: Some(buffer), shelves: Arc::downgrade(&self.0) };
        Frame::made_by(layout, move || unasked.finish(rest))
    }

    /// Vectors for a frame's macroblocks.
    pub(crate) fn macroblocks(&self) -> &Shelf<MacroblockInfo> {
        &self.0.macroblocks
    }

    /// Vectors for what is found of a picture in its references.
    pub(crate) fn motion(&self) -> &Shelf<MacroblockMotion> {
        &self.0.motion
    }

    /// Vectors for a frame's tokens.
    pub(crate) fn tokens(&self) -> &Shelf<PackedToken> {
        &self.0.tokens
    }
}

/// A frame in the making whose samples nobody has asked for. It keeps no arena alive.
struct Unasked {
    /// None once they were asked for.
    buffer: Option<FrameBuffer>,
    shelves: Weak<Shelves>,
}

/// Nothing of it can be seen by anybody before it is finished.
impl UnwindSafe for Unasked {}

impl Unasked {
    /// The samples, which the arena remembers.
    fn finish(mut self, rest: impl FnOnce(&mut FrameBuffer)) -> Arc<[u8]> {
        let mut buffer = self.buffer.take().expect("samples are made once");
        rest(&mut buffer);
        let samples = buffer.into_finished_samples();
        self.remember(samples.clone());
        samples
    }

    fn remember(&self, samples: Arc<[u8]>) {
        if let Some(shelves) = self.shelves.upgrade() {
            locked(&shelves.frames).push(samples);
        }
    }
}

impl Drop for Unasked {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.remember(buffer.into_samples());
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Arena({} frames)", locked(&self.0.frames).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(arena: &Arena, layout: FrameLayout) -> Frame {
        arena.finish(arena.frame(layout))
    }

    #[test]
    fn a_frames_memory_is_used_again_once_neither_a_state_nor_a_picture_holds_it() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(40, 24));
        let first = made(&arena, layout);
        let place = first.samples().as_ptr();
        let picture = first.picture(40, 24);
        drop(first);
        let second = made(&arena, layout);
        assert_ne!(second.samples().as_ptr(), place);
        drop(picture);
        assert_eq!(made(&arena, layout).samples().as_ptr(), place);
    }

    #[test]
    fn what_is_left_over_goes_when_the_next_frame_begins() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(40, 24));
        let held = |arena: &Arena| locked(&arena.0.frames).len();
        let many: Vec<Frame> = (0..20).map(|_| made(&arena, layout)).collect();
        assert_eq!(held(&arena), 20);
        drop(many);
        let next = made(&arena, layout);
        assert_eq!(held(&arena), 1 + MOST_SPARE_FRAMES);
        let small = made(&arena, FrameLayout::new(16, 16));
        assert_eq!(held(&arena), 2, "frames of another size are let go");
        drop((next, small));
        let vectors: Vec<Vec<PackedToken>> = (0..20).map(|_| arena.tokens().take(10)).collect();
        vectors.into_iter().for_each(|vector| arena.tokens().give_back(vector));
        assert_eq!(locked(&arena.0.tokens.0).len(), MOST_SPARE_VECTORS);
    }

    #[test]
    fn a_frame_that_nobody_asks_for_is_never_finished_and_leaves_its_memory() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(40, 24));
        let buffer = arena.frame(layout);
        let place = buffer.samples().as_ptr();
        let frame = arena.finish_when_asked(buffer, |_| panic!("nobody asked"));
        assert_eq!(frame.layout(), layout);
        let clone = frame.clone();
        drop(frame);
        assert_ne!(made(&arena, layout).samples().as_ptr(), place, "a clone holds it");
        drop(clone);
        assert_eq!(made(&arena, layout).samples().as_ptr(), place);
    }

    #[test]
    fn a_frame_is_finished_once_whoever_asks_first_and_its_memory_used_again() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(40, 24));
        let first = layout.planes[0].origin;
        let frame = arena.finish_when_asked(arena.frame(layout), move |buffer| {
            let samples = buffer.samples_mut();
            samples.fill(0);
            samples[first] += 7;
        });
        let samples: Vec<u8> = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| frame.clone().samples()[first - 1])).collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        assert_eq!(samples, [7; 4], "filled, and the border repeats it");
        let place = frame.samples().as_ptr();
        drop(frame);
        assert_eq!(made(&arena, layout).samples().as_ptr(), place);
    }

    #[test]
    fn an_arena_is_not_kept_by_frames_that_nobody_asked_for() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(16, 16));
        let shelves = Arc::downgrade(&arena.0);
        let frame = arena.finish_when_asked(arena.frame(layout), |buffer| buffer.samples_mut().fill(9));
        drop(arena);
        assert!(shelves.upgrade().is_none());
        assert!(frame.samples().iter().all(|&sample| sample == 9));
    }

    #[test]
    fn a_frame_that_is_never_finished_leaves_nothing_behind() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(16, 16));
        drop(made(&arena, layout));
        drop(arena.frame(layout));
        assert!(locked(&arena.0.frames).is_empty());
    }
}
