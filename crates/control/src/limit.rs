//! Limits: each one narrows the budget that a controller allows, by observations of the path or the value of bits.
//!
//! ```text
//! Controller::allowance --> delivered --> silence --> short queue --> ceiling --> narrow path --> sound --> messages
//!                       --> parity --> encoder
//! ```
//!
//! A limit is a small value behind one function of the [`PathView`] and the [`Budget`] so far. [`narrow`] applies a list
//! of them in order and reports which one is binding.

mod ceiling;
mod delivered;
mod short_queue;
mod silence;

use lockstep_units::{Bitrate, ByteCount};

pub use ceiling::{Ceiling, bitrate_ceiling};
pub use delivered::Delivered;
pub use short_queue::ShortQueueLimit;
pub use silence::SilenceLimit;

use crate::{Allowance, Gross, InFlight, PathView};

/// Budget of the next frame after some limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Data in flight, without the bytes that wait behind cross traffic.
    pub in_flight: InFlight,
    /// Bytes for which the frame is coded.
    pub frame: Gross,
    /// Largest frame that may be sent if it exceeds `frame`. It ignores the ceiling: a picture is not skipped because
    /// more bits would not improve it.
    pub affordable: Gross,
    /// Bit rate for a codec that follows a target.
    pub target: Bitrate,
}

impl Budget {
    /// The budget of the controller's allowance with `in_flight` data.
    #[must_use]
    pub fn of(allowance: &Allowance, in_flight: InFlight) -> Self {
        let bytes = in_flight.bytes.saturating_sub(allowance.behind_cross_traffic);
        let in_flight = InFlight { bytes, ..in_flight };
        let bytes = Gross(allowance.budget);
        Self { in_flight, frame: bytes, affordable: bytes, target: allowance.target }
    }

    /// The budget, reduced to at most `most` bytes.
    #[must_use]
    pub fn capped(self, most: ByteCount) -> Self {
        Self { frame: self.frame.min(Gross(most)), affordable: self.affordable.min(Gross(most)), ..self }
    }

    /// The budget, reduced by `taken` bytes.
    #[must_use]
    pub fn less(self, taken: ByteCount) -> Self {
        let less = |bytes: Gross| Gross(bytes.0.saturating_sub(taken));
        Self { frame: less(self.frame), affordable: less(self.affordable), ..self }
    }
}

/// Limit that binds a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The controller's estimate of the path.
    LinkEstimate,
    /// Earlier frames that are still in flight: the controller would allow more without them.
    Deadline,
    /// The recent delivery rate of the path.
    Delivered,
    /// An outage: packets were sent, but no feedback arrived.
    Silence,
    /// A bottleneck queue that is shorter than a frame.
    ShortQueue,
    /// The maximum bit rate, set or derived from the picture size.
    Ceiling,
    /// A path so narrow that sound has priority.
    NarrowPath,
    /// The share that sound uses.
    Sound,
    /// The share that the application's messages use.
    Messages,
    /// The share that parity uses.
    Parity,
    /// The encoder's coarsest quantizer: no smaller frame exists.
    CoarsestQuantizer,
    /// The encoder's finest useful quantizer: the frame has full quality and is smaller than its budget.
    FinestQuantizer,
}

impl LimitedBy {
    /// All values, in the order of the pipeline.
    pub const ALL: [Self; 12] = [
        Self::LinkEstimate,
        Self::Deadline,
        Self::Delivered,
        Self::Silence,
        Self::ShortQueue,
        Self::Ceiling,
        Self::NarrowPath,
        Self::Sound,
        Self::Messages,
        Self::Parity,
        Self::CoarsestQuantizer,
        Self::FinestQuantizer,
    ];

    /// Name in logs and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LinkEstimate => "link_estimate",
            Self::Deadline => "deadline",
            Self::Delivered => "delivered",
            Self::Silence => "silence",
            Self::ShortQueue => "short_queue",
            Self::Ceiling => "ceiling",
            Self::NarrowPath => "narrow_path",
            Self::Sound => "sound",
            Self::Messages => "messages",
            Self::Parity => "parity",
            Self::CoarsestQuantizer => "coarsest_quantizer",
            Self::FinestQuantizer => "finest_quantizer",
        }
    }
}

/// Step that narrows a budget.
pub trait Limit {
    /// Name of the limit in the log of a frame.
    fn kind(&self) -> LimitedBy;
    /// The narrowed budget on this path. Never more than `budget`.
    fn limit(&self, path: &PathView<'_>, budget: Budget) -> Budget;
}

/// Applies `limits` in order. Returns the narrowed budget and the binding limit; none if no limit cuts the budget.
///
/// The last limit that cut the frame is binding. Sound, messages and parity take a share of every frame. They are
/// binding only if they take more than half of the remaining budget.
#[must_use]
pub fn narrow<'a>(
    path: &PathView<'_>,
    budget: Budget,
    limits: impl IntoIterator<Item = &'a dyn Limit>,
) -> (Budget, Option<LimitedBy>) {
    limits.into_iter().fold((budget, None), |(before, binding), limit| {
        let after = limit.limit(path, before);
        let kind = limit.kind();
        (after, if is_binding(kind, before.frame.0, after.frame.0) { Some(kind) } else { binding })
    })
}

/// Whether a limit that leaves `after` of `before` bytes is binding.
#[must_use]
pub fn is_binding(kind: LimitedBy, before: ByteCount, after: ByteCount) -> bool {
    let is_share = matches!(kind, LimitedBy::Sound | LimitedBy::Messages | LimitedBy::Parity);
    if is_share { 2 * after.get() < before.get() } else { after < before }
}
