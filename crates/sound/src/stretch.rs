//! Time stretching: plays sound faster or slower at the same pitch. It removes or repeats one period where neighbouring
//! periods are alike (WSOLA: Verhelst and Roelands, ICASSP 1993). NetEq of WebRTC uses the same principle.

/// Range of periods in samples: 2.5 to 15 ms, or 400 to 67 Hz, the pitch of human voices.
const MIN_PERIOD: usize = 120;
const MAX_PERIOD: usize = 720;
/// Length over which neighbours are compared and crossfaded, samples: 5 ms.
const OVERLAP: usize = 240;
/// Step of the coarse search, samples. A fine search follows around the best period. Voices have little energy above 6
/// kHz.
const STEP: usize = 4;
/// Minimum normalised correlation of the neighbours (threshold of NetEq).
const MIN_CORRELATION: f64 = 0.9;
/// Mean square below which sound is inaudible: -60 dB of full scale. Any two inaudible periods are alike.
const INAUDIBLE: f64 = 32.0 * 32.0;

fn correlation(left: &[i16], right: &[i16]) -> f64 {
    let (mut product, mut left_energy, mut right_energy) = (0.0, 0.0, 0.0);
    for (&a, &b) in left.iter().zip(right) {
        let (a, b) = (f64::from(a), f64::from(b));
        product += a * b;
        left_energy += a * a;
        right_energy += b * b;
    }
    let audible = INAUDIBLE * left.len() as f64;
    if left_energy < audible && right_energy < audible {
        return 1.0;
    }
    product / (left_energy * right_energy).sqrt().max(1.0)
}

/// The period with the highest correlation in `samples`, if it is high enough.
fn period(samples: &[i16]) -> Option<usize> {
    let longest = MAX_PERIOD.min(samples.len().checked_sub(OVERLAP)?);
    let alike = |lag: usize| correlation(&samples[..OVERLAP], &samples[lag..lag + OVERLAP]);
    let best = |lags: &mut dyn Iterator<Item = usize>| {
        lags.map(|lag| (lag, alike(lag))).max_by(|(_, a), (_, b)| a.total_cmp(b))
    };
    let (coarse, _) = best(&mut (MIN_PERIOD..=longest).step_by(STEP))?;
    let around = coarse.saturating_sub(STEP - 1).max(MIN_PERIOD)..=(coarse + STEP - 1).min(longest);
    let (lag, alike) = best(&mut around.clone())?;
    (alike >= MIN_CORRELATION).then_some(lag)
}

fn crossfade<'a>(out: &'a [i16], into: &'a [i16]) -> impl Iterator<Item = i16> + 'a {
    let length = out.len() as i32;
    out.iter()
        .zip(into)
        .zip(0..)
        .map(move |((&out, &into), at)| ((i32::from(out) * (length - at) + i32::from(into) * at) / length) as i16)
}

/// Removes one period from `samples`, which last about 20 ms. None if the cut would be audible.
#[must_use]
pub fn shorten(samples: &[i16]) -> Option<Vec<i16>> {
    let period = period(samples)?;
    let mut shorter: Vec<i16> = crossfade(&samples[..OVERLAP], &samples[period..period + OVERLAP]).collect();
    shorter.extend_from_slice(&samples[period + OVERLAP..]);
    Some(shorter)
}

/// Repeats one period of `samples`, which last about 20 ms. None if the repetition would be audible.
#[must_use]
pub fn lengthen(samples: &[i16]) -> Option<Vec<i16>> {
    let period = period(samples)?;
    let mut longer = samples[..period].to_vec();
    longer.extend(crossfade(&samples[period..period + OVERLAP], &samples[..OVERLAP]));
    longer.extend_from_slice(&samples[OVERLAP..]);
    Some(longer)
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::{FRAME_SAMPLES, SAMPLE_RATE};

    fn sine(hertz: f64) -> Vec<i16> {
        let step = std::f64::consts::TAU * hertz / f64::from(SAMPLE_RATE);
        (0..FRAME_SAMPLES).map(|at| (8_000.0 * (step * at as f64).sin()) as i16).collect()
    }

    /// The largest step between neighbouring samples. An audible cut would raise it.
    fn roughness(samples: &[i16]) -> i32 {
        samples.windows(2).map(|pair| (i32::from(pair[1]) - i32::from(pair[0])).abs()).max().unwrap()
    }

    #[test]
    fn voice_changes_by_whole_periods_without_a_click() {
        for hertz in [80.0, 137.0, 210.0, 390.0] {
            let samples = sine(hertz);
            let period = f64::from(SAMPLE_RATE) / hertz;
            for changed in [shorten(&samples).unwrap(), lengthen(&samples).unwrap()] {
                let periods = (changed.len() as f64 - samples.len() as f64).abs() / period;
                assert!(periods > 0.5 && (periods - periods.round()).abs() < 0.1, "{hertz} Hz: {periods} periods");
                assert!(roughness(&changed) <= roughness(&samples) * 11 / 10, "{hertz} Hz");
            }
        }
    }

    #[test]
    fn noise_is_not_stretched_and_silence_is() {
        let mut random = rand_pcg::Pcg32::seed_from_u64(1);
        let noise: Vec<i16> = (0..FRAME_SAMPLES).map(|_| random.random_range(-8_000..8_000)).collect();
        assert_eq!((shorten(&noise), lengthen(&noise)), (None, None));
        assert!(shorten(&[0; FRAME_SAMPLES]).unwrap().len() < FRAME_SAMPLES);
        assert!(lengthen(&[3; FRAME_SAMPLES]).unwrap().len() > FRAME_SAMPLES);
    }

    #[test]
    fn less_than_a_frame_is_not_stretched() {
        for length in [0, 1, OVERLAP, OVERLAP + MIN_PERIOD - 1] {
            assert_eq!(shorten(&vec![0; length]), None);
        }
    }
}
