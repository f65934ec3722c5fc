//! Finds a feasible schedule of frames with the dynamic program, and replays it over the link.
//!
//! A schedule either skips a picture or codes it at any quantizer. Two rules choose:
//!
//! - the finest frame whose wait is within a limit;
//! - the frame with the highest worth in the dynamic program. Frames there have the cost of constant quality.
//!
//! QoE_d is linearized around the previous schedule (Dinkelbach). The replayed schedule has true costs. Each frame is
//! coded in one pass from the previous frame, one picture at a time, and decoded after it. The link drops no packets,
//! because a sender that knows the link can pace.

use std::iter;

use lockstep_call::mean;
use lockstep_link::{Delivered, Link, LinkConfig, LossConfig, QueueConfig};
use lockstep_measure::{DRAIN, qoe_d};
use lockstep_media::ssim_db;
use lockstep_transport::wire::{DATA_HEADER, DATAGRAM_OVERHEAD};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::MAX_QUANTIZER;

use super::program::{Problem, Worths};
use super::{BoundedCall, PENDING, ssim_of, stationary_price};
use crate::modelled_clip::{ClipCurves, ModelledPicture};

/// Number of linearizations of QoE_d.
const ROUNDS: usize = 5;
/// Limits on the wait of a frame for the link, in frame intervals.
const WAITS: [f64; 7] = [0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0];
/// Limit on pictures whose worths are kept in memory: 20 minutes at 30 frames per second.
const MAX_PICTURES: usize = 36_000;

/// A frame of the schedule.
#[derive(Debug, Clone, Copy)]
struct Planned {
    picture: u64,
    size: ByteCount,
    ssim: f64,
}

/// One choice for a picture.
#[derive(Debug, Clone, Copy)]
struct Offer {
    index: usize,
    /// Number of pictures skipped before it.
    pending: usize,
    /// Byte position of the link after this frame, or after the last one if the picture is skipped. Unused capacity
    /// counts.
    until: f64,
    /// Whether the link has served all frames before.
    is_idle: bool,
    /// Frame of the choice; `None` to skip the picture.
    frame: Option<Coded>,
}

/// A frame that could be sent.
#[derive(Debug, Clone, Copy)]
struct Coded {
    ssim: f64,
    /// Time from the end of coding until the last byte leaves the bottleneck, seconds.
    wait: f64,
    /// Time from capture to display, seconds.
    delay: f64,
}

impl Offer {
    /// Value for schedules whose frames wait at most `most` seconds. On an idle link without such a frame, the smallest
    /// frame wins.
    fn value_within(&self, most: f64) -> f64 {
        match self.frame {
            None => 0.0,
            Some(Coded { ssim, wait, .. }) if wait <= most => 1.0 + ssim,
            Some(Coded { wait, .. }) if self.is_idle => 1.0 / (1.0 + wait),
            Some(_) => -1.0,
        }
    }
}

/// Result of a replayed schedule.
#[derive(Debug, Clone, Copy)]
struct Replayed {
    qoe_d: f64,
    /// Mean SSIM of the shown frames.
    ssim: f64,
    /// Share of pictures that are shown.
    shown: f64,
}

impl BoundedCall {
    /// Whether everything sent arrives in order.
    fn is_certain(&self) -> bool {
        let LinkConfig { trace, loss, jitter, reordering, duplication, .. } = &self.link;
        let is_calm = *loss == LossConfig::default() && jitter.is_none() && reordering.is_none() && *duplication == 0.0;
        is_calm && trace.has_no_conditions()
    }

    /// QoE_d of the best schedule found. The first linearization assumes a mean SSIM of `decibels`.
    pub(super) fn schedule(&self, decibels: f64) -> Option<f64> {
        if !self.is_certain() {
            return None;
        }
        let usual =
            |curves: &ClipCurves, picture: &ModelledPicture, age| curves.usual_frames(picture, self.finest, age);
        let problem = Problem::new(self, &usual)?;
        if problem.pictures() > MAX_PICTURES {
            return None;
        }
        let interval = self.frame_rate.time_of(1).as_secs_f64();
        let within =
            WAITS.map(|intervals| self.replay(&self.plan(&problem, |offer| offer.value_within(intervals * interval))));
        let mut best = within.into_iter().flatten().map(|replayed| replayed.qoe_d).max_by(f64::total_cmp);
        let (mut decibels, mut shown) = (decibels, 1.0);
        for _ in 0..ROUNDS {
            let mean = ssim_of(decibels);
            let price = stationary_price(mean, shown);
            let mut worths = Worths::new();
            problem.best_schedule(&problem.coarse, mean, price, Some(&mut worths));
            worths.reverse();
            let worth = |index: usize, until: f64, pending: usize| {
                let place = problem.coarse.place(index, problem.coarse.cell_of(until));
                worths.get(index).map_or(0.0, |places| f64::from(places[place][pending.min(PENDING)]))
            };
            let value = |offer: &Offer| {
                let (next, waiting) = (offer.index + 1, (offer.pending + 1) as f64);
                match offer.frame {
                    Some(Coded { ssim, delay, .. }) => {
                        worth(next, offer.until, 0) + price * (ssim - mean) - waiting * delay
                    }
                    None => worth(next, offer.until, offer.pending + 1) - waiting * interval,
                }
            };
            let Some(replayed) = self.replay(&self.plan(&problem, value)) else { break };
            best = Some(best.map_or(replayed.qoe_d, |best| best.max(replayed.qoe_d)));
            // Half a step avoids oscillation.
            decibels = 0.5 * (decibels + ssim_db(replayed.ssim));
            shown = 0.5 * (shown + replayed.shown);
        }
        best
    }

