//! Path of a captured picture to the transport: a job of the encoder, a menu, and a choice.

use std::time::Duration;

use lockstep_control::{Input, LimitedBy};
use lockstep_transport::wire::{DATA_HEADER, DATAGRAM_OVERHEAD};
use lockstep_transport::{OutgoingFrame, Recovery, StateId, VideoFormat};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::{Effort, MAX_QUANTIZER};

use super::budget::FrameBudget;
use super::{Committed, SendingEnd};
use crate::codec::{Candidate, Codec};
use crate::encoder::{EncodeJob, FrameRequest, FrameStart, Menu};
use crate::narrow::NarrowPathShares;
use crate::record::Outcome;
use crate::screen::SharpBudget;

#[derive(Debug)]
pub(super) struct Encoding<P> {
    pub(super) capture: u64,
    picture: P,
    pub(super) source: StateId,
    /// Budget of a frame with sharp text; none unless the picture shows a screen.
    sharp: Option<SharpBudget>,
    /// Effort level of the encoder.
    effort: Effort,
    /// Start of the coding.
    started_at: Timestamp,
    /// Whether the path has changed since the start, so that earlier frames may be lost.
    pub(super) misdirected: bool,
}

/// The limit of the encoder's range that determined the size of a frame with this quantizer, instead of its `budget`.
/// `finest` is the finest quantizer.
fn limited_by_encoder((quantizer, finest): (u8, u8), size: ByteCount, budget: ByteCount) -> Option<LimitedBy> {
    if quantizer >= MAX_QUANTIZER && size > budget {
        Some(LimitedBy::CoarsestQuantizer)
    } else if quantizer <= finest && size < budget {
        Some(LimitedBy::FinestQuantizer)
    } else {
        None
    }
}

impl<C: Codec> SendingEnd<C> {
    /// Adds `picture`, captured at `captured_at`, which is at most `now`. It replaces a picture that waits for the
    /// encoder. A picture of another size than announced changes the format.
    pub fn capture(&mut self, now: Timestamp, captured_at: Timestamp, picture: C::Picture) {
        if let Some(pixels) = C::pixels(&picture) {
            let side = |samples: usize| u16::try_from(samples).unwrap_or(u16::MAX);
            let (width, height) = (side(pixels.width()), side(pixels.height()));
            self.set_format(now, VideoFormat { width, height, ..self.format() });
        }
        self.controller.handle(&self.path.view(now), Input::Time);
        let (target, estimate) = self.rates(now);
        let capture = self.records.capture(captured_at.min(now), |record| {
            (record.target, record.estimate) = (Some(target), Some(estimate));
        });
        if let Some((older, _)) = self.waiting.replace((capture, picture)) {
            self.record(older, |record| record.outcome = Outcome::SkippedBusy);
        }
    }

    /// The job for the next picture, or for another pass; none while another job runs. The driver runs it and passes
    /// its menu to [`SendingEnd::encoded`].
    #[inline]
    pub fn poll_encode(&mut self, now: Timestamp) -> Option<EncodeJob<C>> {
        // This is called after every event of a call and rarely has work.
        if self.refinement.is_none() && (self.waiting.is_none() || self.encoding.is_some()) {
            return None;
        }
        self.begin_encoding(now)
    }

