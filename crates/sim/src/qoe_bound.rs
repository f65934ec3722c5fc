//! An upper bound on QoE_d of a modelled call over a known link, which no schedule of frames can exceed.
//!
//! [`BoundedCall::bound`] gives it, and the QoE_d of a schedule that the link carries ([`QoeBound::schedule`]): the best
//! possible lies between them. Nothing in the bound is tuned, and nothing is simulated. QoE_d falls with the mean video
//! delay of all captured pictures and rises with dB of the mean SSIM of the shown ones ([`lockstep_measure::qoe_d`]). The
//! bound is found in two steps:
//!
//! 1. For a mean SSIM of at least `m`, Lagrangian duality bounds the sum of delays below: it is at least the minimum of
//!    `sum(delay) - price * sum(ssim - m)` over all schedules, whatever the price (seconds for each unit of SSIM). The
//!    minimum is computed by dynamic programming over the pictures, from the last one to the first.
//! 2. Branch and bound over `m`, in dB, takes the best trade of SSIM for delay.
//!
//! Proof of 1: let a schedule have `sum(ssim) >= m * shown`. For each price of zero or more, its sum of delays is at least
//! `sum(delay) - price * sum(ssim - m)`, which is at least the minimum of that over all schedules. Of 2: QoE_d rises with
//! the mean SSIM and falls with the mean delay; a schedule whose mean SSIM lies in an interval has at most the QoE_d of the
//! interval's upper end and the least delay of its lower end.
//!
//! Age of references: a shown frame refers to a decoded frame, or to none. If that frame was shown, it is no newer than the
//! last one shown before. If not, a newer frame was shown before it was decoded ([`ReceivingEnd`](lockstep_call::ReceivingEnd)).
//! Either way the reference's picture is at least as old as the last shown one, so skipping pictures costs bits. Where pictures
//! wait for sound this does not hold ([`BoundedCall::shows_all`]).
//!
//! The program's state is the moment until which the bottleneck serves what was sent before, and how many pictures wait to
//! be followed by a shown one. A picture is skipped, or sent with a number of bytes: these follow from the moment at which
//! the bottleneck has served its last byte. Each simplification gives schedules more than a call can have:
//!
//! | in a call | in the bound |
//! |---|---|
//! | packets queue, are dropped by the queue, lost, reordered, late by jitter | every byte passes as soon as capacity and order allow |
//! | feedback, sound, parity, retransmissions and probes share the link | only shown frames use it, with one header a fragment |
//! | a frame is coded from one reference, which had to be sent | each frame has, of the references as old as the last shown picture, the one that is best for it ([`ClipCurves::best_frames`](crate::ClipCurves::best_frames)) |
//! | the encoder makes several passes over pictures, one picture at a time | the first bytes leave after the shortest encoding time |
//! | a frame is decoded after the frame before it | each is decoded at once, in the decoding time |
//! | the age of a reference is exact, in pictures | it is rounded down to a power of two, 16 at most |
//! | controllers see feedback, late | everything is known in advance |
//! | sizes are whole bytes | they are told apart by 1.6 % |
//! | time is continuous | a frame that ends within a cell of [`CELL`] ends at its start, with all bytes that pass until its end; of frames that take longer than [`EXACT_CELLS`], within an 8th of their time |
//! | a backlog may be long | one beyond [`BACKLOG_CELLS`] cells with capacity counts as that long for the frames after it |
//! | skipped pictures wait for the next shown one | beyond [`PENDING`] of them, each waits for the earliest moment at which a later picture can be shown |

mod program;
mod schedule;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

use lockstep_link::LinkConfig;
use lockstep_measure::qoe_d;
use lockstep_media::{FrameRate, ssim_db};
use lockstep_transport::wire::{CARRIAGE, DATA_HEADER};
use lockstep_units::{ByteCount, Timestamp};

use program::{Problem, Value};

use crate::modelled_clip::{ClipCurves, ModelledClip, ModelledPicture};

/// Resolution of time.
pub const CELL: Duration = Duration::from_millis(4);
/// The longest backlog that is told apart, in cells in which the link has capacity.
pub const BACKLOG_CELLS: usize = 32;
/// Frames that take more cells end at moments that are further apart.
pub const EXACT_CELLS: usize = 16;
/// Skipped pictures whose wait is exact.
pub const PENDING: usize = 15;
/// Resolution of the mean SSIM, dB: the bound is at most 0.101 times this above the dual optimum.
const RESOLUTION_DB: f64 = 0.1;
/// Prices that are tried for one mean SSIM.
const MOST_PRICES: usize = 8;
/// Prices that are nearer to each other are not distinguished.
const PRICE_RESOLUTION: f64 = 1.2;
/// Nor is another price tried that gains less QoE_d.
const PRICE_GAIN: f64 = 0.005;

