//! Pictures do not fade: what is shown again and again at one quantizer stays as good as it was in the first frame, or
//! nearly, though it stands still, moves by fractions of a sample, or grows.

mod clips;

use clips::{Content, picture, psnr};
use lockstep_vp8::{Parameters, Picture, Preset, State, encode};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many pictures are shown.
const PICTURES: usize = 60;
/// dB by which a photograph may be worse in the end than at first. Frames that are predicted cost least where they are
/// coded a little coarser than the first: finer rounding, a smaller weight of bits or fewer residuals left out would hold
/// the first frame's quality here, at more bits for the same quality on these clips as on natural ones.
const ALLOWED: f64 = 0.5;

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
fn a_photograph_that_pans_slowly_or_grows_does_not_fade() {
    for path in photographs() {
        let Some(photograph) = photograph(&path) else {
            eprintln!("note: ffmpeg gives no picture of {}: not checked", path.display());
            continue;
        };
        for (name, movement) in MOVEMENTS {
            let clip: Vec<Picture> = (0..PICTURES).map(|index| moved(&photograph, &movement, index)).collect();
            insist_that_it_stays(&format!("{}, {name}", path.display()), &clip, ALLOWED, Preset::RealTime);
        }
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
/// Samples that the photograph is wider and higher than the clip.
const ROOM: (usize, usize) = (64, 48);

/// How a camera moves over a photograph: luma samples to the right and down with each picture, and by what factor a
/// sample's side shrinks, about the middle.
struct Movement {
    right: f64,
    down: f64,
    growth: f64,
}

const MOVEMENTS: [(&str, Movement); 3] = [
    ("to the right", Movement { right: 0.3, down: 0.0, growth: 1.0 }),
    ("aslant", Movement { right: 0.7, down: 0.4, growth: 1.0 }),
    ("nearer", Movement { right: 0.0, down: 0.0, growth: 0.998 }),
];

/// The picture that a clip shows after a second, made small: that leaves no noise.
fn photograph(clip: &Path) -> Option<Picture> {
    let (width, height) = (WIDTH + ROOM.0, HEIGHT + ROOM.1);
    let size = format!("scale={width}:{height}:flags=area");
    let arguments = ["-frames:v", "1", "-pix_fmt", "yuv420p", "-f", "rawvideo", "-"];
    let run = Command::new("ffmpeg")
        .args(["-v", "error", "-ss", "1", "-i"])
        .arg(clip)
        .args(["-vf", &size])
        .args(arguments)
        .output()
        .ok()?;
    Picture::from_i420(width, height, run.stdout).ok()
}

/// What the camera sees of a photograph when it has moved `index` times, by Catmull and Rom's cubic.
fn moved(photograph: &Picture, movement: &Movement, index: usize) -> Picture {
    let shrunk = movement.growth.powi(index as i32);
    let mut samples = Vec::with_capacity(Picture::i420_length(WIDTH, HEIGHT));
    for (plane, subsampling) in photograph.planes().iter().zip([1, 2, 2]) {
        // Panning begins in the corner, growing in the middle.
        let taps = |length: usize, room: usize, speed: f64| -> Vec<Taps> {
            let (length, room) = (length / subsampling, (room / subsampling) as f64);
            let start = if movement.growth == 1.0 { 0.0 } else { room / 2.0 };
            let middle = (length - 1) as f64 / 2.0;
            let shift = start + middle + speed * index as f64 / subsampling as f64;
            (0..length).map(|at| Taps::new((at as f64 - middle) * shrunk + shift)).collect()
        };
        let (across, along) = (taps(WIDTH, ROOM.0, movement.right), taps(HEIGHT, ROOM.1, movement.down));
        let rows: Vec<Vec<f64>> = plane
            .rows()
            .map(|row| across.iter().map(|taps| taps.of(row.len(), |at| f64::from(row[at]))).collect())
            .collect();
        for taps in &along {
            samples.extend(
                (0..across.len()).map(|x| taps.of(rows.len(), |at| rows[at][x]).round().clamp(0.0, 255.0) as u8),
            );
        }
    }
    Picture::from_i420(WIDTH, HEIGHT, samples).unwrap()
}

/// The four samples around a place between samples, and their weights.
struct Taps {
    first: isize,
    weights: [f64; 4],
}

impl Taps {
    fn new(place: f64) -> Self {
        let t = place - place.floor();
        let weights = [
            ((2.0 - t) * t - 1.0) * t / 2.0,
            ((3.0 * t - 5.0) * t * t + 2.0) / 2.0,
            ((4.0 - 3.0 * t) * t + 1.0) * t / 2.0,
            (t - 1.0) * t * t / 2.0,
        ];
        Self { first: place.floor() as isize - 1, weights }
    }

    /// The weighted sum of `samples`, of which there are `length`; those outside are those at the edge.
    fn of(&self, length: usize, samples: impl Fn(usize) -> f64) -> f64 {
        let at = |tap: usize| (self.first + tap as isize).clamp(0, length as isize - 1) as usize;
        self.weights.iter().enumerate().map(|(tap, weight)| weight * samples(at(tap))).sum()
    }
}
