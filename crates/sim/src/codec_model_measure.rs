//! What the real codec makes of a clip, as far as a [`ClipModel`](crate::ClipModel) is fitted to it.

use std::borrow::Cow;
use std::time::Duration;

use lockstep_call::{FINEST_USEFUL_QUANTIZER, mean, quantile};
use lockstep_media::{QualityError, ssim, ssim_db};
use lockstep_vp8::{Analysis, Encoded, Fitting, FrameKind, MAXIMUM_QUANTIZER, Parameters, Picture, State};

use crate::codec_model::FOLLOWER_POINTS;

/// Where the curves are measured: close together where VP8's steps are small (RFC 6386, section 14.1), closest where the
/// noise of cameras begins to be coded, and sizes grow tenfold within a few indices.
pub(crate) const MEASURED: [u8; 18] = [0, 2, 4, 5, 6, 7, 8, 10, 13, 18, 26, 36, 48, 60, 76, 94, 112, MAXIMUM_QUANTIZER];
/// Quality is measured, and a key frame made, of every such picture.
const QUALITY_INTERVAL: usize = 4;
const KEY_INTERVAL: usize = 12;
/// The state after every such picture is kept to find out what references do.
const STATE_INTERVAL: usize = 20;
/// What is followed from then on by frames of [`FOLLOWER_POINTS`].
const REFERENCES: [u8; 12] = [4, 8, 13, 18, 26, 36, 48, 60, 76, 94, 112, MAXIMUM_QUANTIZER];
/// After every so-manieth of those a series of frames is coded, and sizes and qualities of these are compared.
const CHAINED: usize = 3;
const CHAIN: [usize; 3] = [4, 8, 16];
/// Pictures so many later are coded from one state, at its own quantizer.
const GAPS: [usize; 3] = [2, 4, 8];
/// The quantizer at which scene cuts are looked for.
const MIDDLE: u8 = 48;
/// Frames are made to fit what these quantizers give.
const FITTED: [u8; 3] = [26, 48, 76];
/// How far off the right quantizer the first pass of a frame is that is made to fit, in turn.
const MISSES: [i16; 6] = [-12, 8, -5, 12, -8, 5];
/// A budget can be met by pictures that need no more than this share of it at the coarsest quantizer.
const REACHABLE: f64 = 0.7;
/// No more pictures than this are made to fit for each budget.
const MOST_FITTED: usize = 60;

/// A frame begins a new scene if it takes at least this share of what a key frame does, and so many times what half of the
/// frames and both of its neighbours take: hardly anything is predicted then, though the encoder may code it as an inter
/// frame. What is as hard to predict for several pictures is motion.
const CUT_SHARE: f64 = 0.5;
const CUT_RISE: f64 = 4.0;

/// Frames of one quantizer, by picture.
#[derive(Debug)]
pub(crate) struct Run {
    /// Natural logarithm of an inter frame's size.
    pub(crate) inter: Vec<Option<f64>>,
    /// Of a key frame's size.
    pub(crate) key: Vec<Option<f64>>,
    /// SSIM, dB.
    pub(crate) ssim_db: Vec<Option<f64>>,
}

/// A frame whose reference is of another quantizer than usual.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Followed {
    pub(crate) picture: usize,
    /// The frame's quantizer.
    pub(crate) quantizer: u8,
    /// How many frames before it had its quantizer, too.
    pub(crate) before: usize,
    /// The quantizer of the reference of the first of them less theirs.
    pub(crate) difference: f64,
    /// ln(size) less that of a frame after references of its own quantizer only.
    pub(crate) size: f64,
    /// SSIM, likewise, dB.
    pub(crate) ssim_db: f64,
}

/// A frame whose reference shows a picture of longer ago than the one before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) picture: usize,
    pub(crate) quantizer: u8,
    /// Logarithm of the reference's age, pictures.
    pub(crate) age: f64,
    /// ln(size) less that of a frame whose reference is the picture before.
    pub(crate) size: f64,
}

/// A frame finer than a series of frames before it, and coarser than what these followed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Returned {
    pub(crate) picture: usize,
    pub(crate) quantizer: u8,
    /// The quantizer of the series less the frame's.
    pub(crate) difference: f64,
    /// The quantizer of what came before the series less the frame's.
    pub(crate) kept: f64,
    /// ln(size) less that of a frame after a reference of its own quantizer.
    pub(crate) size: f64,
}

