//! Properties of the generated clip that codecs and studies rely on.

use lockstep_media::{FrameRate, GeneratedClip, VideoFormat, psnr, ssim};
use lockstep_vp8::Picture;
use proptest::prelude::*;
use twox_hash::XxHash3_64;

fn clip(width: usize, height: usize, seed: u64) -> GeneratedClip {
    GeneratedClip::new(VideoFormat { width, height, frame_rate: FrameRate::default() }, seed).unwrap()
}

fn fingerprint(picture: &Picture) -> u64 {
    XxHash3_64::oneshot(&picture.to_i420())
}

/// An unintended failure means that the clip depends on the platform or on the order of access. An intended change of
/// the clip invalidates every stored score of a study on it.
#[test]
fn the_clip_is_the_same_on_every_platform() {
    let small = clip(322, 181, 7);
    let large = clip(1280, 720, 0);
    let fingerprints: Vec<u64> = [0, 1, 100, 450, 1000, 1400]
        .map(|index| fingerprint(&small.picture(index)))
        .into_iter()
        .chain([0, 29, 987_654_321_012].map(|index| fingerprint(&large.picture(index))))
        .collect();
    let expected = [
        12975896570182179858,
        4297085187207222121,
        7580096148036750173,
        15618451179989410090,
        7142081825129630275,
        657335765080991903,
        6627238820820792427,
        9553096422520814455,
        7482815995724659271,
    ];
    assert_eq!(fingerprints, expected);
}

#[test]
fn picture_does_not_depend_on_earlier_requests() {
    let forwards = clip(160, 90, 3);
    let there: Vec<Picture> = (0..900).step_by(50).map(|index| forwards.picture(index)).collect();
    let backwards = clip(160, 90, 3);
    for (index, picture) in (0..900).step_by(50).zip(&there).collect::<Vec<_>>().into_iter().rev() {
        assert_eq!(&backwards.picture(index), picture, "picture {index}");
    }
}

#[test]
fn different_seeds_give_different_clips() {
    assert!(psnr(&clip(160, 90, 1).picture(0), &clip(160, 90, 2).picture(0)).unwrap() < 25.0);
}

#[test]
fn neighbouring_pictures_differ_little() {
    let clip = clip(640, 360, 1);
    for index in 0..60 {
        let between = psnr(&clip.picture(index), &clip.picture(index + 1)).unwrap();
        assert!((26.0..42.0).contains(&between), "{index}: {between} dB");
    }
}

#[test]
fn the_person_moves_and_the_room_does_not() {
    let clip = clip(640, 360, 0);
    let column = |x: usize| {
        let mean = |index| {
            let picture = clip.picture(index);
            picture.luma().rows().map(|row| f64::from(row[x])).collect::<Vec<_>>()
        };
        let (early, late) = (mean(3), mean(200));
        early.iter().zip(&late).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / early.len() as f64
    };
    let room = column(20);
    assert!((2.0..16.0).contains(&room), "noise of two pictures: {room}");
    assert!(column(320) > 3.0 * room);
}

#[test]
fn the_scene_is_cut_every_ten_to_twelve_seconds() {
    for seed in 0..3 {
        let clip = clip(96, 54, seed);
        let pictures: Vec<Picture> = (0..1800).map(|index| clip.picture(index)).collect();
        let cuts: Vec<usize> =
            (1..1800).filter(|&index| ssim(&pictures[index - 1], &pictures[index]).unwrap() < 0.6).collect();
        assert_eq!(cuts.len(), 5, "{cuts:?}");
        for (from, to) in cuts.iter().zip(&cuts[1..]) {
            assert!((300..=360).contains(&(to - from)), "{cuts:?}");
        }
    }
}

#[test]
fn movement_does_not_depend_on_the_frame_rate() {
    let format = |rate| VideoFormat { width: 160, height: 90, frame_rate: FrameRate::new(rate, 1).unwrap() };
    let (slow, fast) = (
        GeneratedClip::new(format(15), 4).unwrap().picture(45),
        GeneratedClip::new(format(60), 4).unwrap().picture(180),
    );
    assert!(psnr(&slow, &fast).unwrap() > 36.0, "only the noise differs");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_size_rate_and_index_has_a_picture(
        width in 1..90_usize, height in 1..90_usize, rate in 1..u32::MAX, scale in 1..u32::MAX, index: u64, seed: u64,
    ) {
        // [`FrameRate::new`] refuses more than 1,000 pictures per second.
        let frame_rate = FrameRate::new(rate.min(scale.saturating_mul(1_000)), scale).unwrap();
        let format = VideoFormat { width, height, frame_rate };
        let picture = GeneratedClip::new(format, seed).unwrap().picture(index);
        prop_assert_eq!((picture.width(), picture.height()), (width, height));
    }
}

#[test]
fn extreme_sizes_work_and_impossible_ones_are_refused() {
    for (width, height) in [(16_383, 1), (1, 16_383), (16_383, 16), (3, 5000)] {
        assert_eq!(clip(width, height, 0).picture(5).width(), width);
    }
    for (width, height) in [(0, 4), (4, 0), (16_384, 1), (4097, 2304)] {
        let format = VideoFormat { width, height, frame_rate: FrameRate::default() };
        assert!(GeneratedClip::new(format, 0).is_err(), "{width}x{height}");
    }
}