    fn begin_encoding(&mut self, now: Timestamp) -> Option<EncodeJob<C>> {
        if let Some(job) = self.refinement.take() {
            return Some(job);
        }
        if self.encoding.is_some() {
            return None;
        }
        // If nothing at all is decoded any more, the cause is not a lag, and another frame must be sent.
        let is_receiver_late = !self.is_as_published && self.decode_lag.is_long(now) && !self.is_stuck(now);
        if self.pictures_wait(now) || is_receiver_late {
            return None;
        }
        let (capture, picture) = self.waiting.take()?;
        self.note_silence(now);
        let from_held_state = self.recovery == Recovery::FromHeldState;
        // Frames sent during an outage, or to an old address of the other end, may all be lost.
        let may_be_lost = || {
            self.silent
                || self.is_stuck(now)
                || self.path.loss().breaks_chains(self.chain.last_fragments(), self.round_trip_frames())
        };
        let chain_breaks = self.chain.has_moved || (!self.is_as_published && may_be_lost());
        self.chain.is_whole = !chain_breaks;
        let source = if from_held_state && chain_breaks {
            self.transport.next_held_source()
        } else {
            self.transport.next_source()
        };
        let budget = self.budget(now);
        let sharp = self.sharp_budget(now);
        let waiting = u32::try_from(self.transport.queued_fragments()).unwrap_or(u32::MAX);
        let queued = self.in_flight().queued;
        let queue = self.path.view(now).bottleneck_queue.filter(|_| self.traits().is_bounded);
        let time_to_leave = queue.map_or(Duration::ZERO, |queue| queue.time_to_leave(queued));
        let efforts = self.encoder.codec().efforts;
        let effort = self.effort.level(efforts, self.frame_interval);
        let request = FrameRequest {
            now,
            picture: &picture,
            source,
            budget: budget.frame.0,
            sharp,
            target: self.overhead.less(self.rate_for_pictures(now, budget.target)),
            pacer_delay: budget.pacing_interval.saturating_mul(waiting).max(time_to_leave),
            queued,
            effort,
            may_wait: self.traits().has_ceiling,
        };
        let asked = request.target;
        let start = self.encoder.begin(&request);
        let codec_target = self.encoder.target().unwrap_or(asked);
        self.record(capture, |record| record.codec_target = Some(codec_target));
        let Some(FrameStart { source, job }) = start else {
            // A codec that follows a rate drops queued pictures, so nothing of their share is left for the next.
            if from_held_state {
                self.controller.handle(&self.path.view(now), Input::PictureSkipped);
            }
            let limited_by = self.limited_by(now, &budget);
            self.last_limited_by = Some(limited_by);
            self.record(capture, |record| {
                (record.outcome, record.limited_by) = (Outcome::SkippedByEncoder, Some(limited_by));
            });
            return None;
        };
        self.record(capture, |record| {
            record.encode_started_at = Some(now);
            record.effort = (!efforts.is_empty()).then(|| effort.level());
        });
        self.encoding = Some(Encoding { capture, picture, source, sharp, effort, started_at: now, misdirected: false });
        Some(job.with_effort(effort))
    }

    /// Handles the menu of a finished job. Decides by the newest feedback which candidate to send. If no newer picture
    /// waits, it may request another pass instead.
    pub fn encoded(&mut self, now: Timestamp, menu: Menu<C>) {
        let Some(encoding) = self.encoding.take() else { return };
        self.controller.handle(&self.path.view(now), Input::Time);
        self.fit_payload();
        let budget = self.budget(now);
        let is_narrow = self.narrow_path_shares().is_some_and(NarrowPathShares::is_narrow);
        let probe_due = is_narrow || self.path.is_probe_due(now, self.in_flight());
        let probes = self.traits().wants_probes && probe_due;
        // A frame from a source that was lost during coding would waste the link.
        let still_good = self.is_still_decodable(&encoding);
        if encoding.misdirected && !still_good && self.waiting.is_none() {
            // Code the picture again from another source, so that the path is tested now instead of an interval later.
            let _ = self.encoder.commit(menu, None);
            self.waiting = Some((encoding.capture, encoding.picture));
            return;
        }
        // A probe ignores the budget, so a newer picture does not replace it: that one would have the same size.
        let may_refine = still_good && (self.waiting.is_none() || probes);
        if !may_refine {
            return self.decide(now, encoding, menu, &budget, still_good, probes);
        }
        // A frame coded for an earlier, larger budget must not be sent as a probe, which must be small.
        let probe = if probes { self.payload } else { ByteCount::ZERO };
        match self.encoder.refine(menu, budget.frame.0.max(probe)) {
            Ok(job) => {
                self.refinement = Some(job.with_effort(encoding.effort));
                self.encoding = Some(encoding);
            }
            Err(menu) => self.decide(now, encoding, menu, &budget, still_good, probes),
        }
    }