/// Pictures that follow each other.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) pictures: usize,
    /// By [`MEASURED`].
    pub(crate) runs: Vec<Run>,
    /// Pictures at which the scene changes.
    pub(crate) cuts: Vec<usize>,
    /// Those pictures, at each quantizer: ln(size) over that of a key frame, where they were coded as inter frames.
    pub(crate) cut_sizes: Vec<(usize, Option<f64>)>,
    pub(crate) followed: Vec<Followed>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) returned: Vec<Returned>,
    /// Picture, and size over budget of the second and of later passes.
    pub(crate) fills: [Vec<(usize, f64)>; 2],
}

/// What the real codec makes of a clip.
#[derive(Debug)]
pub struct ClipMeasurements {
    pub(crate) name: String,
    /// Luma samples of a picture.
    pub(crate) samples: f64,
    pub(crate) frame_interval: Duration,
    pub(crate) segments: Vec<Segment>,
}

fn logarithm(encoded: &Encoded) -> f64 {
    libm::log(encoded.frame.len() as f64)
}

fn quality(picture: &Picture, encoded: &Encoded) -> Result<f64, QualityError> {
    Ok(ssim_db(ssim(picture, &encoded.picture())?))
}

/// The states that are kept of one run.
type Kept = Vec<(usize, State)>;

fn run(pictures: &[Picture], quantizer: u8, cuts: &mut Vec<usize>) -> Result<(Run, Kept), QualityError> {
    let mut state = State::default();
    let count = pictures.len();
    let mut run = Run { inter: vec![None; count], key: vec![None; count], ssim_db: vec![None; count] };
    let mut kept = Vec::new();
    for (index, picture) in pictures.iter().enumerate() {
        let encoded = Analysis::new(&state, picture, &Parameters::default()).encode(quantizer);
        if encoded.key_frame {
            run.key[index] = Some(logarithm(&encoded));
            if index > 0 && quantizer == MIDDLE {
                cuts.push(index);
            }
        } else {
            run.inter[index] = Some(logarithm(&encoded));
            if index % KEY_INTERVAL == 0 {
                let parameters = Parameters { frame_kind: FrameKind::Key, ..Parameters::default() };
                let key = Analysis::new(&State::default(), picture, &parameters).encode(quantizer);
                run.key[index] = Some(logarithm(&key));
            }
            // What follows a kept state is compared with frames of this run.
            if index % QUALITY_INTERVAL == 0 || index % STATE_INTERVAL == 1 {
                run.ssim_db[index] = Some(quality(picture, &encoded)?);
            }
        }
        if index % STATE_INTERVAL == 0 && REFERENCES.contains(&quantizer) {
            kept.push((index, encoded.state.clone()));
        }
        state = encoded.state;
    }
    Ok((run, kept))
}

impl Segment {
    fn new(pictures: &[Picture], mut progress: impl FnMut(f64)) -> Result<Self, QualityError> {
        let mut segment = Self {
            pictures: pictures.len(),
            runs: Vec::new(),
            cuts: Vec::new(),
            cut_sizes: Vec::new(),
            followed: Vec::new(),
            gaps: Vec::new(),
            returned: Vec::new(),
            fills: Default::default(),
        };
        let mut states = Vec::new();
        for (done, quantizer) in MEASURED.into_iter().enumerate() {
            let (run, kept) = run(pictures, quantizer, &mut segment.cuts)?;
            segment.runs.push(run);
            states.push(kept);
            progress((done + 1) as f64 / 16.0);
        }
        segment.set_cuts_apart();
        segment.follow(pictures, &states)?;
        progress(14.0 / 16.0);
        for quantizer in FITTED {
            segment.fit(pictures, quantizer);
        }
        progress(1.0);
        Ok(segment)
    }

