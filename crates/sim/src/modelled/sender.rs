//! The sending end of a modelled call: the decisions of `lockstep_call::SendingEnd`, without pixels and bytes.

use std::time::Duration;

use lockstep_call::{FrameRecord, ModelledEncoder, ModelledFrame, OpenRecords, Outcome};
use lockstep_control::{Allowance, Controller, InFlight, PathBound};
use lockstep_transport::Feedback;
use lockstep_units::{ByteCount, Timestamp};

use super::conventional::{Conventional, Decision};
use super::frames::FrameLog;
use super::outbox::{Departure, Outbox, SentFrame};
use super::packet::{FRAGMENT_HEADERS, FeedbackReport, MediaFragment};
use super::sent::SentFragments;
use super::{ModelledCodec, ModelledSetting};

/// A picture that is being coded.
#[derive(Debug, Clone, Copy)]
struct Coding {
    capture: u64,
    captured_at: Timestamp,
    ready_at: Timestamp,
    /// What a conventional codec has decided before coding.
    decision: Option<Decision>,
}

pub(crate) struct ModelledSender {
    controller: Box<dyn Controller>,
    encoder: ModelledEncoder,
    /// Where the codec is a conventional one.
    conventional: Option<Conventional>,
    full_throttle: bool,
    payload: ByteCount,
    frame_interval: Duration,
    encode_time: Duration,
    stop: Timestamp,
    pauses: Vec<(Timestamp, Timestamp)>,
    captures: u64,
    /// [`Timestamp::MAX`] for never.
    next_capture: Timestamp,
    /// Pictures since capturing last began, and when that was.
    captured_since: (u64, Timestamp),
    coding: Option<Coding>,
    frames: u32,
    outbox: Outbox,
    pub(crate) sent: SentFragments,
    bound: PathBound,
    /// Whether the path was silent when that was last asked.
    silent: bool,
    /// The newest frame that the receiver is known to have decoded.
    held: Option<u32>,
    /// The oldest frame of the present chain: a loss of an older one no longer matters.
    chain_from: u32,
    chain_broken: bool,
    last_fragments: u64,
    feedback: Feedback,
    pub(crate) frame_log: FrameLog,
    recording: bool,
    /// Those that the call has not taken yet.
    pub(crate) records: OpenRecords,
}

impl ModelledSender {
    pub(crate) fn new(setting: &ModelledSetting, controller: Box<dyn Controller>, encoder: ModelledEncoder) -> Self {
        Self {
            controller,
            encoder,
            conventional: match setting.codec {
                ModelledCodec::Functional | ModelledCodec::FullThrottle => None,
                ModelledCodec::Conventional => Some(Conventional::new(setting.frame_interval)),
            },
            full_throttle: setting.codec == ModelledCodec::FullThrottle,
            payload: setting.payload,
            frame_interval: setting.frame_interval,
            encode_time: setting.encode_time,
            stop: setting.stop,
            pauses: setting.pauses.clone(),
            captures: 0,
            next_capture: if setting.start < setting.stop { setting.start } else { Timestamp::MAX },
            captured_since: (0, setting.start),
            coding: None,
            frames: 0,
            outbox: Outbox::new(setting.payload),
            sent: SentFragments::new(),
            bound: PathBound::new(setting.payload, setting.frame_interval, setting.ceiling),
            silent: false,
            held: None,
            chain_from: 0,
            chain_broken: false,
            last_fragments: 1,
            feedback: Feedback {
                acknowledged: Vec::new(),
                estimate: lockstep_transport::Estimate::default(),
                round_trip_time: None,
                highest_sequence: 0,
                received: 0,
            },
            frame_log: FrameLog::new(setting.frame_interval),
            recording: setting.recording,
            records: OpenRecords::default(),
        }
    }

    /// When the next picture is due. Not a sum of intervals: a third of a second must not drift.
    fn time_of_next_capture(&mut self) -> Timestamp {
        let (captured, since) = self.captured_since;
        let mut at = since + Duration::from_nanos(self.frame_interval.as_nanos() as u64 * captured);
        if let Some(&(_, resumed)) = self.pauses.iter().find(|&&(from, to)| from <= at && at < to) {
            at = resumed;
            self.captured_since = (0, resumed);
        }
        if at < self.stop { at } else { Timestamp::MAX }
    }