/// A modelled call over a link of its own.
#[derive(Debug, Clone)]
pub struct BoundedCall {
    /// The link from sender to receiver.
    pub link: LinkConfig,
    /// The pictures, from the first one on.
    pub clip: ModelledClip,
    /// How often they are captured.
    pub frame_rate: FrameRate,
    /// The scored length of the call.
    pub length: Duration,
    /// The most bytes of a frame in one fragment.
    pub payload: ByteCount,
    /// The least time from the capture of a picture to the first byte of its frame.
    pub encode_time: Duration,
    /// The time that decoding takes.
    pub decode_time: Duration,
    /// The finest quantizer that the encoder uses.
    pub finest: u8,
    /// Whether every decoded frame is shown that is newer than those shown before.
    pub shows_all: bool,
}

/// An upper bound on QoE_d.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QoeBound {
    /// No schedule exceeds this QoE_d.
    pub qoe_d: f64,
    /// Mean video delay where the bound is reached, milliseconds.
    pub delay_ms: f64,
    /// dB of the mean SSIM where it is reached.
    pub ssim_db: f64,
    /// QoE_d of a schedule that the link carries, found with the whole call known. The best possible lies between it and the
    /// bound. None where luck decides: the link loses, reorders or delays packets at random.
    pub schedule: Option<f64>,
}

impl BoundedCall {
    /// The bound; none if no picture is scored, or the link has no capacity of its own ([`LinkConfig::medium`]).
    #[must_use]
    pub fn bound(&self) -> Option<QoeBound> {
        if self.link.medium.is_some() {
            return None;
        }
        let best = |curves: &ClipCurves, picture: &ModelledPicture, age| {
            curves.best_frames(picture, self.finest, if self.shows_all { age } else { 1 })
        };
        let Branch { qoe_d, to, delay, .. } = Problem::new(self, &best)?.search()?;
        let schedule = self.schedule(to);
        Some(QoeBound { qoe_d, delay_ms: 1e3 * delay, ssim_db: to, schedule })
    }

    fn captured_at(&self, picture: u64) -> Timestamp {
        Timestamp::ZERO + self.frame_rate.time_of(picture)
    }

    /// What the link carries for a frame of `size` bytes.
    fn wire(&self, size: ByteCount) -> u64 {
        let fragments = size.get().div_ceil(self.payload.get().max(1)).max(1);
        size.get() + fragments * (DATA_HEADER as u64 + CARRIAGE)
    }
}

/// What is known of schedules with a mean SSIM in an interval.
#[derive(Debug, Clone, Copy)]
struct Branch {
    /// Their bound.
    qoe_d: f64,
    /// The interval, dB.
    from: f64,
    to: f64,
    /// The least mean delay, seconds.
    delay: f64,
}

impl PartialEq for Branch {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Branch {}

impl PartialOrd for Branch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Branch {
    fn cmp(&self, other: &Self) -> Ordering {
        self.qoe_d.total_cmp(&other.qoe_d)
    }
}

/// What the search knows so far.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// The share of pictures that good schedules show.
    shown: f64,
    /// The best price of the last branch, as a share of the stationary one.
    share: f64,
    /// The bound is at least this.
    reached: f64,
}

/// The price of SSIM, seconds of summed delay for each unit of summed SSIM, at which QoE_d is stationary if the mean SSIM is
/// `mean` and a share of `shown` pictures is shown.
fn stationary_price(mean: f64, shown: f64) -> f64 {
    let (per_second, per_db) = (qoe_d(0.0, 0.0) - qoe_d(1e3, 0.0), qoe_d(0.0, 1.0) - qoe_d(0.0, 0.0));
    let slope = 10.0 / std::f64::consts::LN_10 / (1.0 - mean);
    per_db * slope / per_second / shown
}

/// SSIM of decibels.
fn ssim_of(decibels: f64) -> f64 {
    1.0 - libm::exp10(-0.1 * decibels)
}

impl Problem {
    /// Branch and bound over the mean SSIM.
    fn search(&self) -> Option<Branch> {
        let most = ssim_db(self.most_ssim);
        let mut branches = BinaryHeap::new();
        let mut search = Search { shown: 1.0, share: 1.0, reached: f64::NEG_INFINITY };
        branches.push(self.branch(0.0, most, &mut search));
        loop {
            let best = branches.pop()?;
            let width = best.to - best.from;
            if width <= RESOLUTION_DB {
                return Some(best);
            }
            let middle = best.from + 0.5 * width;
            branches.push(Branch { qoe_d: qoe_d(1e3 * best.delay, middle), to: middle, ..best });
            branches.push(self.branch(middle, best.to, &mut search));
        }
    }

