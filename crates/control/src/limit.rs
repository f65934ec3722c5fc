//! Limits: each narrows the budget that a controller allows, by what the path showed or by what pictures gain.
//!
//! ```text
//! Controller::allowance --> delivered --> silence --> short queue --> ceiling --> narrow path --> sound --> parity --> encoder
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

/// What the next frame may have, after some limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// What is in flight, without the bytes that wait behind cross traffic.
    pub in_flight: InFlight,
    /// Bytes that the frame is coded for.
    pub frame: Gross,
    /// Bytes that a frame which came out larger may have: without the ceiling. A picture is not skipped because more bits
    /// would not improve it.
    pub affordable: Gross,
    /// Bit rate for a codec that follows one.
    pub target: Bitrate,
}

impl Budget {
    /// The controller's allowance, with `in_flight` under way.
    #[must_use]
    pub fn of(allowance: &Allowance, in_flight: InFlight) -> Self {
        let bytes = in_flight.bytes.saturating_sub(allowance.behind_cross_traffic);
        let in_flight = InFlight { bytes, ..in_flight };
        let bytes = Gross(allowance.budget);
        Self { in_flight, frame: bytes, affordable: bytes, target: allowance.target }
    }

    /// At most `most` bytes.
    #[must_use]
    pub fn capped(self, most: ByteCount) -> Self {
        Self { frame: self.frame.min(Gross(most)), affordable: self.affordable.min(Gross(most)), ..self }
    }

    /// `taken` bytes less.
    #[must_use]
    pub fn less(self, taken: ByteCount) -> Self {
        let less = |bytes: Gross| Gross(bytes.0.saturating_sub(taken));
        Self { frame: less(self.frame), affordable: less(self.affordable), ..self }
    }
}

/// What limits a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The controller's estimate of the path.
    LinkEstimate,
    /// Earlier frames that are still in flight: the controller would allow more without them.
    Deadline,
    /// What the path was recently observed to deliver.
    Delivered,
    /// An outage: packets were sent and no feedback came.
    Silence,
    /// A bottleneck queue that is shorter than a frame.
    ShortQueue,
    /// The maximum bit rate, set or derived from the picture size.
    Ceiling,
    /// A path so narrow that sound goes first.
    NarrowPath,
    /// The share that sound uses.
    Sound,
    /// The share that the application's messages use.
    Messages,
    /// The share that parity uses.
    Parity,
    /// The encoder's coarsest quantizer: no smaller frame exists.
    CoarsestQuantizer,
    /// The encoder's finest useful quantizer: the frame is as good as it gets, and smaller than its budget.
    FinestQuantizer,
}

impl LimitedBy {
    /// All of them, in the order of the pipeline.
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

    /// Its name in logs and tables.
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

/// Narrows a budget.
pub trait Limit {
    /// Its name, for the log of a frame.
    fn kind(&self) -> LimitedBy;
    /// The budget that is left of `budget` on this path. Never more than `budget`.
    fn limit(&self, path: &PathView<'_>, budget: Budget) -> Budget;
}

/// Applies `limits` in order: the narrowed budget, and the binding limit; none if no limit cuts the budget.
///
/// The last limit that cut the frame is binding. Sound, messages and parity take a share of every frame, so they are binding
/// only if they take more than half of the remaining budget.
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

/// Whether a limit that leaves `after` bytes of `before` is what holds the frame back.
#[must_use]
pub fn is_binding(kind: LimitedBy, before: ByteCount, after: ByteCount) -> bool {
    let is_share = matches!(kind, LimitedBy::Sound | LimitedBy::Messages | LimitedBy::Parity);
    if is_share { 2 * after.get() < before.get() } else { after < before }
}
