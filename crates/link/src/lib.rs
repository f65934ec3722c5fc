//! Capacity traces in every format, and the link model.
//!
//! A [`Trace`] says what one direction of a path lets through over time: either single delivery opportunities (as
//! mahimahi records them) or a piecewise-constant rate, with loss, delay and jitter that may change over time too. A
//! [`Link`] takes a packet at a time and gives it back at a later time or never. It reads no clock: simulator and
//! emulator drive the same object, and equal seeds and equal calls give equal results on every platform.
//!
//! ```
//! use lockstep_link::{Link, LinkConfig, Trace, Verdict};
//! use lockstep_units::{ByteCount, Timestamp};
//!
//! let config = LinkConfig::new(Trace::from_spec("constant:1mbps")?);
//! let mut link = Link::new(config, 7)?;
//! assert_eq!(link.send(Timestamp::ZERO, ByteCount::new(1250), "hello"), Verdict::Queued);
//! let wake = link.poll_timeout().expect("something is under way");
//! let delivered = link.poll(wake).expect("it is there");
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
pub use fitted::{Families, Family, FitError, LEVELS, MAXIMUM_FAMILIES, QUANTILES};
pub use generate::{Cellular, OnOff, Poisson, Ramp};
pub use limits::{MAXIMUM_INPUT, MAXIMUM_OPPORTUNITIES, MAXIMUM_SEGMENTS, OPPORTUNITY};
pub use link::{Delivered, Link, Verdict};
pub use medium::{Medium, MediumConfig, MediumStatistics};
pub use parse::TraceFormat;
pub use queue::{QueueConfig, QueueDiscipline, Queued};
pub use statistics::{DropReason, LinkStatistics, Tally};
pub use timeline::End;
pub use trace::{CAPACITY_WINDOW, Conditions, Segment, Trace, TraceSummary};
