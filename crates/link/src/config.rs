//! Configuration of a link. It can be stored in a configuration file, where times are in milliseconds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_units::Bitrate;
use lockstep_units::quantity::{MAX_PERIOD, milliseconds};

use crate::queue::QueueConfig;
use crate::trace::Trace;

/// Capacity of the reverse path of a single bottleneck without a trace for it: ample for acknowledgements.
pub const REVERSE_CAPACITY: Bitrate = Bitrate::from_kbps(100_000);

/// Largest number of intervals of scheduled loss.
const MAX_INTERVALS: usize = 1 << 16;

/// Why a link configuration is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A probability is not from 0 to 1.
    #[error("{field} is {value}, expected a probability from 0 to 1")]
    Probability {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: f64,
    },
    /// A time is longer than [`MAX_PERIOD`].
    #[error("{0} is longer than 49 days")]
    TooLong(&'static str),
    /// A mean time of an on/off process is below a microsecond, so that the simulation would not make progress.
    #[error("{0} is shorter than a microsecond")]
    TooShort(&'static str),
    /// An interval overlaps another, is out of order, or is empty.
    #[error("interval {0} of the scheduled loss is empty, or begins before the end of the one before")]
    Interval(usize),
    /// There are more than 65,536 intervals.
    #[error("more than {MAX_INTERVALS} intervals of scheduled loss")]
    TooManyIntervals,
}

/// Burst loss: the two-state Markov chain of Gilbert and Elliott, which may change its state with each packet.
///
/// The chain starts in the good state. In the long run, `to_bad / (to_bad + to_good)` of the packets find the bad
/// state. A bad run has `1 / to_good` packets on average. Sources: E. N. Gilbert, Bell System Technical Journal 39,
/// 1960; E. O. Elliott, ibid. 42, 1963.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability of a change from the good to the bad state after a packet (p).
    pub to_bad: f64,
    /// Probability of a change from the bad to the good state after a packet (r).
    pub to_good: f64,
    /// Probability that a packet is lost in the good state (1 - k); zero in Gilbert's model.
    #[serde(default)]
    pub loss_in_good: f64,
    /// Probability that a packet is lost in the bad state (1 - h); one in the simple Gilbert model.
    #[serde(default = "one")]
    pub loss_in_bad: f64,
}

fn one() -> f64 {
    1.0
}

/// Loss that depends on time, not on packets. Periods without and with loss alternate, both of exponential length; the
/// first is without loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnOffLoss {
    /// Mean length of a period with loss.
    #[serde(rename = "mean_on_ms", with = "milliseconds")]
    pub mean_on: Duration,
    /// Mean length of a period without loss.
    #[serde(rename = "mean_off_ms", with = "milliseconds")]
    pub mean_off: Duration,
    /// Probability that a packet is lost in a period with loss.
    #[serde(default = "one")]
    pub loss: f64,
}

/// Interval in which packets are lost, counted from the start of the link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossInterval {
    /// Start of the interval.
    #[serde(rename = "from_ms", with = "milliseconds")]
    pub from: Duration,
    /// End of the interval, exclusive.
    #[serde(rename = "to_ms", with = "milliseconds")]
    pub to: Duration,
    /// Probability that a packet is lost in the interval.
    #[serde(default = "one")]
    pub loss: f64,
}

/// Position of losses on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossPlace {
    /// After the bottleneck: a lost packet has used the queue and the capacity, as on a radio link. The decisive time
    /// is when the packet leaves the bottleneck.
    #[default]
    AfterBottleneck,
    /// Before the queue: a lost packet uses nothing, and [`crate::Link::send`] reports it. The decisive time is when
    /// the packet is sent. mahimahi's `mm-loss` outside `mm-link` does this for packets into it.
    BeforeBottleneck,
}

/// Losses other than those of the queue. Each kind decides independently, with a separate random stream. A packet is
/// lost if any kind decides so. It is counted for the first of: random, burst, on/off, scheduled, trace.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossConfig {
    /// Probability that a packet is lost, independently of others.
    pub random: f64,
    /// Burst loss.
    pub burst: Option<GilbertElliott>,
    /// On/off loss.
    pub on_off: Option<OnOffLoss>,
    /// Loss in given intervals, ascending and without overlap.
    pub scheduled: Vec<LossInterval>,
    /// Position of the losses, including those of the trace.
    pub place: LossPlace,
}

/// Distribution of jitter. Packets are independent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum JitterDistribution {
    /// Uniform from zero to `most_ms`.
    Uniform {
        /// Upper bound.
        #[serde(rename = "most_ms", with = "milliseconds")]
        max: Duration,
    },
    /// Normal with mean `mean_ms`, truncated at three deviations (RFC 8868, section 4.5.3) and at zero.
    Normal {
        /// Mean.
        #[serde(rename = "mean_ms", with = "milliseconds")]
        mean: Duration,
        /// Standard deviation.
        #[serde(rename = "deviation_ms", with = "milliseconds")]
        deviation: Duration,
    },
    /// Exponential: mostly small, sometimes large.
    Exponential {
        /// Mean.
        #[serde(rename = "mean_ms", with = "milliseconds")]
        mean: Duration,
    },
}

