//! Frames on their way into the network: cut into fragments, paced, and repeated where they are lost.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use super::packet::MediaFragment;

/// Most frames that wait for the pacer.
const MOST_QUEUED: usize = 256;
/// Most fragments that wait to be repeated.
const MOST_REPEATED: usize = 4_096;

/// A frame that waits for the pacer.
#[derive(Debug, Clone, Copy)]
struct QueuedFrame {
    frame: SentFrame,
    left: ByteCount,
    next: u16,
    queued_at: Timestamp,
}

/// What every fragment of a frame says.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentFrame {
    pub(super) number: u32,
    pub(super) source: Option<u32>,
    pub(super) fragments: u16,
}

/// A fragment that is sent again.
#[derive(Debug, Clone, Copy)]
struct Repetition {
    frame: SentFrame,
    fragment: u16,
    payload: ByteCount,
    queued_at: Timestamp,
}

/// A fragment that leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    pub(super) media: MediaFragment,
    pub(super) payload: ByteCount,
}

#[derive(Debug)]
pub(super) struct Outbox {
    payload: ByteCount,
    queue: VecDeque<QueuedFrame>,
    repetitions: VecDeque<Repetition>,
    bytes: ByteCount,
    fragments: u64,
    free_at: Timestamp,
    transmitted_at: Option<Timestamp>,
    idle: Duration,
}

impl Outbox {
    /// An empty one, for fragments of up to `payload` bytes.
    pub(super) fn new(payload: ByteCount) -> Self {
        Self {
            payload,
            queue: VecDeque::new(),
            repetitions: VecDeque::new(),
            bytes: ByteCount::ZERO,
            fragments: 0,
            free_at: Timestamp::ZERO,
            transmitted_at: None,
            idle: Duration::ZERO,
        }
    }

    /// How many fragments a frame of `size` has.
    pub(super) fn fragments_of(&self, size: ByteCount) -> u16 {
        u16::try_from(size.get().div_ceil(self.payload.get()).max(1)).unwrap_or(u16::MAX)
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= MOST_QUEUED
    }

    /// Bytes and fragments that wait.
    pub(super) fn waiting(&self) -> (ByteCount, u64) {
        (self.bytes, self.fragments)
    }

    pub(super) fn push(&mut self, now: Timestamp, frame: SentFrame, size: ByteCount) {
        self.wake(now);
        self.queue.push_back(QueuedFrame { frame, left: size, next: 0, queued_at: now });
        self.bytes += size;
        self.fragments += u64::from(frame.fragments);
    }

    /// Sends a fragment again, before all that waits for the first time. Whether there was room.
    pub(super) fn repeat(&mut self, now: Timestamp, frame: SentFrame, fragment: u16, payload: ByteCount) -> bool {
        if self.repetitions.len() >= MOST_REPEATED {
            return false;
        }
        self.wake(now);
        self.repetitions.push_back(Repetition { frame, fragment, payload, queued_at: now });
        self.bytes += payload;
        self.fragments += 1;
        true
    }

    /// Repeats nothing of frames before `frame` any more.
    pub(super) fn forget_repetitions_before(&mut self, frame: u32) {
        let (bytes, fragments) = (&mut self.bytes, &mut self.fragments);
        self.repetitions.retain(|repetition| {
            let stays = repetition.frame.number >= frame;
            if !stays {
                *bytes -= repetition.payload;
                *fragments -= 1;
            }
            stays
        });
    }

    /// Drops the frames that wait to be sent for the first time, those too of which some fragments have left.
    pub(super) fn drop_waiting(&mut self) {
        for waiting in self.queue.drain(..) {
            self.bytes -= waiting.left;
            self.fragments -= u64::from(waiting.frame.fragments - waiting.next);
        }
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.repetitions.is_empty()
    }

    fn wake(&mut self, now: Timestamp) {
        if self.is_empty() {
            self.free_at = self.free_at.max(now);
        }
    }

    /// When the next fragment may leave; [`Timestamp::MAX`] if none waits.
    pub(super) fn poll_timeout(&self) -> Timestamp {
        if self.is_empty() { Timestamp::MAX } else { self.free_at }
    }

    /// The next fragment, if the pacer lets one go; it gets `sequence`.
    pub(super) fn pop(&mut self, now: Timestamp, sequence: u64) -> Option<Departure> {
        if self.free_at > now {
            return None;
        }
        let (frame, fragment, payload, queued_at) = if let Some(again) = self.repetitions.pop_front() {
            (again.frame, again.fragment, again.payload, again.queued_at)
        } else {
            let queued = self.queue.front_mut()?;
            let payload = queued.left.min(self.payload);
            let taken = (queued.frame, queued.next, payload, queued.queued_at);
            queued.left -= payload;
            queued.next += 1;
            if queued.next == queued.frame.fragments {
                self.queue.pop_front();
            }
            taken
        };
        if let Some(last) = self.transmitted_at
            && queued_at.max(self.free_at) > last
        {
            self.idle += now.saturating_since(last);
        }
        self.bytes -= payload;
        self.fragments -= 1;
        self.transmitted_at = Some(now);
        let media = MediaFragment {
            sequence,
            sent_at: now,
            idle: self.idle,
            frame: frame.number,
            source: frame.source,
            fragment,
            fragments: frame.fragments,
        };
        Some(Departure { media, payload })
    }

    /// A fragment left at `now`; the next one may after `interval`.
    pub(super) fn pace(&mut self, now: Timestamp, interval: Duration) {
        self.free_at = self.free_at.max(now) + interval;
    }
}
