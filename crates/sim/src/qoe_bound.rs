//! An upper bound on the QoE_d of a modelled call over a known link. No schedule of frames exceeds it.
//!
//! [`BoundedCall::bound`] returns the bound and the QoE_d of a feasible schedule ([`QoeBound::schedule`]). The optimum
//! lies between them. The bound has no tuned constants and needs no simulation.
//!
//! QoE_d falls with the mean video delay of all captured pictures. It rises with the mean SSIM of the shown ones, in dB
//! ([`lockstep_measure::qoe_d`]). The bound is computed in two steps:
//!
//! 1. Lagrangian duality: for schedules with a mean SSIM of at least `m`, the sum of delays has a lower bound. It is
//!    the minimum of `sum(delay) - price * sum(ssim - m)` over all schedules, for any price (seconds per unit of SSIM).
//!    Dynamic programming over the pictures, from last to first, computes the minimum.
//! 2. Branch and bound over `m`, in dB, finds the best combination of SSIM and delay.
//!
//! Proof of step 1: let a schedule have `sum(ssim) >= m * shown`. For each price of zero or more, its sum of delays is
//! at least `sum(delay) - price * sum(ssim - m)`. That is at least the minimum over all schedules.
//!
//! Proof of step 2: QoE_d rises with the mean SSIM and falls with the mean delay. Let the mean SSIM of a schedule lie
//! in an interval. Its QoE_d is at most that of the interval's upper end with the smallest delay of its lower end.
//!
//! Age of references: a shown frame has a decoded frame as its reference, or none. If the reference was shown, it is no
//! newer than the last frame shown before. If not, a newer frame was shown before the reference was decoded
//! ([`ReceivingEnd`](lockstep_call::ReceivingEnd)). So the reference's picture is at least as old as the last shown
//! one, and skipping pictures costs bits. This does not hold if pictures wait for sound ([`BoundedCall::shows_all`]).
//!
//! The state of the program has two parts: the time until which the bottleneck is busy, and the number of pictures
//! since the last shown one. A picture is either skipped or sent. Its size follows from the time at which the
//! bottleneck serves its last byte.
//!
//! Each simplification only adds schedules that a call cannot have:
//!
//! | in a call | in the bound |
//! |---|---|
//! | packets are queued, dropped, lost, reordered or delayed by jitter | every byte passes as soon as capacity and order allow |
//! | feedback, sound, parity, retransmissions and probes share the link | only shown frames use it, with one header per fragment |
//! | a frame is coded from one reference that was sent | each frame has its best reference among those at least as old as the last shown picture ([`ClipCurves::best_frames`](crate::ClipCurves::best_frames)) |
//! | the encoder makes several passes, one picture at a time | the first bytes leave after the shortest encoding time |
//! | a frame is decoded after the frame before it | each frame is decoded at once, in the decoding time |
//! | the age of a reference is exact, in pictures | it is rounded down to a power of two, 16 at most |
//! | controllers receive delayed feedback | the whole call is known in advance |
//! | sizes are whole bytes | sizes have classes of 1.6 % |
//! | time is continuous | a frame that ends within a cell of [`CELL`] ends at its start, with all bytes of the cell; frames beyond [`EXACT_CELLS`] end within an 8th of their time |
//! | a backlog has any length | for the frames after it, a backlog counts at most as [`BACKLOG_CELLS`] cells with capacity |
//! | skipped pictures wait for the next shown one | beyond [`PENDING`], each waits for the earliest time at which a later picture can be shown |

mod program;
mod schedule;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

use lockstep_link::LinkConfig;
use lockstep_measure::qoe_d;
use lockstep_media::{FrameRate, ssim_db};
use lockstep_transport::wire::{DATA_HEADER, DATAGRAM_OVERHEAD};
use lockstep_units::{ByteCount, Timestamp};

use program::{Problem, Value};

use crate::modelled_clip::{ClipCurves, ModelledClip, ModelledPicture};

/// Resolution of time.
pub const CELL: Duration = Duration::from_millis(4);
/// Longest backlog that the state distinguishes, in cells with capacity.
pub const BACKLOG_CELLS: usize = 32;
/// Number of cells within which a frame may end in any cell. Longer frames have a coarser resolution.
pub const EXACT_CELLS: usize = 16;
/// Number of skipped pictures whose delay is exact.
pub const PENDING: usize = 15;
/// Resolution of the mean SSIM, dB. The bound exceeds the dual optimum by at most 0.101 times this.
const RESOLUTION_DB: f64 = 0.1;
/// Limit on the prices tried for one branch.
const MAX_PRICES: usize = 8;
/// Ratio below which two prices are not distinguished.
const PRICE_RESOLUTION: f64 = 1.2;
/// Gain of QoE_d below which no further price is tried.
const PRICE_GAIN: f64 = 0.005;

/// A modelled call on a link without other traffic.
#[derive(Debug, Clone)]
pub struct BoundedCall {
    /// Link from the sender to the receiver.
    pub link: LinkConfig,
    /// Pictures of the call.
    pub clip: ModelledClip,
    /// Frame rate of the source.
    pub frame_rate: FrameRate,
    /// Duration of the scored part.
    pub length: Duration,
    /// Largest payload of one fragment, bytes.
    pub payload: ByteCount,
    /// Shortest time from the capture of a picture to the first byte of its frame.
    pub encode_time: Duration,
    /// Time to decode a frame.
    pub decode_time: Duration,
    /// Finest quantizer that the encoder uses.
    pub finest: u8,
    /// Whether every decoded frame is shown that is newer than all shown before.
    pub shows_all: bool,
}

