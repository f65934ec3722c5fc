//! Capacity traces in every format, and the link model.
//!
//! A [`Trace`] is the capacity of one direction of a path over time. It has delivery opportunities, as in mahimahi, or
//! piecewise-constant rates. Loss, delay and jitter may change over time as well.
//!
//! A [`Link`] accepts packets and returns each at a later time, or drops it. It reads no clock, so that simulator and
//! emulator drive the same object. Equal seeds and equal calls give equal results on every platform.
//!
//! ```text
//! send ──► queue ──► bottleneck (trace) ──► loss ──► delay, jitter ──► poll
//! ```
//!
//! ```
//! use lockstep_link::{Link, LinkConfig, Trace, Verdict};
//! use lockstep_units::{ByteCount, Timestamp};
//!
//! let config = LinkConfig::new(Trace::from_spec("constant:1mbps")?);
//! let mut link = Link::new(config, 7)?;
//! assert_eq!(link.send(Timestamp::ZERO, ByteCount::new(1250), "hello"), Verdict::Queued);
//! let wake = link.poll_timeout().expect("a packet is in flight");
//! let delivered = link.poll(wake).expect("the packet has arrived");
//! assert_eq!((delivered.packet, delivered.at), ("hello", Timestamp::from_millis(10)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod alphartc;
mod columns;
mod config;
mod convert;
mod error;
pub mod fit;
mod fitted;
mod generate;
mod limits;
mod lines;
mod link;
mod loss;
mod medium;
mod parse;
mod profile;
mod queue;
mod random;
mod service;
mod spec;
mod statistics;
mod stored;
mod timeline;
mod trace;
mod transfer_log;

pub use alphartc::{AlphaRtcTraces, parse_alphartc};
pub use columns::{ColumnUnits, RateUnit, TimeUnit};
pub use config::{
    ConfigError, GilbertElliott, Jitter, JitterDistribution, LinkConfig, LossConfig, LossInterval, LossPlace,
    OnOffLoss, REVERSE_CAPACITY, Reordering,
};
pub use error::{Problem, TraceError};
pub use fitted::{Families, Family, FitError, LEVELS, MAX_FAMILIES, QUANTILES};
pub use generate::{Cellular, OnOff, Poisson, Ramp};
pub use limits::{MAX_INPUT, MAX_OPPORTUNITIES, MAX_SEGMENTS, OPPORTUNITY};
pub use link::{Delivered, Link, Verdict};
pub use medium::{Medium, MediumConfig, MediumStatistics};
pub use parse::TraceFormat;
pub use queue::{QueueConfig, QueueDiscipline, Queued};
pub use statistics::{DropReason, LinkStatistics, Tally};
pub use timeline::End;
pub use trace::{CAPACITY_WINDOW, Conditions, Segment, Trace, TraceSummary};