    /// Finds the pictures that begin a scene without being key frames, and takes them out of the inter frames.
    fn set_cuts_apart(&mut self) {
        let found: Vec<usize> = self.run(MIDDLE).map_or_else(Vec::new, |run| {
            let mut sizes: Vec<f64> = run.inter.iter().flatten().copied().collect();
            sizes.sort_unstable_by(f64::total_cmp);
            let (Some(key), Some(usual)) = (mean(run.key.iter().flatten()), quantile(&sizes, 0.5)) else {
                return Vec::new();
            };
            let least = (key + libm::log(CUT_SHARE)).max(usual + libm::log(CUT_RISE));
            let size = |index: usize| run.inter.get(index).copied().flatten();
            let rises =
                |size_here: f64, other: Option<f64>| other.is_none_or(|other| size_here > other + CUT_RISE.ln());
            let begins = |&index: &usize| {
                index > 0
                    && size(index).is_some_and(|here| {
                        here > least && rises(here, size(index - 1)) && rises(here, size(index + 1))
                    })
            };
            (0..run.inter.len()).filter(begins).collect()
        });
        self.cuts.extend(found);
        for run in &mut self.runs {
            let Some(key) = mean(run.key.iter().flatten()) else { continue };
            for &index in &self.cuts {
                self.cut_sizes.push((index, run.inter[index].take().map(|size| size - key)));
                run.ssim_db[index] = None;
            }
        }
    }

    /// The run of one of [`MEASURED`].
    pub(crate) fn run(&self, quantizer: u8) -> Option<&Run> {
        self.runs.get(MEASURED.iter().position(|&measured| measured == quantizer)?)
    }

    /// Codes pictures from the states of other runs, and from those of earlier pictures.
    fn follow(&mut self, pictures: &[Picture], states: &[Kept]) -> Result<(), QualityError> {
        let (mut followed, mut gaps, mut returned) = (Vec::new(), Vec::new(), Vec::new());
        for (&reference, kept) in MEASURED.iter().zip(states) {
            for (index, state) in kept {
                let next = index + 1;
                let Some(picture) = pictures.get(next) else { continue };
                let analysis = Analysis::new(state, picture, &Parameters::default());
                for quantizer in FOLLOWER_POINTS.into_iter().filter(|_| !analysis.key_frame()) {
                    let Some(run) = self.run(quantizer) else { continue };
                    let (Some(size), Some(ssim_db)) = (run.inter[next], run.ssim_db[next]) else { continue };
                    let encoded = analysis.encode(quantizer);
                    let difference = f64::from(reference) - f64::from(quantizer);
                    followed.push(Followed {
                        picture: next,
                        quantizer,
                        before: 0,
                        difference,
                        size: logarithm(&encoded) - size,
                        ssim_db: quality(picture, &encoded)? - ssim_db,
                    });
                    let chained = FOLLOWER_POINTS.contains(&reference) && reference != quantizer;
                    if chained && index % (CHAINED * STATE_INTERVAL) == 0 {
                        let (chain, back) = self.chain(pictures, *index, encoded.state, difference, quantizer)?;
                        followed.extend(chain);
                        returned.extend(back);
                    }
                }
                for gap in GAPS.into_iter().filter(|_| FOLLOWER_POINTS.contains(&reference)) {
                    let later = index + gap;
                    let usual = self.run(reference).and_then(|run| *run.inter.get(later)?);
                    let (Some(picture), Some(usual)) = (pictures.get(later), usual) else { continue };
                    let analysis = Analysis::new(state, picture, &Parameters::default());
                    if !analysis.key_frame() {
                        let size = logarithm(&analysis.encode(reference)) - usual;
                        gaps.push(Gap { picture: later, quantizer: reference, age: libm::log(gap as f64), size });
                    }
                }
            }
        }
        (self.followed, self.gaps, self.returned) = (followed, gaps, returned);
        Ok(())
    }

