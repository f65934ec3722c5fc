//! What was sent and may have to be sent again: the sender's half of repair by retransmission.
//!
//! The receiver asks for nothing; its acknowledgements say what came, so the sender knows what to repeat. A fragment
//! that something later has overtaken is repeated at once. One of which merely nothing was heard waits for that proof,
//! because a link that pauses is no loss and copies would only lengthen its queue; but the oldest of those is repeated
//! as a probe (RFC 9002, section 6.2.4), so that a loss at the very end is noticed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::loss::Loss;

/// A fragment is repeated so often at most (WebRTC's NACK module, `kMaxNackRetries`).
const MOST_RETRIES: u32 = 10;
/// A frame is repeated until it is so old or so many round trips (WebRTC's `RtpPacketHistory`, `kMinPacketDuration` and
/// `kMinPacketDurationRtt`).
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_ROUND_TRIPS: u32 = 3;
/// But never when it is older than this, as a WebRTC receiver that has shown nothing for so long asks for a key frame
/// (`kMaxWaitForFrame`).
const MOST_PATIENCE: Duration = Duration::from_secs(3);
/// Fragments kept at most, and fragments in doubt (WebRTC's `RtpPacketHistory`, `kMaxCapacity`).
const MOST_KEPT: usize = 9_600;

/// How long after it was handed to the sender a frame may still be repaired.
pub(crate) fn patience(round_trip: Duration) -> Duration {
    PATIENCE.max(round_trip * PATIENCE_ROUND_TRIPS).min(MOST_PATIENCE)
}

/// A frame cut into fragments.
#[derive(Debug)]
pub(crate) struct FragmentedFrame<F> {
    pub(crate) number: u32,
    pub(crate) frame: F,
    pub(crate) queued_at: Timestamp,
    pub(crate) fragments: u16,
    /// Bytes of each fragment but the last.
    pub(crate) payload: usize,
}

#[derive(Debug)]
struct Kept<F> {
    frame: Arc<FragmentedFrame<F>>,
    /// How often each fragment was repeated.
    retries: BTreeMap<u16, u32>,
}

/// A fragment that waits to be repeated.
#[derive(Debug)]
pub(crate) struct Repetition<F> {
    pub(crate) frame: Arc<FragmentedFrame<F>>,
    pub(crate) fragment: u16,
    /// Since when it waits.
    pub(crate) since: Timestamp,
}

impl<F> Repetition<F> {
    fn is(&self, frame: u32, fragment: u16) -> bool {
        (self.frame.number, self.fragment) == (frame, fragment)
    }
}

/// The frames that may be repeated, and the fragments that are.
#[derive(Debug)]
pub(crate) struct Retransmission<F> {
    /// By number, the oldest first.
    frames: VecDeque<Kept<F>>,
    fragments: usize,
    queue: VecDeque<Repetition<F>>,
    /// By sequence number the fragments of which nothing was heard for too long.
    doubtful: BTreeMap<u64, (u32, u16)>,
    /// Fragments came into doubt since [`Self::forget`] looked.
    doubted: bool,
}

impl<F> Default for Retransmission<F> {
    fn default() -> Self {
        Self {
            frames: VecDeque::new(),
            fragments: 0,
            queue: VecDeque::new(),
            doubtful: BTreeMap::new(),
            doubted: false,
        }
    }
}

impl<F> Retransmission<F> {
    /// Keeps a frame, newer than all others, that is about to be sent.
    pub(crate) fn keep(&mut self, frame: &Arc<FragmentedFrame<F>>) {
        self.fragments += usize::from(frame.fragments);
        self.frames.push_back(Kept { frame: Arc::clone(frame), retries: BTreeMap::new() });
        while self.fragments > MOST_KEPT && self.frames.len() > 1 {
            let oldest = self.frames.pop_front();
            self.fragments -= oldest.map_or(0, |kept| usize::from(kept.frame.fragments));
        }
    }

    /// Fragments count as lost. Those that are surely lost are repeated, of the others the oldest. Returns the frames
    /// that cannot be repaired any more.
    pub(crate) fn lost(&mut self, now: Timestamp, losses: &[Loss], patience: Duration) -> Vec<u32> {
        let mut hopeless = Vec::new();
        let mut silence = false;
        for &Loss { sequence, sent, overtaken } in losses {
            if overtaken {
                hopeless.extend(self.repeat(now, sent.frame, sent.fragment, patience).err());
            } else {
                silence = true;
                self.doubted = true;
                self.doubtful.insert(sequence, (sent.frame, sent.fragment));
            }
        }
        while self.doubtful.len() > MOST_KEPT {
            hopeless.extend(self.doubtful.pop_first().map(|(_, (frame, _))| frame));
        }
        if silence {
            let probe = self.doubtful.iter().map(|(&sequence, &named)| (sequence, named)).next();
            if let Some((sequence, (frame, fragment))) = probe
                && self.repeat(now, frame, fragment, patience).is_ok()
            {
                self.doubtful.remove(&sequence);
            }
        }
        hopeless
    }

    /// Fragments in doubt that something later has overtaken are repeated. Returns the frames that cannot be repaired
    /// any more.
    pub(crate) fn resolve(&mut self, now: Timestamp, overtaken: impl Fn(u64) -> bool, patience: Duration) -> Vec<u32> {
        let mut hopeless = Vec::new();
        while let Some(entry) = self.doubtful.first_entry().filter(|entry| overtaken(*entry.key())) {
            let (frame, fragment) = entry.remove();
            hopeless.extend(self.repeat(now, frame, fragment, patience).err());
        }
        hopeless
    }

    /// Puts a fragment into the queue, or says that its frame is too old or was repeated too often.
    fn repeat(&mut self, now: Timestamp, frame: u32, fragment: u16, patience: Duration) -> Result<(), u32> {
        let place = self.frames.binary_search_by_key(&frame, |kept| kept.frame.number);
        let kept = place.ok().and_then(|place| self.frames.get_mut(place)).ok_or(frame)?;
        let retries = kept.retries.entry(fragment).or_default();
        if *retries >= MOST_RETRIES || kept.frame.queued_at + patience < now {
            return Err(frame);
        }
        if !self.queue.iter().any(|waiting| waiting.is(frame, fragment)) {
            *retries += 1;
            self.queue.push_back(Repetition { frame: Arc::clone(&kept.frame), fragment, since: now });
        }
        Ok(())
    }

    /// A fragment that counted as lost has arrived.
    pub(crate) fn found(&mut self, frame: u32, fragment: u16) {
        self.queue.retain(|waiting| !waiting.is(frame, fragment));
        self.doubtful.retain(|_, &mut doubtful| doubtful != (frame, fragment));
    }

    /// Forgets the frames that need no repair any more. `changed` says whether those are others than at the last call.
    pub(crate) fn forget(&mut self, changed: bool, may_arrive: impl Fn(u32) -> bool) {
        if !(std::mem::take(&mut self.doubted) || changed) {
            return;
        }
        self.frames.retain(|kept| {
            let stays = may_arrive(kept.frame.number);
            self.fragments -= if stays { 0 } else { usize::from(kept.frame.fragments) };
            stays
        });
        self.queue.retain(|waiting| may_arrive(waiting.frame.number));
        self.doubtful.retain(|_, &mut (frame, _)| may_arrive(frame));
    }

    pub(crate) fn pop(&mut self) -> Option<Repetition<F>> {
        self.queue.pop_front()
    }

    /// Fragments that wait to be repeated.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }
}
