//! Measures how the real codec codes a clip. A [`ClipModel`](crate::ClipModel) is fitted to the results.

use std::borrow::Cow;
use std::time::Duration;

use lockstep_call::{FINEST_USEFUL_QUANTIZER, mean, quantile};
use lockstep_media::{QualityError, ssim, ssim_db};
use lockstep_vp8::{Analysis, Encoded, Fitting, FrameKind, MAX_QUANTIZER, Parameters, Picture, State};

use crate::codec_model::FOLLOWER_POINTS;

/// Quantizers at which curves are measured. They are dense where VP8's steps are small (RFC 6386, section 14.1). They
/// are densest where camera noise begins to be coded: sizes grow tenfold within a few indices.
pub(crate) const MEASURED: [u8; 18] = [0, 2, 4, 5, 6, 7, 8, 10, 13, 18, 26, 36, 48, 60, 76, 94, 112, MAX_QUANTIZER];
/// Interval, in pictures, at which SSIM is measured.
const QUALITY_INTERVAL: usize = 4;
/// Interval, in pictures, at which a key frame is coded.
const KEY_INTERVAL: usize = 12;
/// Interval, in pictures, at which the state is kept to measure reference effects.
const STATE_INTERVAL: usize = 20;
/// Quantizers of references from which frames of [`FOLLOWER_POINTS`] are coded.
const REFERENCES: [u8; 12] = [4, 8, 13, 18, 26, 36, 48, 60, 76, 94, 112, MAX_QUANTIZER];
/// After one kept state in this many, a series of frames is coded.
const CHAINED: usize = 3;
/// Frames after the kept state at which size and SSIM of the series are compared.
const CHAIN: [usize; 3] = [4, 8, 16];
/// Ages, in pictures, at which a picture is coded from a kept state at the state's quantizer.
const GAPS: [usize; 3] = [2, 4, 8];
/// Quantizer at which scene cuts are detected.
const MIDDLE: u8 = 48;
/// Quantizers whose mean sizes are the budgets of fitted frames.
const FITTED: [u8; 3] = [26, 48, 76];
/// Errors of the first pass's quantizer when frames are fitted to a budget, used in turn.
const MISSES: [i16; 6] = [-12, 8, -5, 12, -8, 5];
/// A picture can meet a budget if the coarsest quantizer needs at most this share of the budget.
const REACHABLE: f64 = 0.7;
/// Limit on fitted pictures per budget.
const MAX_FITTED_PICTURES: usize = 60;

/// A frame begins a scene if its size is at least this share of a key frame's. Hardly anything is predicted then,
/// although the encoder may code an interframe.
const CUT_SHARE: f64 = 0.5;
/// It must also be this many times the median and the size of both neighbours. Several pictures in a row that are hard
/// to predict are motion.
const CUT_RISE: f64 = 4.0;

/// Frames of one quantizer, by picture.
#[derive(Debug)]
pub(crate) struct Run {
    /// Natural logarithm of the interframe's size.
    pub(crate) inter: Vec<Option<f64>>,
    /// Natural logarithm of the key frame's size.
    pub(crate) key: Vec<Option<f64>>,
    /// SSIM, dB.
    pub(crate) ssim_db: Vec<Option<f64>>,
}

/// Frame whose reference was coded at another quantizer than its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Followed {
    pub(crate) picture: usize,
    /// Quantizer of the frame.
    pub(crate) quantizer: u8,
    /// Number of frames before it at the same quantizer.
    pub(crate) before: usize,
    /// Quantizer of the reference of the first of these frames, minus their quantizer.
    pub(crate) difference: f64,
    /// ln(size) minus that of a frame whose references all have its quantizer.
    pub(crate) size: f64,
    /// SSIM minus that of such a frame, dB.
    pub(crate) ssim_db: f64,
}

/// Frame whose reference is older than the previous picture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) picture: usize,
    pub(crate) quantizer: u8,
    /// Natural logarithm of the reference's age in pictures.
    pub(crate) age: f64,
    /// ln(size) minus that of a frame whose reference is the previous picture.
    pub(crate) size: f64,
}

