//! Retransmission of lost fragments by the sender.
//!
//! The receiver requests nothing. Its acknowledgements list the arrivals, so the sender knows the losses:
//!
//! - An overtaken fragment is sent again at once.
//! - A fragment whose tail timer expired waits until it is overtaken. A link that pauses loses nothing, and copies
//!   would only lengthen its queue.
//! - The oldest of the waiting fragments is sent again as a probe (RFC 9002, section 6.2.4). The probe detects a loss
//!   at the end of the stream.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::loss::Loss;

/// Largest number of retransmissions of a fragment (WebRTC's NACK module, `kMaxNackRetries`).
const MAX_RETRIES: u32 = 10;
/// Largest age of a frame for a repair, unless [`REPAIR_ROUND_TRIPS`] is longer. WebRTC's `RtpPacketHistory` has the
/// same two limits: `kMinPacketDuration` and `kMinPacketDurationRtt`.
const REPAIR_TIME: Duration = Duration::from_secs(1);
const REPAIR_ROUND_TRIPS: u32 = 3;
/// Largest age of a frame for a repair. After this time without video, a WebRTC receiver requests a key frame
/// (`kMaxWaitForFrame`).
const MAX_REPAIR_AGE: Duration = Duration::from_secs(3);
/// Largest number of kept fragments, and of doubtful ones (WebRTC's `RtpPacketHistory`, `kMaxCapacity`).
const MAX_STORED_FRAGMENTS: usize = 9_600;

/// Largest age of a frame for a repair, counted from its hand-over to the sender.
pub(crate) fn repair_time(round_trip: Duration) -> Duration {
    REPAIR_TIME.max(round_trip * REPAIR_ROUND_TRIPS).min(MAX_REPAIR_AGE)
}

/// A frame cut into fragments.
#[derive(Debug)]
pub(crate) struct FragmentedFrame<F> {
    pub(crate) number: u32,
    pub(crate) frame: F,
    pub(crate) queued_at: Timestamp,
    pub(crate) fragments: u16,
    /// Size of each fragment except the last, bytes.
    pub(crate) payload: usize,
}

#[derive(Debug)]
struct Kept<F> {
    frame: Arc<FragmentedFrame<F>>,
    /// Number of retransmissions of each fragment.
    retries: BTreeMap<u16, u32>,
}

/// A fragment that waits for retransmission.
#[derive(Debug)]
pub(crate) struct Repetition<F> {
    pub(crate) frame: Arc<FragmentedFrame<F>>,
    pub(crate) fragment: u16,
    /// Time since which the fragment waits.
    pub(crate) since: Timestamp,
}

impl<F> Repetition<F> {
    fn is(&self, frame: u32, fragment: u16) -> bool {
        (self.frame.number, self.fragment) == (frame, fragment)
    }
}

/// Frames that can be repaired, and fragments that wait for retransmission.
#[derive(Debug)]
pub(crate) struct Retransmission<F> {
    /// Kept frames, oldest first.
    frames: VecDeque<Kept<F>>,
    fragments: usize,
    queue: VecDeque<Repetition<F>>,
    /// Fragments whose tail timer expired, by sequence number.
    doubtful: BTreeMap<u64, (u32, u16)>,
    /// Whether a fragment became doubtful since the last [`Self::forget`].
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
    /// Keeps a frame that is about to be sent; it is newer than all others.
    pub(crate) fn keep(&mut self, frame: &Arc<FragmentedFrame<F>>) {
        self.fragments += usize::from(frame.fragments);
        self.frames.push_back(Kept { frame: Arc::clone(frame), retries: BTreeMap::new() });
        while self.fragments > MAX_STORED_FRAGMENTS && self.frames.len() > 1 {
            let oldest = self.frames.pop_front();
            self.fragments -= oldest.map_or(0, |kept| usize::from(kept.frame.fragments));
        }
    }

    /// Handles losses: queues overtaken fragments, and the oldest of the others as a probe. Returns the frames that
    /// cannot be repaired any more.
    pub(crate) fn lost(&mut self, now: Timestamp, losses: &[Loss], repair_time: Duration) -> Vec<u32> {
        let mut hopeless = Vec::new();
        let mut silence = false;
        for &Loss { sequence, sent, overtaken } in losses {
            if overtaken {
                hopeless.extend(self.repeat(now, sent.frame, sent.fragment, repair_time).err());
            } else {
                silence = true;
                self.doubted = true;
                self.doubtful.insert(sequence, (sent.frame, sent.fragment));
            }
        }
        while self.doubtful.len() > MAX_STORED_FRAGMENTS {
            hopeless.extend(self.doubtful.pop_first().map(|(_, (frame, _))| frame));
        }
        if silence {
            let probe = self.doubtful.iter().map(|(&sequence, &named)| (sequence, named)).next();
            if let Some((sequence, (frame, fragment))) = probe
                && self.repeat(now, frame, fragment, repair_time).is_ok()
            {
                self.doubtful.remove(&sequence);
            }
        }
        hopeless
    }

    /// Queues doubtful fragments that are now overtaken. Returns the frames that cannot be repaired any more.
    pub(crate) fn resolve(
        &mut self,
        now: Timestamp,
        overtaken: impl Fn(u64) -> bool,
        repair_time: Duration,
    ) -> Vec<u32> {
        let mut hopeless = Vec::new();
        while let Some(entry) = self.doubtful.first_entry().filter(|entry| overtaken(*entry.key())) {
            let (frame, fragment) = entry.remove();
            hopeless.extend(self.repeat(now, frame, fragment, repair_time).err());
        }
        hopeless
    }

    /// Queues a fragment. Fails with the frame number if the frame is too old or was sent too often.
    fn repeat(&mut self, now: Timestamp, frame: u32, fragment: u16, repair_time: Duration) -> Result<(), u32> {
        let place = self.frames.binary_search_by_key(&frame, |kept| kept.frame.number);
        let kept = place.ok().and_then(|place| self.frames.get_mut(place)).ok_or(frame)?;
        let retries = kept.retries.entry(fragment).or_default();
        if *retries >= MAX_RETRIES || kept.frame.queued_at + repair_time < now {
            return Err(frame);
        }
        if !self.queue.iter().any(|waiting| waiting.is(frame, fragment)) {
            *retries += 1;
            self.queue.push_back(Repetition { frame: Arc::clone(&kept.frame), fragment, since: now });
        }
        Ok(())
    }

    /// Handles the arrival of a fragment that counted as lost.
    pub(crate) fn found(&mut self, frame: u32, fragment: u16) {
        self.queue.retain(|waiting| !waiting.is(frame, fragment));
        self.doubtful.retain(|_, &mut doubtful| doubtful != (frame, fragment));
    }

    /// Removes the frames that need no repair any more. `changed` is whether `may_arrive` may differ from the last
    /// call.
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

    /// Number of fragments that wait for retransmission.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }
}