/// Variable delay of packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Distribution of the additional delay.
    pub distribution: JitterDistribution,
    /// Whether jitter may reorder packets. If not, a packet arrives no earlier than the one before it. Then jitter
    /// comes in steps, as on real paths. Applies to jitter and changes of delay in the trace as well.
    #[serde(default)]
    pub reorders: bool,
}

/// Packets with an additional delay, so that others overtake them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reordering {
    /// Probability that a packet is delayed.
    pub probability: f64,
    /// Additional delay.
    #[serde(rename = "extra_delay_ms", with = "milliseconds")]
    pub extra_delay: Duration,
}

/// One direction of a path.
///
/// A packet passes the queue, the bottleneck (capacity of the trace), the loss and the delay. Sizes are used as the
/// sender gives them. The sender decides whether they include IP and UDP headers, and should do so consistently.
/// mahimahi's recordings count whole IP packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Capacity. The trace may also have loss, delay and jitter, which add to those below.
    pub trace: Trace,
    /// Position in the trace at which the link starts.
    #[serde(default, rename = "trace_offset_ms", with = "milliseconds")]
    pub trace_offset: Duration,
    /// Queue before the bottleneck.
    #[serde(default)]
    pub queue: QueueConfig,
    /// Name of the medium whose airtime this link shares with others, such as a Wi-Fi channel. The trace is then the
    /// bit rate while the link has the medium. `None` for a separate bottleneck.
    #[serde(default)]
    pub medium: Option<String>,
    /// One-way propagation delay.
    #[serde(default, rename = "delay_ms", with = "milliseconds")]
    pub delay: Duration,
    /// Loss.
    #[serde(default)]
    pub loss: LossConfig,
    /// Jitter.
    #[serde(default)]
    pub jitter: Option<Jitter>,
    /// Reordering.
    #[serde(default)]
    pub reordering: Option<Reordering>,
    /// Probability that a packet is duplicated; the copy arrives at the same time.
    #[serde(default)]
    pub duplication: f64,
}

impl LinkConfig {
    /// The trace behind a queue of 256 packets, without loss or delay.
    #[must_use]
    pub fn new(trace: Trace) -> Self {
        Self {
            trace,
            trace_offset: Duration::ZERO,
            queue: QueueConfig::default(),
            medium: None,
            delay: Duration::ZERO,
            loss: LossConfig::default(),
            jitter: None,
            reordering: None,
            duplication: 0.0,
        }
    }

    /// Whether a packet may overtake another.
    #[must_use]
    pub fn reorders(&self) -> bool {
        self.reordering.is_some() || self.jitter.is_some_and(|jitter| jitter.reorders)
    }

    /// Checks all values.
    ///
    /// # Errors
    /// [`ConfigError`] for the first invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let probability = |field, value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(ConfigError::Probability { field, value }),
        };
        let time = |field, time| if time > MAX_PERIOD { Err(ConfigError::TooLong(field)) } else { Ok(()) };
        time("trace_offset", self.trace_offset)?;
        time("delay", self.delay)?;
        for (field, length) in self.queue.times() {
            time(field, length)?;
        }
        probability("duplication", self.duplication)?;
        probability("loss.random", self.loss.random)?;
        if let Some(burst) = self.loss.burst {
            probability("loss.burst.to_bad", burst.to_bad)?;
            probability("loss.burst.to_good", burst.to_good)?;
            probability("loss.burst.loss_in_good", burst.loss_in_good)?;
            probability("loss.burst.loss_in_bad", burst.loss_in_bad)?;
        }
        if let Some(on_off) = self.loss.on_off {
            probability("loss.on_off.loss", on_off.loss)?;
            for (field, mean) in [("loss.on_off.mean_on", on_off.mean_on), ("loss.on_off.mean_off", on_off.mean_off)] {
                time(field, mean)?;
                if mean < Duration::from_micros(1) {
                    return Err(ConfigError::TooShort(field));
                }
            }
        }
        if self.loss.scheduled.len() > MAX_INTERVALS {
            return Err(ConfigError::TooManyIntervals);
        }
        let mut end = Duration::ZERO;
        for (index, interval) in self.loss.scheduled.iter().enumerate() {
            probability("loss.scheduled.loss", interval.loss)?;
            if interval.from < end || interval.to <= interval.from {
                return Err(ConfigError::Interval(index + 1));
            }
            end = interval.to;
        }
        match self.jitter.map(|jitter| jitter.distribution) {
            None => {}
            Some(JitterDistribution::Uniform { max }) => time("jitter.most", max)?,
            Some(JitterDistribution::Exponential { mean }) => time("jitter.mean", mean)?,
            Some(JitterDistribution::Normal { mean, deviation }) => {
                time("jitter.mean", mean)?;
                time("jitter.deviation", deviation)?;
            }
        }
        if let Some(reordering) = self.reordering {
            probability("reordering.probability", reordering.probability)?;
            time("reordering.extra_delay", reordering.extra_delay)?;
        }
        Ok(())
    }
}