    /// Bounds the schedules with a mean SSIM between two.
    fn branch(&self, from: f64, to: f64, search: &mut Search) -> Branch {
        let mean = ssim_of(from);
        let mut price = search.share * stationary_price(mean, search.shown);
        let pictures = self.pictures() as f64;
        let (mut delay, mut best_price) = (0.0_f64, price);
        let (mut low, mut high) = (None::<f64>, None::<f64>);
        for _ in 0..MOST_PRICES {
            let Value { worth, gained, shown: count } = self.best_schedule(&self.coarse, mean, price, None);
            if -worth / pictures > delay {
                (delay, best_price) = (-worth / pictures, price);
            }
            search.shown = (count / pictures).max(0.1);
            if qoe_d(1e3 * delay, to) <= search.reached {
                return Branch { qoe_d: qoe_d(1e3 * delay, to), from, to, delay };
            }
            // The dual is concave in the price, and what is gained is its slope: it bounds what another price gains.
            let reach =
                if gained > 0.0 { price - low.unwrap_or(0.0) } else { high.map_or(f64::INFINITY, |high| high - price) };
            let gain = qoe_d(0.0, 0.0) - qoe_d(1e3 * reach * gained.abs() / pictures, 0.0);
            if gained == 0.0 || gain < PRICE_GAIN {
                break;
            }
            if gained > 0.0 {
                high = Some(price);
            } else {
                low = Some(price);
            }
            price = match (low, high) {
                (Some(low), Some(high)) if high / low < PRICE_RESOLUTION => break,
                (Some(low), Some(high)) => (low * high).sqrt(),
                (Some(low), None) => 1.5 * low,
                (None, Some(high)) => high / 1.5,
                (None, None) => break,
            };
        }
        let Value { worth, .. } = self.best_schedule(&self.fine, mean, best_price, None);
        delay = delay.max(-worth / pictures);
        if low.is_some() {
            search.share = best_price / stationary_price(mean, search.shown);
        }
        search.reached = search.reached.max(qoe_d(1e3 * delay, from));
        Branch { qoe_d: qoe_d(1e3 * delay, to), from, to, delay }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::sync::Arc;

    use lockstep_link::{Delivered, Link, Trace};
    use lockstep_measure::DRAIN;
    use lockstep_units::Bitrate;
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg32;

    use super::*;
    use crate::codec_model::CodecModel;
    use crate::modelled_clip::ClipCurves;

    fn call(trace: Trace, seed: u64) -> BoundedCall {
        let model = CodecModel::built_in().unwrap();
        let curves = Arc::new(ClipCurves::new(model.drawn(seed), 640, 360));
        let frame_rate = FrameRate::default();
        BoundedCall {
            link: LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::new(trace) },
            clip: ModelledClip::new(curves, frame_rate.time_of(1), seed),
            frame_rate,
            length: Duration::from_secs(4),
            payload: ByteCount::new(1_340),
            encode_time: Duration::from_millis(5),
            decode_time: Duration::from_millis(3),
            finest: 4,
            shows_all: true,
        }
    }

    fn bound(call: &BoundedCall) -> f64 {
        call.bound().unwrap().qoe_d
    }

    /// QoE_d of a schedule over the link itself, each frame with its best SSIM. `bytes` gives the size of the frame of each
    /// picture, by its number and what waits before the link, or none to skip it.
    fn qoe_of(call: &BoundedCall, mut bytes: impl FnMut(u64, ByteCount) -> Option<u64>) -> Option<f64> {
        let mut link = Link::new(call.link.clone(), 1).unwrap();
        let (mut clip, curves) = (call.clip.clone(), call.clip.curves().clone());
        let pictures = (0..).take_while(|&picture| call.captured_at(picture) < Timestamp::ZERO + call.length).count();
        let (mut qualities, mut delivered) = (Vec::new(), Vec::new());
        for picture in 0..pictures as u64 {
            let best = curves.best_frames(&clip.next_picture(), call.finest, 1);
            let ready = call.captured_at(picture) + call.encode_time;
            delivered.extend(iter::from_fn(|| link.poll(ready)));
            let size = bytes(picture, link.queued().bytes).map(|bytes| bytes.max(best[0].size.get()));
            let Some(size) = size else { continue };
            let affordable = best.partition_point(|frame| frame.size.get() <= size);
            qualities.push((picture, best[affordable - 1].ssim));
            let mut left = size;
            while left > 0 {
                let part = left.min(call.payload.get());
                left -= part;
                let size = ByteCount::new(part + DATA_HEADER as u64 + CARRIAGE);
                let _ = link.send(ready, size, (picture, left == 0));
            }
        }
        let mut shown = vec![None; pictures];
        delivered.extend(iter::from_fn(|| link.poll(Timestamp::ZERO + call.length + DRAIN)));
        for Delivered { at, packet: (picture, is_last), .. } in delivered {
            if is_last {
                shown[picture as usize] = Some(at + call.decode_time);
            }
        }
        let mut followed = Timestamp::ZERO + call.length + DRAIN;
        let mut delay = 0.0;
        for picture in (0..pictures).rev() {
            followed = shown[picture].map_or(followed, |at| followed.min(at));
            delay += followed.saturating_since(call.captured_at(picture as u64)).as_secs_f64();
        }
        let ssim: Vec<f64> =
            qualities.iter().filter(|(picture, _)| shown[*picture as usize].is_some()).map(|(_, ssim)| *ssim).collect();
        let mean = lockstep_call::mean(&ssim)?;
        Some(qoe_d(1e3 * delay / pictures as f64, ssim_db(mean)))
    }

