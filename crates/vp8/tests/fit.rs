//! Frames that fit a budget: never larger, seldom much smaller, and decodable by any VP8 decoder.

mod clips;

use std::borrow::Cow;

use clips::{CONTENTS, Content, picture, psnr};
use lockstep_vp8::{
    Analysis, Effort, Encoded, Fitting, FrameKind, Parameters, Picture, State, decode, encode, encode_to_fit,
};
use proptest::prelude::*;

/// Encodes to fit, and asserts that decoding gives the encoder's picture and state.
fn checked(state: &State, picture: &Picture, budget: usize, parameters: &Parameters) -> Encoded {
    let encoded = encode_to_fit(state, picture, budget, parameters);
    let (decoded_state, decoded) = decode(state, &encoded.frame).unwrap();
    assert!(decoded == encoded.picture(), "different picture at {budget} bytes");
    assert_eq!(decoded_state.id(), encoded.state.id(), "different state at {budget} bytes");
    encoded
}

fn bytes(bits_a_sample: f64, width: usize, height: usize) -> usize {
    (bits_a_sample * (width * height) as f64 / 8.0) as usize
}

#[test]
fn frames_fill_their_budgets_and_never_exceed_them() {
    let (width, height) = (320, 192);
    let mut all = Vec::new();
    for content in CONTENTS {
        // Noise cannot be coded smaller. A static picture soon needs no more bits.
        let rates: &[f64] = match content {
            Content::Noise => &[1.5, 2.5],
            Content::Static => &[0.3],
            // Half of its frames do not fit into less.
            Content::Patches => &[0.15, 0.6],
            _ => &[0.04, 0.15, 0.6],
        };
        for &rate in rates {
            let budget = bytes(rate, width, height);
            let mut state = State::default();
            let mut fills = Vec::new();
            for index in 0..6 {
                let picture = picture(content, width, height, index, 11);
                let encoded = checked(&state, &picture, budget, &Parameters::default());
                if encoded.frame.len() > budget {
                    let coarsest = encode(&state, &picture, &Parameters { quantizer: 127, ..Parameters::default() });
                    assert!(coarsest.frame.len() > budget, "{content:?} {budget}: {}", encoded.frame.len());
                } else {
                    fills.push(encoded.frame.len() as f64 / budget as f64);
                }
                state = encoded.state;
            }
            fills.sort_by(f64::total_cmp);
            eprintln!("{content:?} at {budget} bytes: {fills:.3?}");
            assert!(fills[fills.len() / 2] >= 0.9, "{content:?} at {budget} bytes: {fills:?}");
            all.extend(fills);
        }
    }
    all.sort_by(f64::total_cmp);
    assert!(all[all.len() / 2] >= 0.94 && all[all.len() / 10] >= 0.88, "{all:?}");
}

/// Mean number of passes until a budget of 97 % of the size with `parameters` is filled. Budgets below `least` bytes do
/// not count.
fn mean_passes(parameters: &Parameters, least: usize) -> f64 {
    let mut counts = Vec::new();
    for content in CONTENTS {
        let mut state = State::default();
        for index in 0..8 {
            let picture = picture(content, 320, 192, index, 7);
            let plain = encode(&state, &picture, parameters);
            let analysis = Analysis::new(&state, &picture, parameters);
            let (mut fitting, budget) = (Fitting::new(Cow::Borrowed(&analysis), None), plain.frame.len() * 97 / 100);
            let passes = (1..6).find(|_| {
                let _ = fitting.pass(budget);
                fitting.is_filled(budget)
            });
            if budget >= least {
                counts.push(passes.unwrap_or(6));
            }
            state = plain.state;
        }
    }
    eprintln!("{:?}: {counts:?}", parameters.effort);
    counts.iter().sum::<usize>() as f64 / counts.len() as f64
}

#[test]
fn most_pictures_fit_after_two_passes() {
    let mean = mean_passes(&Parameters { quantizer: 60, ..Parameters::default() }, 0);
    assert!(mean <= 2.1, "{mean} passes");
}

#[test]
fn trellis_needs_hardly_more_passes() {
    for (effort, most) in [(Effort::new(1), 2.35), (Effort::QUALITY, 2.2)] {
        // Most of a smaller frame is modes and vectors.
        let mean = mean_passes(&Parameters { quantizer: 20, effort, ..Parameters::default() }, 150);
        assert!(mean <= most, "{effort:?}: {mean} passes");
    }
}

