//! What a link is like. Everything can be written into a configuration file; times there are milliseconds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_units::Bitrate;
use lockstep_units::quantity::MAXIMUM_PERIOD;
use lockstep_units::quantity::milliseconds;

use crate::queue::QueueConfig;
use crate::trace::Trace;

/// Capacity of a single bottleneck's way back without a trace of its own: ample for acknowledgements.
pub const REVERSE_CAPACITY: Bitrate = Bitrate::from_kbps(100_000);

/// The most intervals of scheduled loss.
const MAXIMUM_INTERVALS: usize = 1 << 16;

/// Why a link cannot be like this.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A probability outside 0 to 1.
    #[error("{field} is {value}, which is no probability from 0 to 1")]
    Probability {
        /// Which one.
        field: &'static str,
        /// What it is.
        value: f64,
    },
    /// A time longer than [`MAXIMUM_PERIOD`].
    #[error("{0} is longer than 49 days")]
    TooLong(&'static str),
    /// A mean time of an on/off process below a microsecond, which would take for ever to step through.
    #[error("{0} is shorter than a microsecond")]
    TooShort(&'static str),
    /// Intervals that overlap, are out of order or end before they begin.
    #[error("interval {0} of the scheduled loss does not begin after the one before it and before its own end")]
    Interval(usize),
    /// More than 65,536 intervals.
    #[error("more than {MAXIMUM_INTERVALS} intervals of scheduled loss")]
    TooManyIntervals,
}

/// Burst loss: Gilbert's and Elliott's chain of two states, which may change with each packet (E. N. Gilbert, Bell
/// System Technical Journal 39, 1960; E. O. Elliott, ibid. 42, 1963). The first packet finds the good state. In the
/// long run, `to_bad / (to_bad + to_good)` of packets find the bad one; its runs are `1 / to_good` packets long on
/// average.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability that the state after a packet is bad if it was good (p).
    pub to_bad: f64,
    /// Probability that the state after a packet is good if it was bad (r).
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

/// Loss that comes and goes with time, whatever is sent: times with and without it follow each other, both of
/// exponential length. It starts without.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnOffLoss {
    /// Mean length of the times with loss.
    #[serde(rename = "mean_on_ms", with = "milliseconds")]
    pub mean_on: Duration,
    /// Mean length of the times without.
    #[serde(rename = "mean_off_ms", with = "milliseconds")]
    pub mean_off: Duration,
    /// Probability that a packet is lost in a time with loss.
    #[serde(default = "one")]
    pub loss: f64,
}

/// A time in which packets are lost, counted from the link's start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossInterval {
    /// When it begins.
    #[serde(rename = "from_ms", with = "milliseconds")]
    pub from: Duration,
    /// When it is over (that moment no longer belongs to it).
    #[serde(rename = "to_ms", with = "milliseconds")]
    pub to: Duration,
    /// Probability that a packet is lost in it.
    #[serde(default = "one")]
    pub loss: f64,
}

/// Where packets are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossPlace {
    /// Behind the bottleneck: what is lost has taken its place in the queue and its share of the capacity, as on a
    /// radio link. The moment that counts is when the packet has left the bottleneck.
    #[default]
    AfterBottleneck,
    /// Before the queue: what is lost takes nothing, and [`crate::Link::send`] says so. The moment that counts is when
    /// the packet is sent. (mahimahi's `mm-loss` outside `mm-link` does this for what is sent into it.)
    BeforeBottleneck,
}

/// All that loses packets beside the queue. Each kind decides for itself, by its own stream of randomness; a packet is
/// lost if any says so, and counted for the first of: random, burst, on/off, scheduled, trace.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossConfig {
    /// Probability that a packet is lost, each on its own.
    pub random: f64,
    /// Loss in bursts of packets.
    pub burst: Option<GilbertElliott>,
    /// Loss in times that come and go.
    pub on_off: Option<OnOffLoss>,
    /// Loss at given times, in order and without overlap.
    pub scheduled: Vec<LossInterval>,
    /// Where, for all kinds and for the loss that the trace carries.
    pub place: LossPlace,
}

/// How the further delay of a packet is distributed. Each packet draws for itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum JitterDistribution {
    /// Even from zero to `most_ms`.
    Uniform {
        /// The most.
        #[serde(rename = "most_ms", with = "milliseconds")]
        most: Duration,
    },
    /// Normal around `mean_ms`, cut off at three deviations (RFC 8868, section 4.5.3) and at zero.
    Normal {
        /// The mean.
        #[serde(rename = "mean_ms", with = "milliseconds")]
        mean: Duration,
        /// The standard deviation.
        #[serde(rename = "deviation_ms", with = "milliseconds")]
        deviation: Duration,
    },
    /// Exponential: mostly small, sometimes large.
    Exponential {
        /// The mean.
        #[serde(rename = "mean_ms", with = "milliseconds")]
        mean: Duration,
    },
}

/// Delay that differs from packet to packet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// How much.
    pub distribution: JitterDistribution,
    /// Whether a packet may overtake another through it. If not, a packet comes no earlier than the one before it,
    /// which lets jitter come in steps, as on real paths. Goes for the jitter and the changes of delay of the trace
    /// too.
    #[serde(default)]
    pub reorders: bool,
}

/// Packets that come late, so that others overtake them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reordering {
    /// Probability that a packet comes late.
    pub probability: f64,
    /// How late.
    #[serde(rename = "extra_delay_ms", with = "milliseconds")]
    pub extra_delay: Duration,
}

/// One direction of a path.
///
/// A packet goes through the queue, the bottleneck (the trace's capacity), then the loss, then the delay. Sizes are
/// used as the sender gives them: whether they count IP and UDP headers is the sender's choice, and should be the same
/// throughout. (mahimahi's recordings count whole IP packets.)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Capacity, and perhaps loss, delay and jitter, which add to those below.
    pub trace: Trace,
    /// Where in the trace the link starts.
    #[serde(default, rename = "trace_offset_ms", with = "milliseconds")]
    pub trace_offset: Duration,
    /// The queue before the bottleneck.
    #[serde(default)]
    pub queue: QueueConfig,
    /// The name of the medium whose airtime this link shares with others, such as a Wi-Fi channel: the trace then says
    /// at what rate bits are sent while it has the medium. None for a bottleneck of its own.
    #[serde(default)]
    pub medium: Option<String>,
    /// One-way propagation delay.
    #[serde(default, rename = "delay_ms", with = "milliseconds")]
    pub delay: Duration,
    /// Loss.
    #[serde(default)]
    pub loss: LossConfig,
    /// Further delay from packet to packet.
    #[serde(default)]
    pub jitter: Option<Jitter>,
    /// Packets that come late.
    #[serde(default)]
    pub reordering: Option<Reordering>,
    /// Probability that a packet comes twice, at the same moment.
    #[serde(default)]
    pub duplication: f64,
}

impl LinkConfig {
    /// The trace behind a queue of 256 packets, and nothing else.
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

    /// Whether a link can be like this.
    ///
    /// # Errors
    /// What is wrong with the first value that is.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let probability = |field, value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(ConfigError::Probability { field, value }),
        };
        let time = |field, time| if time > MAXIMUM_PERIOD { Err(ConfigError::TooLong(field)) } else { Ok(()) };
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
        if self.loss.scheduled.len() > MAXIMUM_INTERVALS {
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
            Some(JitterDistribution::Uniform { most }) => time("jitter.most", most)?,
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
