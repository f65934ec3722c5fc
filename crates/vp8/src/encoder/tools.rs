//! Effort levels of the encoder, and the fixed set of tools of each.

/// Effort level: a fixed set of coding tools. A higher level takes more time and fewer bits. Frames of every level decode
/// in any VP8 decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Effort(u8);

impl Effort {
    /// The fastest level and the default: modes are pruned by SATD, and loop filter levels are tried on a few rows.
    pub const REAL_TIME: Self = Self(0);
    /// The slowest level.
    ///
    /// It codes more candidates completely and tries split mode down to 4x4 wherever there is a residual. Quantized
    /// levels are chosen by a trellis. Errors are weighted by activity.
    pub const QUALITY: Self = Self(LEVELS.len() as u8 - 1);

    /// The level with this number; a larger one counts as [`Effort::QUALITY`].
    #[must_use]
    pub const fn new(level: u8) -> Self {
        if level < Self::QUALITY.0 { Self(level) } else { Self::QUALITY }
    }

    /// All levels, the fastest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..=Self::QUALITY.0).map(Self)
    }

    /// Number of the level, from 0.
    #[must_use]
    pub const fn level(self) -> u8 {
        self.0
    }

    /// Time of a picture relative to [`Effort::REAL_TIME`], from 1, in the mean of several clips.
    #[must_use]
    pub const fn relative_time(self) -> f64 {
        RELATIVE_TIMES[self.0 as usize]
    }

    /// Whether a trellis chooses levels. Frames of equal quantizers are then smaller and have more error.
    #[must_use]
    pub const fn has_trellis(self) -> bool {
        LEVELS[self.0 as usize].trellis
    }
}

/// The tools of one effort level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tools {
    /// Largest number of steps of a search in the last frame.
    pub(super) search_steps: usize,
    /// SAD below which no search runs. A limit above 300 would also skip motion by a quarter of a sample. Such areas
    /// would lag behind more with every frame.
    pub(super) still_sad: u32,
    /// Whether the search compares fractional positions by SATD.
    pub(super) refines_by_satd: bool,
    /// Whether golden and altref are searched wherever there is a residual. Otherwise, they serve only areas that the
    /// last frame hides.
    pub(super) searches_references: bool,
    /// SATD in steps from which on the cheapest vector is refined by SATD. Below it, there is seldom anything to code.
    pub(super) nudged_steps: u32,
    /// SATD in steps below which a vector with an empty residual is final.
    pub(super) good_steps: u32,
    /// Number of the cheapest vectors that are coded. With one, a second is coded only if there is a residual. In
    /// addition, the first must be a new vector, or intra prediction would follow.
    pub(super) candidates: usize,
    /// Whether split mode is tried wherever there is a residual.
    pub(super) splits: bool,
    /// Whether split mode has partitions smaller than the searched quarters, and halves of differing quarters.
    pub(super) small_splits: bool,
    /// Number of modes per intra subblock that are coded completely before one is chosen.
    pub(super) subblock_survivors: usize,
    /// Whether intra prediction is tried although it looks slightly worse than the best vector.
    pub(super) doubtful_intra: bool,
    /// Whether a trellis chooses levels.
    pub(super) trellis: bool,
    /// Whether errors are weighted by activity.
    pub(super) activity: bool,
    /// Whether loop filter levels are tried on a third of the frame.
    pub(super) filter_trials: bool,
}

impl Tools {
    /// The tools of a level.
    pub(super) fn of(effort: Effort) -> Self {
        LEVELS[usize::from(effort.0)]
    }
}

/// Tools of the levels, the fastest first. Each level adds the tools that save most bits for their time.
/// `lab: 2026-11-effort`.
const LEVELS: [Tools; 10] = {
    let mut levels = [Tools {
        search_steps: 4,
        still_sad: 300,
        refines_by_satd: false,
        searches_references: false,
        nudged_steps: 24,
        good_steps: 30,
        candidates: 1,
        splits: false,
        small_splits: false,
        subblock_survivors: 1,
        doubtful_intra: false,
        trellis: false,
        activity: false,
        filter_trials: false,
    }; 10];
    levels[1] = Tools { trellis: true, ..levels[0] };
    levels[2] = Tools { subblock_survivors: 2, ..levels[1] };
    levels[3] = Tools { activity: true, ..levels[2] };
    levels[4] = Tools { nudged_steps: 6, refines_by_satd: true, ..levels[3] };
    levels[5] = Tools { splits: true, ..levels[4] };
    levels[6] = Tools { small_splits: true, ..levels[5] };
    levels[7] = Tools { candidates: 2, filter_trials: true, ..levels[6] };
    levels[8] = Tools { searches_references: true, doubtful_intra: true, ..levels[7] };
    levels[9] = Tools { search_steps: 16, still_sad: 100, good_steps: 10, candidates: 3, ..levels[8] };
    levels
};

/// Time of each level relative to the first one. `lab: 2026-11-effort`.
const RELATIVE_TIMES: [f64; LEVELS.len()] = [1.0, 1.25, 1.3, 1.35, 1.4, 1.5, 2.1, 2.2, 2.6, 3.2];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_levels_take_rising_times() {
        let levels: Vec<Effort> = Effort::all().collect();
        assert_eq!(levels.first(), Some(&Effort::REAL_TIME));
        assert_eq!(levels.last(), Some(&Effort::QUALITY));
        assert!((Effort::REAL_TIME.relative_time() - 1.0).abs() < 1e-9);
        assert!(levels.windows(2).all(|pair| pair[0].relative_time() < pair[1].relative_time()));
        assert_eq!(Effort::new(200), Effort::QUALITY);
    }
}