    fn traces() -> Vec<Trace> {
        vec![
            Trace::constant(Bitrate::from_kbps(400)),
            Trace::constant(Bitrate::from_kbps(3_000)),
            Trace::from_opportunities((0..1_000).filter(|at| at % 7 == 0).chain([1_900]).collect(), 2_000).unwrap(),
        ]
    }

    #[test]
    fn no_schedule_over_a_link_exceeds_the_bound() {
        for (number, trace) in traces().into_iter().enumerate() {
            let call = call(trace, number as u64 + 1);
            let bound = bound(&call);
            let mut random = Pcg32::seed_from_u64(number as u64);
            let mut reached = f64::NEG_INFINITY;
            for _ in 0..150 {
                let (size, every) = (libm::exp(random.random_range(5.0..10.0)), random.random_range(1..5_u64));
                let (spread, patience) = (random.random_range(0.0..1.0), random.random_range(0..6_000_u64));
                let quality = qoe_of(&call, |picture, queued| {
                    let bytes = size * libm::exp(spread * random.random_range(-1.0..1.0));
                    (picture.is_multiple_of(every) && queued.get() <= patience).then_some(bytes as u64)
                });
                reached = reached.max(quality.unwrap_or(f64::NEG_INFINITY));
            }
            assert!(reached <= bound, "a schedule of {reached} exceeds the bound of {bound}");
            // Schedules drawn at random come near: the bound is not idle.
            assert!(reached >= bound - 0.25, "the best of the schedules has {reached}, the bound is {bound}");
        }
    }

    #[test]
    fn delay_of_the_path_costs_what_qoe_d_says() {
        let near = call(Trace::constant(Bitrate::from_kbps(1_000)), 3);
        let far =
            BoundedCall { link: LinkConfig { delay: Duration::from_millis(120), ..near.link.clone() }, ..near.clone() };
        let difference = bound(&near) - bound(&far);
        assert!((difference - 0.192).abs() < 0.021, "{difference}");
    }

    #[test]
    fn schedule_over_a_link_stays_below_the_bound() {
        for (number, trace) in traces().into_iter().enumerate() {
            let QoeBound { qoe_d, schedule, .. } = call(trace, number as u64 + 1).bound().unwrap();
            let schedule = schedule.unwrap();
            assert!(schedule <= qoe_d && schedule > qoe_d - 1.5, "{schedule} of {qoe_d}");
        }
    }

    #[test]
    fn older_references_make_fewer_pictures_dearer() {
        let aged = call(Trace::constant(Bitrate::from_kbps(60)), 5);
        let fresh = BoundedCall { shows_all: false, ..aged.clone() };
        assert!(bound(&aged) < bound(&fresh) - 0.01, "{} and {}", bound(&aged), bound(&fresh));
    }

    #[test]
    fn more_capacity_raises_the_bound() {
        let bounds = [100, 500, 2_000, 10_000].map(|kbps| bound(&call(Trace::constant(Bitrate::from_kbps(kbps)), 2)));
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
    }

    #[test]
    fn without_capacity_nothing_is_worth_showing() {
        let bound = bound(&call(Trace::constant(Bitrate::ZERO), 2));
        assert!(bound < 2.0, "{bound}");
    }

    #[test]
    fn call_without_pictures_or_own_capacity_has_no_bound() {
        let usual = call(Trace::constant(Bitrate::from_kbps(500)), 1);
        assert_eq!(BoundedCall { length: Duration::ZERO, ..usual.clone() }.bound(), None);
        let link = LinkConfig { medium: Some("cell".to_owned()), ..usual.link.clone() };
        assert_eq!(BoundedCall { link, ..usual }.bound(), None);
    }
}