    /// Codes what follows the second picture after `index`, which led to `state`, at its quantizer; and, where the frames
    /// are coarser than what they follow, single ones in between at finer quantizers.
    fn chain(
        &self,
        pictures: &[Picture],
        index: usize,
        mut state: State,
        difference: f64,
        quantizer: u8,
    ) -> Result<(Vec<Followed>, Vec<Returned>), QualityError> {
        let (mut followed, mut returned) = (Vec::new(), Vec::new());
        let Some(run) = self.run(quantizer) else { return Ok((followed, returned)) };
        let within = |other: &u8| f64::from(*other) > f64::from(quantizer) + difference && *other < quantizer;
        for (later, picture) in pictures.iter().enumerate().skip(index + 2).take(CHAIN[CHAIN.len() - 1] - 1) {
            let analysis = Analysis::new(&state, picture, &Parameters::default());
            let encoded = analysis.encode(quantizer);
            // A new scene ends it.
            let Some(size) = run.inter[later].filter(|_| !encoded.key_frame) else { break };
            if later - index == CHAIN[1] {
                for finer in FOLLOWER_POINTS.into_iter().filter(within) {
                    let Some(usual) = self.run(finer).and_then(|run| run.inter[later]) else { continue };
                    returned.push(Returned {
                        picture: later,
                        quantizer: finer,
                        difference: f64::from(quantizer) - f64::from(finer),
                        kept: f64::from(quantizer) + difference - f64::from(finer),
                        size: logarithm(&analysis.encode(finer)) - usual,
                    });
                }
            }
            if let (true, Some(ssim_db)) = (CHAIN.contains(&(later - index)), run.ssim_db[later]) {
                followed.push(Followed {
                    picture: later,
                    quantizer,
                    before: later - index - 1,
                    difference,
                    size: logarithm(&encoded) - size,
                    ssim_db: quality(picture, &encoded)? - ssim_db,
                });
            }
            state = encoded.state;
        }
        Ok((followed, returned))
    }

    /// Makes frames fit budgets that are what they take at `quantizer`.
    fn fit(&mut self, pictures: &[Picture], quantizer: u8) {
        let Some(run) = self.run(quantizer) else { return };
        let Some(middle) = mean(run.inter.iter().flatten()) else { return };
        let budget = libm::exp(middle) as usize;
        // Where hardly the coarsest quantizer fits the budget, a pass says nothing of how well it is aimed.
        let coarsest = self.run(MAXIMUM_QUANTIZER).map_or_else(Vec::new, |run| run.inter.clone());
        let reachable = |index: usize| {
            let least = coarsest.get(index).copied().flatten();
            least.is_some_and(|least| libm::exp(least) < REACHABLE * budget as f64)
        };
        let mut fills: [Vec<(usize, f64)>; 2] = Default::default();
        let mut state = State::default();
        for (index, picture) in pictures.iter().take(MOST_FITTED).enumerate() {
            let analysis = Analysis::new(&state, picture, &Parameters::default());
            if analysis.key_frame() {
                state = analysis.encode(quantizer).state;
                continue;
            }
            let first = (i16::from(quantizer) + MISSES[index % MISSES.len()]).clamp(4, 127) as u8;
            let mut fitting = Fitting::new(Cow::Owned(analysis), Some(first));
            let mut encoded = fitting.pass(budget);
            for pass in 0..3 {
                if fitting.is_filled(budget) {
                    break;
                }
                encoded = fitting.pass(budget);
                // At the ends of the scale a budget cannot be filled, or not be kept.
                let between = (FINEST_USEFUL_QUANTIZER + 1..MAXIMUM_QUANTIZER).contains(&encoded.quantizer);
                if between && reachable(index) {
                    fills[pass.min(1)].push((index, encoded.frame.len() as f64 / budget as f64));
                }
            }
            state = encoded.state;
        }
        for (all, new) in self.fills.iter_mut().zip(fills) {
            all.extend(new);
        }
    }
}

impl ClipMeasurements {
    /// Codes the pictures of `segments`, which are taken every `frame_interval` and follow each other within a segment, at
    /// many quantizers. Takes minutes for a few hundred pictures; `progress` hears the share that is done.
    ///
    /// # Errors
    /// If the pictures are too small to measure their quality.
    ///
    /// # Panics
    /// If there are no pictures.
    pub fn new(
        name: &str,
        segments: &[Vec<Picture>],
        frame_interval: Duration,
        mut progress: impl FnMut(f64),
    ) -> Result<Self, QualityError> {
        let first = segments.first().and_then(|segment| segment.first()).expect("a clip has pictures");
        let samples = (first.width() * first.height()) as f64;
        let count = segments.len() as f64;
        let mut measured = Vec::new();
        for (done, pictures) in segments.iter().enumerate() {
            measured.push(Segment::new(pictures, |share| progress((done as f64 + share) / count))?);
        }
        Ok(Self { name: name.to_owned(), samples, frame_interval, segments: measured })
    }
}
