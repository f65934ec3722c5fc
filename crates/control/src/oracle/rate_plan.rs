//! Which bit rate a codec should be given that follows a target once a second and knows no budgets.
//!
//! Each rate is tried: pictures of so many bytes come for a second, until the codec takes over the next target, and the
//! bottleneck, which is known, passes them. Then come pictures for a part of what passes ([`AFTERWARDS`]) until what the
//! second has left is gone. What is gained is quality, by the logarithm of the rate; what it costs is delay, of the pictures
//! of that second and of those that are held up later. Both are weighed as by QoE_d (Concerto, MobiCom 2019, Table 2).

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::bottleneck::Bottleneck;

/// How often a codec takes over a new target.
pub(super) const HOLD: Duration = Duration::from_secs(1);
/// What a picture gains in QoE_d when it has e times the bits, at 0.101 a dB of SSIM: 2 dB. The built-in codec models gain
/// 1 to 6 (`codec_model.json`), least where pictures are good already. Of 0.15, 0.2 and 0.3 with overshoots of 1.1 to 1.2, the
/// pair with the best worst case on 79 traces, and on those with a queue of 16 packets and with CoDel
/// (`lockstep sweep --controllers oracle --codecs modelled-conventional`).
const QUALITY: f64 = 0.2;
/// What a second of delay takes off QoE_d (Concerto, MobiCom 2019, Table 2).
pub const QOE_D_DELAY: f64 = 1.92;
/// Pictures are larger and smaller than they should be: delay is reckoned with so many times the rate.
const OVERSHOOT: f64 = 1.2;
/// The share of what passes that is used after the second, so that what it left drains.
const AFTERWARDS: f64 = 0.85;
/// How far it is looked ahead, and in what steps after the first second.
const HORIZON: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(100);
/// The first picture of a call takes what the codec's buffer may give it: a quarter of a second at the target.
const FIRST_PICTURE: Duration = Duration::from_millis(250);
/// So often is a packet sent again, as far as it is reckoned with, and so many are lost at most.
const MOST_REPEATS: usize = 12;
const MOST_LOSS: f64 = 0.9;
/// The rates that are tried, from the least on, each larger by this factor.
const LEAST: f64 = 10e3;
const FACTOR: f64 = 1.15;
const RATES: usize = 64;

/// The rate that pays best from `now` on, if what waits is `backlog` and pictures come every `interval`; all bytes on the
/// link counted. `first` says that the first one is a key frame.
pub(super) fn best_rate(
    path: &Bottleneck,
    now: Timestamp,
    backlog: ByteCount,
    interval: Duration,
    first: bool,
) -> Bitrate {
    let (loss, round_trip) = path.loss(now);
    let plan = Plan { path, now, backlog: backlog.as_f64(), interval, first, loss: loss.min(MOST_LOSS), round_trip };
    let mut best = (f64::NEG_INFINITY, LEAST);
    let mut falls = 0;
    let mut rate = LEAST;
    for _ in 0..RATES {
        let value = plan.value(rate, best.0);
        if value > best.0 {
            best = (value, rate);
            falls = 0;
        } else {
            falls += 1;
            // Costs grow faster than what is gained.
            if falls > 8 {
                break;
            }
        }
        rate *= FACTOR;
    }
    Bitrate::from_bps(best.1 as u64)
}

struct Plan<'a> {
    path: &'a Bottleneck,
    now: Timestamp,
    backlog: f64,
    interval: Duration,
    first: bool,
    loss: f64,
    round_trip: Duration,
}

impl Plan<'_> {
    /// When `bytes` from now on have passed.
    fn passed(&self, bytes: f64) -> f64 {
        let time = self.path.time_for(self.now, ByteCount::new(bytes.ceil() as u64));
        time.unwrap_or(HORIZON * 2).min(HORIZON * 2).as_secs_f64()
    }

    fn carried(&self, until: f64) -> f64 {
        self.path.carried(self.now, self.now + Duration::from_secs_f64(until)).as_f64()
    }

    /// How long a picture of `size` bytes takes on average because parts of it are lost and sent again, seconds: as many
    /// round trips as the unluckiest of its packets takes.
    fn repeats(&self, size: f64) -> f64 {
        if self.loss <= 0.0 {
            return 0.0;
        }
        let packets = (size / self.path.datagram()).ceil().max(1.0);
        let (mut trips, mut lost) = (0.0, 1.0);
        for _ in 0..MOST_REPEATS {
            lost *= self.loss;
            trips += 1.0 - libm::pow(1.0 - lost, packets);
        }
        trips * self.round_trip.as_secs_f64()
    }

    /// What `rate` is worth, QoE_d times seconds; less than `enough` is not told apart.
    fn value(&self, rate: f64, enough: f64) -> f64 {
        let interval = self.interval.as_secs_f64();
        let pictures = (HOLD.as_secs_f64() / interval).round().max(1.0);
        let mut value = QUALITY * libm::log(rate) - QOE_D_DELAY * self.repeats(rate * interval / 8.0);
        let (mut work, mut at) = (self.backlog, 0.0);
        for picture in 0..pictures as u32 {
            let time = if self.first && picture == 0 { FIRST_PICTURE.as_secs_f64() } else { interval };
            work = work.max(self.carried(at)) + OVERSHOOT / (1.0 - self.loss) * rate * time / 8.0;
            value -= QOE_D_DELAY * interval * (self.passed(work) - at);
            at += interval;
        }
        let step = STEP.as_secs_f64();
        let horizon = HORIZON.as_secs_f64();
        let mut second = (0.0, 0.0);
        while at < horizon && value > enough {
            if at >= second.0 {
                second = (at + 1.0, AFTERWARDS * (self.carried(at + 1.0) - self.carried(at)));
            }
            let (arrived, own) = (self.carried(at), second.1 * step);
            let alone = self.passed(arrived + own) - at;
            work = work.max(arrived) + own;
            let held_up = self.passed(work) - at - alone;
            if held_up <= 1e-4 {
                break;
            }
            value -= QOE_D_DELAY * step * held_up;
            at += step;
        }
        value
    }
}
