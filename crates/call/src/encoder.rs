//! The seam between a call and whatever codes its pictures.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_transport::{CodecId, Recovery, StateId};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::codec::{Candidate, Codec, Vp8};
use crate::size_curve::SizeEstimate;

/// What a job does to a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EncodeWork {
    /// Analyses it and codes it once, as a conventional codec does.
    OneFrame,
    /// Analyses it and codes it for the first time, where it is to fit a budget.
    FirstPass,
    /// Codes it once more, nearer to the budget.
    LaterPass,
    /// Analyses it and codes two candidates, one after the other.
    SerialMenu,
    /// Analyses it and codes two candidates, both at once.
    ParallelMenu,
}

/// Runs the candidates of one menu. The serial runner does so one after another; a driver that owns threads may hand in
/// one that uses several cores.
pub trait MenuRunner<C: Codec = Vp8> {
    /// One candidate for each of `quantizers`, in their order.
    fn run(&self, analysis: &C::Analysis, quantizers: &[u8]) -> Vec<Candidate<C>>;
}

/// One candidate after another, on the calling thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct SerialMenu;

impl<C: Codec> MenuRunner<C> for SerialMenu {
    fn run(&self, analysis: &C::Analysis, quantizers: &[u8]) -> Vec<Candidate<C>> {
        quantizers.iter().map(|&quantizer| C::encode(analysis, quantizer)).collect()
    }
}

/// The candidates of one picture.
#[derive(Debug)]
pub struct Menu<C: Codec = Vp8> {
    /// In the order in which they were coded.
    pub candidates: Vec<Candidate<C>>,
    /// What another candidate can be made from, where the encoder works pass by pass.
    pub(crate) fitting: Option<C::Fitting>,
    /// What was expected of its first candidate before anything was coded.
    pub(crate) estimate: Option<SizeEstimate>,
}

impl<C: Codec> Menu<C> {
    /// A menu of `candidates` that is complete.
    #[must_use]
    pub fn new(candidates: Vec<Candidate<C>>) -> Self {
        Self::of(candidates, None)
    }

    /// The same, of a picture that was expected to take what `estimate` says.
    pub(crate) fn of(candidates: Vec<Candidate<C>>, estimate: Option<SizeEstimate>) -> Self {
        Self { candidates, fitting: None, estimate }
    }

    /// The largest candidate that `budget` holds.
    #[must_use]
    pub fn largest_within(&self, budget: ByteCount) -> Option<usize> {
        let fitting = (0..self.candidates.len()).filter(|&index| self.candidates[index].size() <= budget);
        fitting.max_by_key(|&index| self.candidates[index].size())
    }

    /// Does for the candidate that `budget` would choose what a codec leaves until the state of one is asked for: in the job
    /// that coded it, for the end that commits to it waits for no pixels. Should another be chosen after all, it is done then.
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

/// Work that makes a menu; it may run on another thread than the call's.
pub struct EncodeJob<C: Codec = Vp8> {
    work: Box<MenuWork<C>>,
    kind: EncodeWork,
}

impl<C: Codec> EncodeJob<C> {
    /// A job that does `work`, which is of this kind.
    pub fn new(kind: EncodeWork, work: impl FnOnce(&dyn MenuRunner<C>) -> Menu<C> + Send + 'static) -> Self {
        Self { work: Box::new(work), kind }
    }

    /// What it does: drivers in virtual time look up how long that takes (`lockstep_sim::JobTimes`).
    #[must_use]
    pub fn kind(&self) -> EncodeWork {
        self.kind
    }

    /// Codes the menu.
    #[must_use]
    pub fn run(self, runner: &dyn MenuRunner<C>) -> Menu<C> {
        (self.work)(runner)
    }
}

/// What an encoder is told of the frame that it is asked for.
#[derive(Debug, Clone, Copy)]
pub struct FrameRequest<'a, C: Codec = Vp8> {
    /// When coding would begin.
    pub now: Timestamp,
    /// The picture.
    pub picture: &'a C::Picture,
    /// The state that the transport would have the frame coded from: the last one sent, while it may arrive, else one
    /// that the receiver holds, else [`StateId::EMPTY`].
    pub source: StateId,
    /// Bytes that the frame may have.
    pub budget: ByteCount,
    /// Bit rate that frames may have in the long run: the controller's target less what headers and retransmissions
    /// take.
    pub target: Bitrate,
    /// How long what waits in the pacer takes to leave at the present pace.
    pub pacer_delay: Duration,
    /// Bytes that wait there.
    pub queued: ByteCount,
    /// Whether the picture may be left out for the sake of the next. Not where a rate is kept come what may.
    pub may_wait: bool,
}

impl<'a, C: Codec> FrameRequest<'a, C> {
    /// What a codec is told that follows a bit rate, where nothing waits: no budget, and no picture is left out.
    #[must_use]
    pub fn at_rate(now: Timestamp, picture: &'a C::Picture, source: StateId, target: Bitrate) -> Self {
        Self {
            now,
            picture,
            source,
            budget: ByteCount::ZERO,
            target,
            pacer_delay: Duration::ZERO,
            queued: ByteCount::ZERO,
            may_wait: false,
        }
    }
}

/// A frame that an encoder has agreed to code.
pub struct FrameStart<C: Codec = Vp8> {
    /// The state that it is coded from: the one offered, or [`StateId::EMPTY`].
    pub source: StateId,
    /// What codes it.
    pub job: EncodeJob<C>,
}

/// Given a picture and what may be sent, offers candidates, chooses among them, and commits to the one that was sent.
pub trait FrameEncoder<C: Codec = Vp8>: Send {
    /// The codec of its frames, for the hello.
    fn codec(&self) -> CodecId;
    /// What the transport does about a loss. [`Recovery::FromHeldState`] also asks for frames that are likely to arrive
    /// whole, coded from states known to be held where losses are many.
    fn recovery(&self) -> Recovery;
    /// The job that codes the picture; none if the encoder drops it.
    fn begin(&mut self, request: &FrameRequest<'_, C>) -> Option<FrameStart<C>>;
    /// Which candidate is sent, now that `budget` bytes are free; none if none is. With `anyway` one is sent even if
    /// the budget holds none, as small as there is.
    fn choose(&self, menu: &Menu<C>, budget: ByteCount, anyway: bool) -> Option<usize>;
    /// A job that adds to the menu what serves the call better than what is in it, where there is such a thing: now
    /// `budget` bytes are free. Most encoders offer all that they have at once.
    ///
    /// # Errors
    /// The menu, if it is complete.
    fn refine(&mut self, menu: Menu<C>, budget: ByteCount) -> Result<EncodeJob<C>, Menu<C>> {
        let _ = budget;
        Err(menu)
    }
    /// Takes the finished menu back; `choice` is the candidate that is sent, if any. Gives that candidate and the name
    /// of the state that it leads to.
    fn commit(&mut self, menu: Menu<C>, choice: Option<usize>) -> Option<(StateId, Candidate<C>)>;
    /// No frame will be coded from this state any more.
    fn forget(&mut self, state: StateId);
    /// States held.
    fn held_states(&self) -> usize;
    /// The bit rate that it codes for; none if that is what each request says.
    fn target(&self) -> Option<Bitrate> {
        None
    }
}