    /// When something happens next; [`Timestamp::MAX`] for never.
    pub(crate) fn poll_timeout(&self) -> Timestamp {
        let ready = self.coding.as_ref().map_or(Timestamp::MAX, |coding| coding.ready_at);
        self.next_capture.min(ready).min(self.outbox.poll_timeout()).min(self.sent.poll_timeout())
    }

    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        self.drop_if_silent(now);
        if self.sent.poll_timeout() <= now {
            self.detect(now);
        }
        if let Some(coding) = self.coding.take_if(|coding| coding.ready_at <= now) {
            self.decide(now, coding);
        }
        if self.next_capture <= now {
            let capture = self.captures;
            self.captures += 1;
            self.captured_since.0 += 1;
            self.next_capture = self.time_of_next_capture();
            self.encoder.next_picture();
            self.frame_log.captured();
            if self.recording {
                let target = self.allowance(now).target;
                let estimate = self.controller.estimate().unwrap_or(target);
                self.records.capture(now, |record| {
                    (record.target, record.estimate) = (Some(target), Some(estimate));
                });
            }
            self.begin(now, capture);
        }
    }

    /// Frames of before a silence are not sent any more when it begins; a probe of the silence itself stays. As long as it
    /// lasts, each frame is coded from a state that the receiver holds.
    fn drop_if_silent(&mut self, now: Timestamp) {
        let functional = self.conventional.is_none() && !self.full_throttle;
        let silent = functional && self.controller.is_bounded() && self.bound.is_silent(now);
        if silent && !self.silent {
            self.outbox.drop_waiting();
        }
        self.chain_broken |= silent;
        self.silent = silent;
    }

    /// Begins to code a picture.
    fn begin(&mut self, now: Timestamp, capture: u64) {
        if self.coding.is_some() {
            // Real encoders are quicker than the source; a slower one loses the picture.
            self.record(capture, |record| record.outcome = Outcome::SkippedBusy);
            return;
        }
        self.controller.on_time(now);
        let target = self.allowance(now).target;
        let mut decision = None;
        if let Some(codec) = &mut self.conventional {
            decision = codec.begin(now, target, &self.encoder);
            if decision.is_none() {
                self.record(capture, |record| record.outcome = Outcome::SkippedByEncoder);
                return;
            }
        }
        self.coding = Some(Coding { capture, captured_at: now, ready_at: now + self.encode_time, decision });
        self.record(capture, |record| record.encode_started_at = Some(now));
    }

    fn in_flight(&self) -> InFlight {
        let (fragments, bytes) = self.sent.in_flight();
        let (queued, waiting) = self.outbox.waiting();
        InFlight { fragments: fragments + waiting, bytes: bytes + queued, queued }
    }

    pub(crate) fn allowance(&self, now: Timestamp) -> Allowance {
        let in_flight = self.in_flight();
        let allowance = self.controller.allowance(now, in_flight);
        if self.controller.is_bounded() { self.bound.limit(now, in_flight, allowance) } else { allowance }
    }

    /// The picture is coded: sends it, or not.
    fn decide(&mut self, now: Timestamp, coding: Coding) {
        self.controller.on_time(now);
        let allowance = self.allowance(now);
        match (&mut self.conventional, coding.decision) {
            (Some(codec), Some(decision)) => {
                let coded = codec.encode(now, decision, &self.encoder);
                let source = if decision.key_frame { None } else { self.frames.checked_sub(1) };
                self.send(now, coding, coded, source, allowance.budget, false);
            }
            _ if self.full_throttle => self.fill_up(now, coding, allowance),
            _ => self.decide_functional(now, coding, allowance),
        }
    }

    /// Sends what the target allows in a frame interval, less what still waits in the pacer.
    fn fill_up(&mut self, now: Timestamp, coding: Coding, allowance: Allowance) {
        let size = allowance.target.bytes_in(self.frame_interval).saturating_sub(self.in_flight().queued);
        if size == ByteCount::ZERO {
            self.record(coding.capture, |record| record.outcome = Outcome::SkippedByEncoder);
            return;
        }
        self.send(now, coding, ModelledFrame { size, quantizer: 0, ssim: 1.0 }, None, size, false);
    }

    fn decide_functional(&mut self, now: Timestamp, coding: Coding, allowance: Allowance) {
        let budget = self.bound.loss_rate().most_fragments().map_or(allowance.budget, |fragments| {
            allowance.budget.min(ByteCount::new(fragments.saturating_mul(self.payload.get())))
        });
        let broken = self.chain_broken || self.bound.loss_rate().breaks_chains(self.last_fragments);
        let source = if broken { self.held } else { self.frames.checked_sub(1) };
        let coded = self.encoder.encode_to_fit(budget, source.is_none());
        let fits = coded.size <= budget;
        let probes = !fits && self.bound.is_probe_due(now);
        if probes {
            self.bound.on_probe();
        } else if !fits {
            self.record(coding.capture, |record| {
                record.budget = Some(budget);
                record.outcome = Outcome::SkippedOverBudget;
            });
            return;
        }
        let recovery = broken && source.is_some();
        if self.chain_broken {
            self.chain_broken = false;
            self.chain_from = self.frames;
        }
        self.send(now, coding, coded, source, budget, recovery);
    }

    fn send(
        &mut self,
        now: Timestamp,
        coding: Coding,
        coded: ModelledFrame,
        source: Option<u32>,
        budget: ByteCount,
        recovery: bool,
    ) {
        let capture = coding.capture;
        if self.outbox.is_full() {
            self.record(capture, |record| record.outcome = Outcome::SkippedOverBudget);
            return;
        }
        let fragments = self.outbox.fragments_of(coded.size);
        let frame = self.frames;
        self.frames += 1;
        self.last_fragments = u64::from(fragments);
        let sent = SentFrame { number: frame, source, fragments };
        self.outbox.push(now, sent, coded.size);
        if let Some(codec) = &mut self.conventional {
            codec.sent(now, sent);
        }
        self.frame_log.sent(frame, coding.captured_at, coded.size, coded.quantizer, coded.ssim);
        self.record(capture, |record| {
            record.outcome = Outcome::Sent;
            record.frame = Some(frame);
            record.key_frame = source.is_none();
            record.recovery = recovery;
            record.quantizer = Some(coded.quantizer);
            record.budget = Some(budget);
            record.size = Some(coded.size);
            record.fragments = Some(fragments);
            record.sent_at = Some(now);
            record.ssim = Some(coded.ssim);
        });
    }

    pub(crate) fn poll_transmit(&mut self, now: Timestamp) -> Option<(ByteCount, MediaFragment)> {
        let Departure { media, payload } = self.outbox.pop(now, self.sent.next_sequence())?;
        let size = payload + ByteCount::new(FRAGMENT_HEADERS);
        let datagram = size.saturating_sub(ByteCount::new(28));
        self.sent.transmitted(now, media.frame, media.fragment, datagram);
        self.frame_log.transmitted(size);
        self.controller.on_transmit(now, datagram);
        self.bound.on_transmit(now, datagram);
        self.outbox.pace(now, self.allowance(now).pacing_interval);
        Some((size, media))
    }

    pub(crate) fn handle_feedback(&mut self, now: Timestamp, report: &FeedbackReport) {
        let (sample, newer) = self.sent.report(now, report);
        self.held = self.held.max(report.decoded);
        if let (Some(codec), Some(held)) = (&mut self.conventional, self.held) {
            codec.decoded(held);
        }
        if newer {
            self.feedback.estimate = report.estimate;
            self.feedback.highest_sequence = report.highest;
            self.feedback.received = report.received;
        }
        self.feedback.round_trip_time = sample;
        std::mem::swap(&mut self.feedback.acknowledged, &mut self.sent.acknowledged);
        self.bound.on_feedback(now, &self.feedback, self.sent.found);
        self.controller.on_feedback(now, &self.feedback);
        self.detect(now);
    }

    fn detect(&mut self, now: Timestamp) {
        self.sent.detect(now);
        let lost = &self.sent.lost;
        if lost.is_empty() {
            return;
        }
        self.bound.on_loss(lost);
        if let Some(codec) = &mut self.conventional {
            let round_trip = self.sent.round_trip().map(|time| time.smoothed);
            codec.lost(now, lost, round_trip, &mut self.outbox);
        }
        // What the receiver has decoded all the same was lost on the way back.
        let matters = |frame: u32| frame >= self.chain_from && self.held.is_none_or(|held| frame > held);
        self.chain_broken |= lost.iter().any(|fragment| matters(fragment.frame));
        self.controller.on_loss(now, lost);
    }

    fn record(&mut self, capture: u64, change: impl FnOnce(&mut FrameRecord)) {
        if let Some(record) = self.records.get_mut(capture) {
            change(record);
        }
    }
}
