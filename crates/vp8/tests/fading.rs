//! Pictures do not fade: what is shown again and again at one quantizer stays as good as it was in the first frame, or
//! nearly, though it stands still, moves by fractions of a sample, or grows.

mod clips;

use clips::{Content, picture, psnr};
use lockstep_vp8::{Parameters, Picture, Preset, State, encode};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many pictures are shown.
const PICTURES: usize = 60;
/// dB by which a photograph may be worse in the end than at first: prediction between samples blurs it a little.
const ALLOWED: f64 = 0.75;

/// The luma PSNR of the first frame and the mean of the last ten.
fn first_and_last(clip: &[Picture], quantizer: u8, preset: Preset) -> (f64, f64) {
    let mut state = State::default();
    let mut qualities = Vec::new();
    for picture in clip {
        let encoded = encode(&state, picture, &Parameters { quantizer, preset, ..Parameters::default() });
        qualities.push(psnr(picture, &encoded.picture()));
        state = encoded.state;
    }
    (qualities[0], qualities[clip.len() - 10..].iter().sum::<f64>() / 10.0)
}

fn insist_that_it_stays(name: &str, clip: &[Picture], allowed: f64, preset: Preset) {
    for quantizer in [20, 51, 106] {
        let (first, last) = first_and_last(clip, quantizer, preset);
        eprintln!("{name} at {quantizer}, {preset:?}: {first:.2} dB, in the end {last:.2} dB");
        assert!(last >= first - allowed, "{name} at {quantizer}, {preset:?}: {first} dB fade to {last} dB");
    }
}

#[test]
fn a_made_picture_that_stands_still_pans_or_grows_slowly_does_not_fade() {
    for content in [Content::Static, Content::SlowPan, Content::SlowZoom] {
        let clip: Vec<Picture> = (0..PICTURES).map(|index| picture(content, 320, 176, index, 1)).collect();
        insist_that_it_stays(&format!("{content:?}"), &clip, 0.0, Preset::RealTime);
    }
}

#[test]
fn a_photograph_that_pans_slowly_does_not_fade() {
    for path in photographs() {
        let Some(photograph) = photograph(&path) else {
            eprintln!("note: ffmpeg gives no picture of {}: not checked", path.display());
            continue;
        };
        let clip: Vec<Picture> = (0..PICTURES).map(|index| panned(&photograph, 0.3 * index as f64)).collect();
        insist_that_it_stays(&path.display().to_string(), &clip, ALLOWED, Preset::RealTime);
    }
}

/// Natural clips of which a picture may be taken: one of each kind of file that is shared; none, and said so, where none is.
fn photographs() -> Vec<PathBuf> {
    let shared = std::env::var_os("LOCKSTEP_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(shared.join("clips"))
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "mp4" || extension == "mkv"));
    paths.dedup_by_key(|path| path.extension().map(ToOwned::to_owned));
    if paths.is_empty() {
        eprintln!("note: no clips in {}: not checked", shared.display());
    }
    paths
}

const WIDTH: usize = 320;
const HEIGHT: usize = 176;
/// Samples that the photograph is wider than the clip.
const ROOM: usize = 32;

/// The picture that a clip shows after a second, made small: that leaves no noise.
fn photograph(clip: &Path) -> Option<Picture> {
    let size = format!("scale={}:{HEIGHT}:flags=area", WIDTH + ROOM);
    let arguments = ["-frames:v", "1", "-pix_fmt", "yuv420p", "-f", "rawvideo", "-"];
    let run = Command::new("ffmpeg")
        .args(["-v", "error", "-ss", "1", "-i"])
        .arg(clip)
        .args(["-vf", &size])
        .args(arguments)
        .output()
        .ok()?;
    Picture::from_i420(WIDTH + ROOM, HEIGHT, run.stdout).ok()
}

/// The part of a photograph that begins `shift` samples from its left edge, by Catmull and Rom's cubic.
fn panned(photograph: &Picture, shift: f64) -> Picture {
    let mut samples = Vec::with_capacity(Picture::i420_length(WIDTH, HEIGHT));
    for (plane, (width, shift)) in
        photograph.planes().iter().zip([(WIDTH, shift), (WIDTH / 2, shift / 2.0), (WIDTH / 2, shift / 2.0)])
    {
        let (whole, t) = (shift.floor() as usize, shift.fract());
        let weights = [
            ((2.0 - t) * t - 1.0) * t / 2.0,
            ((3.0 * t - 5.0) * t * t + 2.0) / 2.0,
            ((4.0 - 3.0 * t) * t + 1.0) * t / 2.0,
            (t - 1.0) * t * t / 2.0,
        ];
        for row in plane.rows() {
            samples.extend((0..width).map(|x| {
                let value: f64 = weights
                    .iter()
                    .enumerate()
                    .map(|(tap, weight)| {
                        weight * f64::from(row[(x + whole + tap).saturating_sub(1).min(row.len() - 1)])
                    })
                    .sum();
                value.round().clamp(0.0, 255.0) as u8
            }));
        }
    }
    Picture::from_i420(WIDTH, HEIGHT, samples).unwrap()
}
