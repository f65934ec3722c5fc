//! Encoder interface of a call: requests, candidates, menus and jobs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_control::FailureReason;
use lockstep_transport::{Recovery, StateId};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use lockstep_vp8::Effort;

use crate::codec::{Candidate, Codec, CodecTraits, Vp8};
use crate::screen::SharpBudget;
use crate::size_curve::SizeEstimate;

/// Work of a job on a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EncodeWork {
    /// Analyses the picture and codes it once, like a conventional codec.
    OneFrame,
    /// Analyses the picture and codes the first pass towards a budget.
    FirstPass,
    /// Codes one more pass, closer to the budget.
    LaterPass,
    /// Analyses the picture and codes two candidates in sequence.
    SerialMenu,
    /// Analyses the picture and codes two candidates in parallel.
    ParallelMenu,
}

/// Runs the candidates of one menu. The serial runner codes them in sequence. A driver with threads may use several
/// cores.
pub trait MenuRunner<C: Codec = Vp8> {
    /// One candidate for each of `quantizers`, in order.
    fn run(&self, analysis: &C::Analysis, quantizers: &[u8]) -> Vec<Candidate<C>>;
}

/// Runner that codes candidates in sequence on the calling thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct SerialMenu;

impl<C: Codec> MenuRunner<C> for SerialMenu {
    fn run(&self, analysis: &C::Analysis, quantizers: &[u8]) -> Vec<Candidate<C>> {
        quantizers.iter().map(|&quantizer| C::encode(analysis, quantizer)).collect()
    }
}

/// Candidates of one picture.
#[derive(Debug)]
pub struct Menu<C: Codec = Vp8> {
    /// Candidates in the order of their coding.
    pub candidates: Vec<Candidate<C>>,
    /// Input of another pass, if the encoder codes pass by pass.
    pub(crate) fitting: Option<C::Fitting>,
    /// Expected size of the first candidate before coding.
    pub(crate) estimate: Option<SizeEstimate>,
}

impl<C: Codec> Menu<C> {
    /// A complete menu of `candidates`.
    #[must_use]
    pub fn new(candidates: Vec<Candidate<C>>) -> Self {
        Self::of(candidates, None)
    }

    /// A menu of `candidates` with the expected size of the first one.
    pub(crate) fn of(candidates: Vec<Candidate<C>>, estimate: Option<SizeEstimate>) -> Self {
        Self { candidates, fitting: None, estimate }
    }

    /// The largest candidate within `budget`.
    #[must_use]
    pub fn largest_within(&self, budget: ByteCount) -> Option<usize> {
        let fitting = (0..self.candidates.len()).filter(|&index| self.candidates[index].size() <= budget);
        fitting.max_by_key(|&index| self.candidates[index].size())
    }

    /// Completes the candidate that `budget` would choose, which computes its state id. This runs in the coding job, so
    /// that the committing end does not wait. If another candidate is chosen, its work is done then.
    #[must_use]
    pub(crate) fn ready_for(self, budget: ByteCount) -> Self {
        if let Some(likely) = self.largest_within(budget) {
            C::name(&self.candidates[likely].state);
        }
        self
    }

    /// The smallest candidate.
    #[must_use]
    pub fn smallest(&self) -> Option<usize> {
        (0..self.candidates.len()).min_by_key(|&index| self.candidates[index].size())
    }
}

type MenuWork<C> = dyn FnOnce(&dyn MenuRunner<C>) -> Menu<C> + Send;

/// Job that makes a menu. It may run on another thread than the call.
pub struct EncodeJob<C: Codec = Vp8> {
    work: Box<MenuWork<C>>,
    kind: EncodeWork,
    effort: Effort,
}

impl<C: Codec> EncodeJob<C> {
    /// A job of kind `kind` that runs `work`.
    pub fn new(kind: EncodeWork, work: impl FnOnce(&dyn MenuRunner<C>) -> Menu<C> + Send + 'static) -> Self {
        Self { work: Box::new(work), kind, effort: Effort::default() }
    }

    /// Kind of its work. Drivers in virtual time use it to look up the duration (`lockstep_sim::JobTimes`).
    #[must_use]
    pub fn kind(&self) -> EncodeWork {
        self.kind
    }

