//! Memory for frames, reused from frame to frame.
//!
//! [`Arena`] is the public handle. It keeps samples of earlier frames and spare vectors:
//!
//! ```text
//! frame() -> FrameBuffer -> finish() -> Frame (held by states and pictures) -> spare -> frame()
//! ```

use std::fmt;
use std::panic::UnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::encoder::macroblock_motion::MacroblockMotion;
use crate::encoder::packed_token::PackedToken;
use crate::frame::{Frame, FrameBuffer, FrameLayout};
use crate::macroblock::MacroblockInfo;

/// Memory for coding and decoding that its owner keeps from frame to frame.
///
/// Without an arena each frame allocates large blocks, which the operating system maps page by page. That costs a few
/// percent of the coding time. A program that codes or decodes consecutive frames owns an arena and passes it on
/// ([`Analysis::new_in`], [`decode_in`]). The coded bytes never depend on the arena.
///
/// An arena remembers the samples of its frames. Once no state and no picture holds a frame, the next frame reuses its
/// memory. Beyond a few spare frames, and for frames of another size, the memory is freed.
///
/// A clone is another handle to the same arena, for jobs on other threads. The memory is freed with the last handle,
/// except for what states and pictures still hold.
///
/// [`Analysis::new_in`]: crate::Analysis::new_in
/// [`decode_in`]: crate::decode_in
#[derive(Clone)]
pub struct Arena {
    shelves: Arc<Shelves>,
    threads: usize,
}

impl Default for Arena {
    /// An empty arena whose owner codes on one thread.
    fn default() -> Self {
        Self::with_threads(1)
    }
}

#[derive(Default)]
struct Shelves {
    /// Samples of frames, the newest last. A frame is spare if only the arena holds it.
    frames: Mutex<Vec<Arc<[u8]>>>,
    macroblocks: Shelf<MacroblockInfo>,
    motion: Shelf<MacroblockMotion>,
    tokens: Shelf<PackedToken>,
}

/// Spare frames that are kept when a frame begins. A menu of three candidates, or three passes, leaves three spare
/// frames per picture. The next picture's first frame takes one of them.
const MAX_SPARE_FRAMES: usize = 2;
/// Spare vectors of each type: enough for three candidates that one thread each codes at the same time.
const MAX_SPARE_VECTORS: usize = 3;

/// Empty vectors of one type that keep their capacity.
pub(crate) struct Shelf<T>(Mutex<Vec<Vec<T>>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Shelf<T> {
    /// Returns an empty vector with capacity for `capacity` elements.
    pub(crate) fn take(&self, capacity: usize) -> Vec<T> {
        let mut vector = locked(&self.0).pop().unwrap_or_default();
        vector.reserve(capacity);
        vector
    }

    /// Keeps the memory of `vector` for later use.
    pub(crate) fn give_back(&self, mut vector: Vec<T>) {
        vector.clear();
        let mut spare = locked(&self.0);
        if vector.capacity() > 0 && spare.len() < MAX_SPARE_VECTORS {
            spare.push(vector);
        }
    }
}

/// Locks a mutex and ignores poisoning: the protected data is valid at any time.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arena {
    /// An empty arena whose owner codes each picture on up to `threads` threads, the calling one among them.
    ///
    /// Frames never depend on the number of threads. Two threads are used from 1,200 macroblocks on, as 640x480 has; more
    /// are not used.
    #[must_use]
    pub fn with_threads(threads: usize) -> Self {
        Self { shelves: Arc::default(), threads }
    }

    /// Number of threads that code a picture.
    pub(crate) fn threads(&self) -> usize {
        self.threads.max(1)
    }

    /// Returns a buffer for a new frame. Its samples are unspecified until the caller writes them.
    pub(crate) fn frame(&self, layout: FrameLayout) -> FrameBuffer {
        match self.spare(layout.length()) {
            Some(samples) => FrameBuffer::on(samples, layout),
            None => FrameBuffer::new(layout),
        }
    }

    /// Takes the newest spare frame of this length. Keeps a few others of this length and frees the rest.
    fn spare(&self, length: usize) -> Option<Arc<[u8]>> {
        let mut frames = locked(&self.shelves.frames);
        let mut found = None;
        let mut spare = 0;
        for index in (0..frames.len()).rev() {
            if Arc::get_mut(&mut frames[index]).is_none() {
                continue;
            }
            if frames[index].len() != length || found.is_some() && spare == MAX_SPARE_FRAMES {
                frames.remove(index);
            } else if found.is_none() {
                found = Some(frames.remove(index));
            } else {
                spare += 1;
            }
        }
        found
    }

    /// Completes a frame and remembers its memory.
    pub(crate) fn finish(&self, buffer: FrameBuffer) -> Frame {
        let frame = buffer.finish();
        locked(&self.shelves.frames).push(frame.shared_samples());
        frame
    }

    /// Returns a frame that is completed on first access: then `rest` runs. A frame that is never accessed is never
    /// completed. Its memory becomes spare once no state holds it.
    pub(crate) fn finish_on_access(
        &self,
        buffer: FrameBuffer,
        rest: impl FnOnce(&mut FrameBuffer) + Send + UnwindSafe + 'static,
    ) -> Frame {
        let layout = buffer.layout();
        let pending = Pending { buffer: Some(buffer), shelves: Arc::downgrade(&self.shelves) };
        Frame::computed_by(layout, move || pending.finish(rest))
    }

    /// Vectors for the macroblocks of a frame.
    pub(crate) fn macroblocks(&self) -> &Shelf<MacroblockInfo> {
        &self.shelves.macroblocks
    }

    /// Vectors for the motion of a picture against its references.
    pub(crate) fn motion(&self) -> &Shelf<MacroblockMotion> {
        &self.shelves.motion
    }

    /// Vectors for the tokens of a frame.
    pub(crate) fn tokens(&self) -> &Shelf<PackedToken> {
        &self.shelves.tokens
    }
}