/// Upper bound on QoE_d.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QoeBound {
    /// QoE_d that no schedule exceeds.
    pub qoe_d: f64,
    /// Mean video delay at the bound, ms.
    pub delay_ms: f64,
    /// Mean SSIM at the bound, dB.
    pub ssim_db: f64,
    /// QoE_d of a feasible schedule that knows the whole call. The optimum lies between it and the bound. `None` if the
    /// link loses, reorders or delays packets at random.
    pub schedule: Option<f64>,
}

impl BoundedCall {
    /// Computes the bound. `None` if no picture is scored, or if the link shares a medium ([`LinkConfig::medium`]).
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

    /// Bytes on the link for a frame of `size` bytes.
    fn wire(&self, size: ByteCount) -> u64 {
        let fragments = size.get().div_ceil(self.payload.get().max(1)).max(1);
        size.get() + fragments * (DATA_HEADER as u64 + DATAGRAM_OVERHEAD)
    }
}

/// Bound on the schedules with a mean SSIM in an interval.
#[derive(Debug, Clone, Copy)]
struct Branch {
    /// Upper bound on QoE_d.
    qoe_d: f64,
    /// Lower end of the interval, dB.
    from: f64,
    /// Upper end of the interval, dB.
    to: f64,
    /// Lower bound on the mean delay, seconds.
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

/// State of the search.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// Share of shown pictures in good schedules.
    shown: f64,
    /// Best price of the last branch over its stationary price.
    share: f64,
    /// Lower bound on the result.
    reached: f64,
}

/// Price of SSIM at which QoE_d is stationary, seconds of summed delay per unit of summed SSIM. It depends on the
/// `mean` SSIM and the share of `shown` pictures.
fn stationary_price(mean: f64, shown: f64) -> f64 {
    let (per_second, per_db) = (qoe_d(0.0, 0.0) - qoe_d(1e3, 0.0), qoe_d(0.0, 1.0) - qoe_d(0.0, 0.0));
    let slope = 10.0 / std::f64::consts::LN_10 / (1.0 - mean);
    per_db * slope / per_second / shown
}

/// SSIM from decibels.
fn ssim_of(decibels: f64) -> f64 {
    1.0 - libm::exp10(-0.1 * decibels)
}

impl Problem {
    /// Branch and bound over the mean SSIM.
    fn search(&self) -> Option<Branch> {
        let most = ssim_db(self.max_ssim);
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

    /// Bounds the schedules with a mean SSIM from `from` to `to`, dB.
    fn branch(&self, from: f64, to: f64, search: &mut Search) -> Branch {
        let mean = ssim_of(from);
        let mut price = search.share * stationary_price(mean, search.shown);
        let pictures = self.pictures() as f64;
        let (mut delay, mut best_price) = (0.0_f64, price);
        let (mut low, mut high) = (None::<f64>, None::<f64>);
        for _ in 0..MAX_PRICES {
            let Value { worth, gained, shown: count } = self.best_schedule(&self.coarse, mean, price, None);
            if -worth / pictures > delay {
                (delay, best_price) = (-worth / pictures, price);
            }
            search.shown = (count / pictures).max(0.1);
            if qoe_d(1e3 * delay, to) <= search.reached {
                return Branch { qoe_d: qoe_d(1e3 * delay, to), from, to, delay };
            }
            // The dual is concave in the price, and `gained` is its slope. It bounds the gain of any other price.
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

    /// QoE_d of a schedule on the link, each frame with its best SSIM. `bytes` returns a picture's frame size, or
    /// `None` to skip it. Its arguments are the picture's index and the bytes in the queue.
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
                let size = ByteCount::new(part + DATA_HEADER as u64 + DATAGRAM_OVERHEAD);
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
            // Random schedules come near the bound, so it is not loose.
            assert!(reached >= bound - 0.25, "the best schedule reaches {reached} of the bound of {bound}");
        }
    }

    #[test]
    fn path_delay_lowers_the_bound_as_in_qoe_d() {
        let near = call(Trace::constant(Bitrate::from_kbps(1_000)), 3);
        let far =
            BoundedCall { link: LinkConfig { delay: Duration::from_millis(120), ..near.link.clone() }, ..near.clone() };
        let difference = bound(&near) - bound(&far);
        assert!((difference - 0.192).abs() < 0.021, "{difference}");
    }

    #[test]
    fn the_schedule_is_feasible_and_stays_below_the_bound() {
        for (number, trace) in traces().into_iter().enumerate() {
            let QoeBound { qoe_d, schedule, .. } = call(trace, number as u64 + 1).bound().unwrap();
            let schedule = schedule.unwrap();
            assert!(schedule <= qoe_d && schedule > qoe_d - 1.5, "{schedule} of {qoe_d}");
        }
    }

    #[test]
    fn older_references_lower_the_bound() {
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
    fn without_capacity_the_bound_is_low() {
        let bound = bound(&call(Trace::constant(Bitrate::ZERO), 2));
        assert!(bound < 2.0, "{bound}");
    }

    #[test]
    fn no_pictures_or_a_shared_medium_give_no_bound() {
        let usual = call(Trace::constant(Bitrate::from_kbps(500)), 1);
        assert_eq!(BoundedCall { length: Duration::ZERO, ..usual.clone() }.bound(), None);
        let link = LinkConfig { medium: Some("cell".to_owned()), ..usual.link.clone() };
        assert_eq!(BoundedCall { link, ..usual }.bound(), None);
    }
}