    /// Chooses a candidate of `menu`, or none, and sends it. `still_good` means that it can still be decoded. `probes`
    /// means that a small frame is due at any budget.
    fn decide(
        &mut self,
        now: Timestamp,
        encoding: Encoding<C::Picture>,
        menu: Menu<C>,
        frame_budget: &FrameBudget,
        still_good: bool,
        probes: bool,
    ) {
        self.effort.on_coded(encoding.effort, now.saturating_since(encoding.started_at));
        let budget = frame_budget.frame.0;
        let sharp = encoding.sharp.map_or(ByteCount::ZERO, |sharp| sharp.most);
        let affordable = frame_budget.affordable.0.max(sharp);
        let limited_by = self.limited_by(now, frame_budget);
        self.last_limited_by = Some(limited_by);
        let count = |states: usize| u16::try_from(states).ok();
        // The encoder counts the empty state, too.
        let own = self.encoder.held_states().saturating_sub(1);
        let held = (count(own), count(self.transport.receiver_states()));
        self.record(encoding.capture, |record| {
            (record.budget, record.limited_by) = (Some(budget), Some(limited_by));
            record.candidates = menu.candidates.iter().map(Candidate::size).collect();
            (record.sender_states, record.receiver_states) = held;
        });
        let smallest = menu.smallest().map(|index| menu.candidates[index].size());
        // A frame above the budget that the path can carry is better than a skipped picture.
        let is_affordable = smallest.is_some_and(|size| size <= affordable);
        // Before the first frame has arrived, nothing can be shown. With sound on a narrow path, pictures have their
        // own pauses.
        let is_narrow = self.narrow_path_shares().is_some_and(NarrowPathShares::is_narrow);
        let of_any_size = encoding.source == StateId::EMPTY || is_narrow;
        let probes = probes && smallest.is_some_and(|size| of_any_size || self.path.can_carry_probe(now, size));
        let choice = if still_good { self.encoder.choose(&menu, budget, probes || is_affordable) } else { None };
        let Some((target, candidate)) = self.encoder.commit(menu, choice) else {
            let outcome = match self.encoder.recovery() {
                _ if !still_good => Outcome::SkippedStaleSource,
                Recovery::Retransmit => Outcome::SkippedByEncoder,
                _ => Outcome::SkippedOverBudget,
            };
            self.record(encoding.capture, |record| record.outcome = outcome);
            return;
        };
        let finest = self.encoder.codec().efforts.finest_quantizer(encoding.effort);
        let limited_by =
            limited_by_encoder((candidate.quantizer, finest), candidate.size(), budget).unwrap_or(limited_by);
        let (capture, is_probe) = (encoding.capture, candidate.size() > affordable);
        if self.send(now, encoding, target, candidate) {
            self.last_limited_by = Some(limited_by);
            self.record(capture, |record| record.limited_by = Some(limited_by));
            if is_probe {
                self.path.on_probe();
            }
            self.drain_events(now);
        }
    }

    /// Passes a frame to the transport. Returns false if its queue is full.
    fn send(
        &mut self,
        now: Timestamp,
        encoding: Encoding<C::Picture>,
        target: StateId,
        candidate: Candidate<C>,
    ) -> bool {
        let protection = self.protection();
        let fragments = protection.fragments(candidate.size());
        let parity = protection.parity(candidate.size());
        // Frames are sent even if the driver takes no records.
        let captured = self.records.get_mut(encoding.capture).map_or(encoding.started_at, |record| record.captured_at);
        let frame = OutgoingFrame {
            source: encoding.source,
            target,
            captured,
            key_frame: candidate.key_frame,
            parity,
            payload: candidate.frame.clone(),
        };
        let Ok(frame) = self.transport.send_frame(now, frame) else {
            self.encoder.forget(target);
            self.record(encoding.capture, |record| record.outcome = Outcome::SkippedByTransport);
            return false;
        };
        let datagrams = fragments + u64::from(parity);
        let carried =
            candidate.size().get() * datagrams / fragments + datagrams * (DATAGRAM_OVERHEAD + DATA_HEADER as u64);
        self.narrow.on_picture(now, ByteCount::new(carried));
        self.controller.handle(&self.path.view(now), Input::Encoded(ByteCount::new(carried)));
        self.decode_lag.on_sent(now, frame, fragments);
        let recovery = self.chain.recovers(encoding.source);
        self.record(encoding.capture, |record| {
            record.outcome = Outcome::Sent;
            record.frame = Some(frame);
            record.key_frame = candidate.key_frame;
            record.recovery = recovery;
            record.quantizer = Some(candidate.quantizer);
            record.size = Some(candidate.size());
            record.ssim = candidate.ssim;
            record.state_size = C::state_size(&candidate.state);
            (record.fragments, record.parity) = (u16::try_from(fragments).ok(), Some(parity));
            record.sent_at = Some(now);
        });
        self.last_quantizer = Some(candidate.quantizer);
        self.chain.on_sent(now, target, fragments);
        if let Some(reconstruction) = candidate.shown() {
            let Encoding { capture, picture: original, .. } = encoding;
            let reached = (target, candidate.state);
            self.committed = Some(Committed { capture, original, reconstruction, reached });
        }
        true
    }
}
