//! Pictures do not fade: repeated coding at one quantizer keeps nearly the quality of the first frame.
//!
//! The clips are static, move by fractions of a sample, or zoom.

mod clips;

use clips::{Content, picture, psnr};
use lockstep_vp8::{Effort, Parameters, Picture, State, encode};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pictures per clip.
const PICTURES: usize = 60;
/// Permitted loss of quality of a photograph from the first frame to the last ones, in dB.
///
/// Interframes cost least if they are coded a little coarser than the first frame. Finer rounding, a smaller weight of
/// bits or fewer dropped residuals would keep the first frame's quality. But they need more bits for the same quality,
/// both on these clips and on natural ones.
const ALLOWED: f64 = 0.5;

/// The luma PSNR of the first frame and the mean of the last ten, in dB.
fn first_and_last(clip: &[Picture], quantizer: u8, effort: Effort) -> (f64, f64) {
    let mut state = State::default();
    let mut qualities = Vec::new();
    for picture in clip {
        let encoded = encode(&state, picture, &Parameters { quantizer, effort, ..Parameters::default() });
        qualities.push(psnr(picture, &encoded.picture()));
        state = encoded.state;
    }
    (qualities[0], qualities[clip.len() - 10..].iter().sum::<f64>() / 10.0)
}

fn assert_quality_stays(name: &str, clip: &[Picture], allowed: f64, effort: Effort) {
    for quantizer in [20, 51, 106] {
        let (first, last) = first_and_last(clip, quantizer, effort);
        eprintln!("{name} at {quantizer}, {effort:?}: first {first:.2} dB, last {last:.2} dB");
        assert!(last >= first - allowed, "{name} at {quantizer}, {effort:?}: {first} dB fades to {last} dB");
    }
}

#[test]
fn static_or_slowly_moving_texture_does_not_fade() {
    for content in [Content::Static, Content::SlowPan, Content::SlowZoom] {
        let clip: Vec<Picture> = (0..PICTURES).map(|index| picture(content, 320, 176, index, 1)).collect();
        assert_quality_stays(&format!("{content:?}"), &clip, 0.0, Effort::REAL_TIME);
    }
}

#[test]
fn slowly_moving_photograph_does_not_fade() {
    for path in photographs() {
        let Some(photograph) = photograph(&path) else {
            eprintln!("note: skipped: ffmpeg cannot extract a picture from {}", path.display());
            continue;
        };
        for (name, movement) in MOVEMENTS {
            let clip: Vec<Picture> = (0..PICTURES).map(|index| moved(&photograph, &movement, index)).collect();
            assert_quality_stays(&format!("{}, {name}", path.display()), &clip, ALLOWED, Effort::REAL_TIME);
        }
    }
}

/// Natural clips to take a picture from: one per file extension in the shared folder. Prints a note if there are none.
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
        eprintln!("note: skipped: no clips in {}", shared.display());
    }
    paths
}

const WIDTH: usize = 320;
const HEIGHT: usize = 176;
/// How much wider and higher than the clip the photograph is, in samples.
const ROOM: (usize, usize) = (64, 48);

/// Camera motion over a photograph: luma samples to the right and down per picture, and the zoom factor per picture.
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

/// The picture at one second of a clip, scaled down, which removes noise.
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

/// The camera's view of a photograph after `index` steps, by Catmull-Rom interpolation.
fn moved(photograph: &Picture, movement: &Movement, index: usize) -> Picture {
    let shrunk = movement.growth.powi(index as i32);
    let mut samples = Vec::with_capacity(Picture::i420_length(WIDTH, HEIGHT));
    for (plane, subsampling) in photograph.planes().iter().zip([1, 2, 2]) {
        // A pan starts in the corner, a zoom in the middle.
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

/// The four samples around a fractional position, and their weights.
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

    /// The weighted sum of `length` samples. Positions outside use the sample at the edge.
    fn of(&self, length: usize, samples: impl Fn(usize) -> f64) -> f64 {
        let at = |tap: usize| (self.first + tap as isize).clamp(0, length as isize - 1) as usize;
        self.weights.iter().enumerate().map(|(tap, weight)| weight * samples(at(tap))).sum()
    }
}