#[test]
fn generous_budget_leads_to_the_finest_quantizer() {
    let clip: Vec<Picture> = (0..2).map(|index| picture(Content::Pan, 64, 48, index, 1)).collect();
    let key = checked(&State::default(), &clip[0], 1 << 20, &Parameters::default());
    assert_eq!((key.quantizer, key.key_frame), (0, true));
    let next = checked(&key.state, &clip[1], 1 << 20, &Parameters::default());
    assert_eq!((next.quantizer, next.key_frame), (0, false));
}

#[test]
fn impossible_budget_leads_to_at_most_the_coarsest_size() {
    for content in [Content::Camera, Content::Noise] {
        let picture = picture(content, 96, 80, 0, 1);
        let encoded = checked(&State::default(), &picture, 10, &Parameters::default());
        let coarsest = encode(&State::default(), &picture, &Parameters { quantizer: 127, ..Parameters::default() });
        assert!(encoded.frame.len() <= coarsest.frame.len());
    }
}

#[test]
fn static_picture_is_refined_until_frames_are_nearly_empty() {
    let picture = picture(Content::Static, 320, 192, 0, 3);
    let mut encoded = checked(&State::default(), &picture, 2_000, &Parameters::default());
    for index in 0..60 {
        let before = psnr(&picture, &encoded.picture());
        encoded = checked(&encoded.state, &picture, 2_000, &Parameters::default());
        let after = psnr(&picture, &encoded.picture());
        assert!(after > before - 0.05, "frame {index}: {before} dB, then {after} dB");
    }
    let psnr = psnr(&picture, &encoded.picture());
    assert!(psnr > 48.0, "{psnr} dB");
    assert!(encoded.frame.len() < 200, "{} bytes", encoded.frame.len());
}

#[test]
fn budget_can_change_between_passes() {
    let clip: Vec<Picture> = (0..2).map(|index| picture(Content::Camera, 320, 192, index, 4)).collect();
    let first = encode(&State::default(), &clip[0], &Parameters { quantizer: 30, ..Parameters::default() });
    let analysis = Analysis::new(&first.state, &clip[1], &Parameters::default());
    for changed in [1_500, 2_500, 4_500] {
        let mut fitting = Fitting::new(Cow::Borrowed(&analysis), None);
        for budget in [3_000, changed] {
            assert!(!fitting.is_filled(budget));
            for _ in 0..4 {
                let encoded = fitting.pass(budget);
                assert_eq!(decode(&first.state, &encoded.frame).unwrap().0.id(), encoded.state.id());
                if fitting.is_filled(budget) {
                    break;
                }
            }
            assert!(fitting.is_filled(budget), "{budget} of 3000 and {changed}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_frame_exceeds_a_feasible_budget(
        content in prop::sample::select(CONTENTS.to_vec()),
        (width, height) in (1usize..120, 1usize..120),
        seed in 0u64..1000,
        quality in any::<bool>(),
        key in any::<bool>(),
        before in 0u8..128,
        budgets in prop::collection::vec(0.002f64..3.0, 1..5),
    ) {
        let effort = if quality { Effort::QUALITY } else { Effort::REAL_TIME };
        let frame_kind = if key { FrameKind::Key } else { FrameKind::Auto };
        let first = picture(content, width, height, 0, seed);
        let mut state =
            encode(&State::default(), &first, &Parameters { quantizer: before, ..Parameters::default() }).state;
        for (index, rate) in budgets.into_iter().enumerate() {
            let picture = picture(content, width, height, index + 1, seed);
            let budget = bytes(rate * rate / 3.0, width, height);
            let parameters = Parameters { effort, frame_kind, ..Parameters::default() };
            let encoded = checked(&state, &picture, budget, &parameters);
            if encoded.frame.len() > budget {
                let coarsest = encode(&state, &picture, &Parameters { quantizer: 127, ..parameters.clone() });
                prop_assert!(coarsest.frame.len() > budget, "{} in {budget}", encoded.frame.len());
                prop_assert!(encoded.frame.len() <= coarsest.frame.len());
            }
            state = encoded.state;
        }
    }
}