    /// Effort level of the picture.
    #[must_use]
    pub fn effort(&self) -> Effort {
        self.effort
    }

    pub(crate) fn with_effort(self, effort: Effort) -> Self {
        Self { effort, ..self }
    }

    /// Codes the menu.
    #[must_use]
    pub fn run(self, runner: &dyn MenuRunner<C>) -> Menu<C> {
        (self.work)(runner)
    }
}

/// Request for a frame.
#[derive(Debug, Clone, Copy)]
pub struct FrameRequest<'a, C: Codec = Vp8> {
    /// Start of the coding.
    pub now: Timestamp,
    /// The picture.
    pub picture: &'a C::Picture,
    /// Source state that the transport proposes: the last one sent while it may arrive, else one that the receiver
    /// holds, else [`StateId::EMPTY`].
    pub source: StateId,
    /// Budget of the frame, bytes.
    pub budget: ByteCount,
    /// Budget of a frame with sharp text; none unless the picture shows a screen.
    pub sharp: Option<SharpBudget>,
    /// Mean bit rate of frames: the controller's target minus headers and retransmissions.
    pub target: Bitrate,
    /// Time in which the pacer's queue leaves at the present pace.
    pub pacer_delay: Duration,
    /// Bytes in the pacer.
    pub queued: ByteCount,
    /// Effort level of the encoder.
    pub effort: Effort,
    /// Whether the picture may be skipped in favour of the next. False if a rate must be kept.
    pub may_wait: bool,
}

impl<'a, C: Codec> FrameRequest<'a, C> {
    /// A request for a codec that follows a bit rate, with an empty pacer: no budget, no skipped pictures,
    /// and the fastest level.
    #[must_use]
    pub fn at_rate(now: Timestamp, picture: &'a C::Picture, source: StateId, target: Bitrate) -> Self {
        Self {
            now,
            picture,
            source,
            budget: ByteCount::ZERO,
            sharp: None,
            target,
            pacer_delay: Duration::ZERO,
            queued: ByteCount::ZERO,
            effort: Effort::default(),
            may_wait: false,
        }
    }
}

/// Start of a frame that an encoder has accepted.
pub struct FrameStart<C: Codec = Vp8> {
    /// Source state of the frame: the proposed one, or [`StateId::EMPTY`].
    pub source: StateId,
    /// Job that codes the frame.
    pub job: EncodeJob<C>,
}

/// Encoder of a sending end: it offers candidates, chooses one, and commits to the one that is sent.
pub trait FrameEncoder<C: Codec = Vp8>: Send {
    /// The codec of its frames.
    fn codec(&self) -> CodecTraits;
    /// The transport's reaction to a loss. With [`Recovery::FromHeldState`], frames should be likely to arrive
    /// complete. At high loss they are coded from states that the receiver holds.
    fn recovery(&self) -> Recovery;
    /// Checks whether coding failed.
    ///
    /// # Errors
    /// The reason, once.
    fn check(&self) -> Result<(), FailureReason> {
        Ok(())
    }
    /// The job that codes the picture; none if the encoder skips it.
    fn begin(&mut self, request: &FrameRequest<'_, C>) -> Option<FrameStart<C>>;
    /// The candidate to send, now that `budget` bytes are free; none to send nothing. With `anyway` the smallest one is
    /// sent even if the budget holds none.
    fn choose(&self, menu: &Menu<C>, budget: ByteCount, anyway: bool) -> Option<usize>;
    /// A job that adds a better candidate to the menu, now that `budget` bytes are free. Most encoders offer complete
    /// menus.
    ///
    /// # Errors
    /// The menu, if it is complete.
    fn refine(&mut self, menu: Menu<C>, budget: ByteCount) -> Result<EncodeJob<C>, Menu<C>> {
        let _ = budget;
        Err(menu)
    }
    /// Takes the finished menu; `choice` is the sent candidate, if any. Returns that candidate and its target state.
    fn commit(&mut self, menu: Menu<C>, choice: Option<usize>) -> Option<(StateId, Candidate<C>)>;
    /// Releases a state: no frame will be coded from it.
    fn forget(&mut self, state: StateId);
    /// Number of states held.
    fn held_states(&self) -> usize;
    /// The bit rate that the encoder aims at; none if it is that of each request.
    fn target(&self) -> Option<Bitrate> {
        None
    }
}