/// Frame finer than the series of frames before it, but coarser than the reference of that series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Returned {
    pub(crate) picture: usize,
    pub(crate) quantizer: u8,
    /// Quantizer of the series minus the frame's.
    pub(crate) difference: f64,
    /// Quantizer of the reference of the series minus the frame's.
    pub(crate) kept: f64,
    /// ln(size) minus that of a frame whose reference has the frame's quantizer.
    pub(crate) size: f64,
}

/// Consecutive pictures and their measurements.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) pictures: usize,
    /// One run for each quantizer of [`MEASURED`].
    pub(crate) runs: Vec<Run>,
    /// Pictures that begin a scene.
    pub(crate) cuts: Vec<usize>,
    /// ln(size) minus that of a key frame at each scene cut and quantizer; `None` for key frames.
    pub(crate) cut_sizes: Vec<(usize, Option<f64>)>,
    pub(crate) followed: Vec<Followed>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) returned: Vec<Returned>,
    /// Picture, and fill of the second pass and of later passes.
    pub(crate) fills: [Vec<(usize, f64)>; 2],
}

/// Measurements of one clip.
#[derive(Debug)]
pub struct ClipMeasurements {
    pub(crate) name: String,
    /// Luma samples per picture.
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

/// Kept states of one run, with their pictures.
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
            // Frames after a kept state are compared with frames of this run.
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
        // One per quantizer, one for followers and one for fitted frames.
        let stages = (MEASURED.len() + 2) as f64;
        for (done, quantizer) in MEASURED.into_iter().enumerate() {
            let (run, kept) = run(pictures, quantizer, &mut segment.cuts)?;
            segment.runs.push(run);
            states.push(kept);
            progress((done + 1) as f64 / stages);
        }
        segment.remove_cuts();
        segment.follow(pictures, &states)?;
        progress((MEASURED.len() + 1) as f64 / stages);
        for quantizer in FITTED {
            segment.fit(pictures, quantizer);
        }
        progress(1.0);
        Ok(segment)
    }

    /// Detects pictures that begin a scene, and removes them from the interframes.
    fn remove_cuts(&mut self) {
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

    /// The run at one quantizer of [`MEASURED`].
    pub(crate) fn run(&self, quantizer: u8) -> Option<&Run> {
        self.runs.get(MEASURED.iter().position(|&measured| measured == quantizer)?)
    }

    /// Codes pictures from kept states of other runs and of earlier pictures.
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

    /// Codes a series at `quantizer`, from the second picture after `index`; `state` results from the first. If the
    /// series is coarser than its reference, also codes single frames at quantizers in between.
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
            // A scene cut ends the series.
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

    /// Fits frames to the mean size at `quantizer`.
    fn fit(&mut self, pictures: &[Picture], quantizer: u8) {
        let Some(run) = self.run(quantizer) else { return };
        let Some(middle) = mean(run.inter.iter().flatten()) else { return };
        let budget = libm::exp(middle) as usize;
        // If even the coarsest quantizer hardly fits the budget, the fill does not show how precise a pass is.
        let coarsest = self.run(MAX_QUANTIZER).map_or_else(Vec::new, |run| run.inter.clone());
        let reachable = |index: usize| {
            let least = coarsest.get(index).copied().flatten();
            least.is_some_and(|least| libm::exp(least) < REACHABLE * budget as f64)
        };
        let mut fills: [Vec<(usize, f64)>; 2] = Default::default();
        let mut state = State::default();
        for (index, picture) in pictures.iter().take(MAX_FITTED_PICTURES).enumerate() {
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
                // At the ends of the quantizer range, no frame may fill or keep the budget.
                let between = (FINEST_USEFUL_QUANTIZER + 1..MAX_QUANTIZER).contains(&encoded.quantizer);
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
    /// Codes the pictures of `segments` at many quantizers. The pictures of a segment are consecutive and
    /// `frame_interval` apart. A few hundred pictures take minutes. `progress` receives the completed share.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_rises_from_zero_to_one() {
        let pictures = vec![Picture::from_i420(16, 16, vec![128; 384]).unwrap(); 2];
        let mut shares = vec![0.0];
        ClipMeasurements::new("grey", &[pictures], Duration::from_millis(33), |share| shares.push(share)).unwrap();
        assert!(shares.is_sorted_by(|a, b| a < b), "{shares:?}");
        assert_eq!(shares.last(), Some(&1.0));
    }
}