    /// Chooses the offer of the highest value for each picture. The first picture is always sent, because neither rule
    /// includes the cost of a key frame.
    fn plan(&self, problem: &Problem, value: impl Fn(&Offer) -> f64) -> Vec<Planned> {
        let (mut clip, curves) = (self.clip.clone(), self.clip.curves().clone());
        let start = Timestamp::ZERO + self.link.trace_offset;
        let trace = &self.link.trace;
        let (mut served, mut free_at, mut reference, mut pending) = (0.0_f64, Timestamp::ZERO, None, 0);
        let mut planned = Vec::new();
        for index in 0..problem.pictures() {
            let (picture, source) = (index as u64, clip.next_picture().coded_from(reference));
            let captured = self.captured_at(picture);
            let ready = captured + self.encode_time;
            let passed = trace.bytes_between(start, ready + self.link.trace_offset).as_f64();
            let skipped = Offer { index, pending, until: served.max(passed), is_idle: served <= passed, frame: None };
            let mut best = (if reference.is_some() { value(&skipped) } else { f64::NEG_INFINITY }, None);
            let quantizers = self.finest..=if captured < free_at { 0 } else { MAX_QUANTIZER };
            for quantizer in quantizers {
                let frame = curves.encode(&source, quantizer, reference.is_none() || source.needs_key_frame());
                let until = skipped.until + self.wire(frame.size) as f64;
                let Some(at) = trace.time_to_pass(start, ByteCount::new(until.ceil() as u64)) else { continue };
                let at = Timestamp::ZERO + at.saturating_since(start);
                let wait = at.saturating_since(ready).as_secs_f64();
                let delay = (at + self.link.delay + self.decode_time).saturating_since(captured).as_secs_f64();
                let coded = Coded { ssim: frame.ssim, wait, delay };
                let value = value(&Offer { until, frame: Some(coded), ..skipped });
                if value > best.0 {
                    best = (value, Some((frame, until)));
                }
            }
            match best.1 {
                Some((frame, until)) => {
                    planned.push(Planned { picture, size: frame.size, ssim: frame.ssim });
                    (served, free_at, reference, pending) = (until, ready, Some(frame.reference), 0);
                }
                None => pending += 1,
            }
        }
        planned
    }

    /// Replays `planned` over the link. `None` if nothing is shown.
    fn replay(&self, planned: &[Planned]) -> Option<Replayed> {
        let queue = QueueConfig::DropTail { packets: None, bytes: None };
        let mut link = Link::new(LinkConfig { queue, ..self.link.clone() }, 0).ok()?;
        let mut shown = Vec::with_capacity(planned.len());
        let mut decoded_at = Timestamp::ZERO;
        let mut arrive = |link: &mut Link<(usize, bool)>, until: Timestamp| {
            for Delivered { at, packet: (number, is_last), .. } in iter::from_fn(|| link.poll(until)) {
                if is_last {
                    decoded_at = decoded_at.max(at) + self.decode_time;
                    shown.push((number, decoded_at));
                }
            }
        };
        for (number, frame) in planned.iter().enumerate() {
            let ready = self.captured_at(frame.picture) + self.encode_time;
            arrive(&mut link, ready);
            let mut left = frame.size.get();
            while left > 0 {
                let part = left.min(self.payload.get().max(1));
                left -= part;
                let _ = link.send(
                    ready,
                    ByteCount::new(part + DATA_HEADER as u64 + DATAGRAM_OVERHEAD),
                    (number, left == 0),
                );
            }
        }
        let end = Timestamp::ZERO + self.length;
        arrive(&mut link, end + DRAIN);
        shown.retain(|&(_, at)| at < end);
        let ssim = mean(shown.iter().map(|&(number, _)| planned[number].ssim))?;
        let count = shown.len() as f64;
        let (mut delay, mut pictures, mut shown) = (0.0, 0_u64, shown.into_iter().peekable());
        while self.captured_at(pictures) < end {
            while shown.next_if(|&(number, _)| planned[number].picture < pictures).is_some() {}
            let at = shown.peek().map_or(end, |&(_, at)| at);
            delay += at.saturating_since(self.captured_at(pictures)).as_secs_f64();
            pictures += 1;
        }
        let pictures = pictures as f64;
        Some(Replayed { qoe_d: qoe_d(1e3 * delay / pictures, ssim_db(ssim)), ssim, shown: count / pictures })
    }
}