/// A frame that has not been accessed yet. It does not keep the arena alive.
struct Pending {
    /// `None` after the first access.
    buffer: Option<FrameBuffer>,
    shelves: Weak<Shelves>,
}

/// The buffer is not visible to others before it is complete.
impl UnwindSafe for Pending {}

impl Pending {
    /// Completes the frame and returns its samples, which the arena remembers.
    fn finish(mut self, rest: impl FnOnce(&mut FrameBuffer)) -> Arc<[u8]> {
        let mut buffer = self.buffer.take().expect("samples are computed once");
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

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.remember(buffer.into_samples());
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Arena({} frames)", locked(&self.shelves.frames).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(arena: &Arena, layout: FrameLayout) -> Frame {
        arena.finish(arena.frame(layout))
    }

    #[test]
    fn memory_of_a_frame_is_reused_once_nothing_holds_it() {
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
    fn excess_spare_memory_is_freed_when_a_frame_begins() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(40, 24));
        let held = |arena: &Arena| locked(&arena.shelves.frames).len();
        let many: Vec<Frame> = (0..20).map(|_| made(&arena, layout)).collect();
        assert_eq!(held(&arena), 20);
        drop(many);
        let next = made(&arena, layout);
        assert_eq!(held(&arena), 1 + MAX_SPARE_FRAMES);
        let small = made(&arena, FrameLayout::new(16, 16));
        assert_eq!(held(&arena), 2, "frames of another size are freed");
        drop((next, small));
        let vectors: Vec<Vec<PackedToken>> = (0..20).map(|_| arena.tokens().take(10)).collect();
        vectors.into_iter().for_each(|vector| arena.tokens().give_back(vector));
        assert_eq!(locked(&arena.shelves.tokens.0).len(), MAX_SPARE_VECTORS);
    }

    #[test]
    fn frame_without_access_is_not_completed_and_frees_memory() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(40, 24));
        let buffer = arena.frame(layout);
        let place = buffer.samples().as_ptr();
        let frame = arena.finish_on_access(buffer, |_| panic!("completed without access"));
        assert_eq!(frame.layout(), layout);
        let clone = frame.clone();
        drop(frame);
        assert_ne!(made(&arena, layout).samples().as_ptr(), place, "a clone holds the memory");
        drop(clone);
        assert_eq!(made(&arena, layout).samples().as_ptr(), place);
    }

    #[test]
    fn frame_is_completed_once_by_concurrent_access() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(40, 24));
        let first = layout.planes[0].origin;
        let frame = arena.finish_on_access(arena.frame(layout), move |buffer| {
            let samples = buffer.samples_mut();
            samples.fill(0);
            samples[first] += 7;
        });
        let samples: Vec<u8> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| frame.clone().samples()[first - 1])).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        assert_eq!(samples, [7; 4], "the border repeats the filled sample");
        let place = frame.samples().as_ptr();
        drop(frame);
        assert_eq!(made(&arena, layout).samples().as_ptr(), place);
    }

    #[test]
    fn pending_frames_do_not_keep_the_arena_alive() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(16, 16));
        let shelves = Arc::downgrade(&arena.shelves);
        let frame = arena.finish_on_access(arena.frame(layout), |buffer| buffer.samples_mut().fill(9));
        drop(arena);
        assert!(shelves.upgrade().is_none());
        assert!(frame.samples().iter().all(|&sample| sample == 9));
    }

    #[test]
    fn abandoned_buffer_leaves_no_spare_frame() {
        let (arena, layout) = (Arena::default(), FrameLayout::new(16, 16));
        drop(made(&arena, layout));
        drop(arena.frame(layout));
        assert!(locked(&arena.shelves.frames).is_empty());
    }
}
