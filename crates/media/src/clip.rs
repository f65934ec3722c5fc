//! The generated clip: a talking, nodding and swaying person in front of a still background. Sensor noise is added, and
//! scenes change every ten to twelve seconds. The clip replaces the conversational footage that video-conference codecs
//! are measured with, and needs no file. It is the same on every platform: it uses only integers, IEEE operations up to
//! the square root, and its own sine.

mod background;
mod motion;
mod person;
mod random;
mod screen;
mod sensor;
mod sprite;
mod vectors;

use std::fmt;
use std::sync::OnceLock;

use lockstep_vp8::Picture;

use crate::format::VideoFormat;
use motion::Pose;
use person::{Look, Person};
use random::{hash, pair};
pub use screen::{ScreenContent, ScreenContentError};
use sensor::SensorNoise;
use sprite::Canvas;

/// Maximum number of samples in a generated picture: 4096x2304.
const MAX_SAMPLES: usize = 4096 * 2304;
/// Number of scenes in a clip. After the last, the first returns.
const SCENES: u64 = 5;
/// Mean time between cuts, nanoseconds.
const SHOT_NANOS: u64 = 11_000_000_000;
/// Range of a cut around its mean time, nanoseconds: at most half of this before or after.
const CUT_JITTER_NANOS: u64 = 1_000_000_000;

/// Error of generating a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClipError {
    /// A side is zero or above the limit of VP8, or the picture is too large.
    #[error("no clip of {width}x{height} can be generated: sides are 1 to 16383, samples at most 4096x2304")]
    Size {
        /// Requested width.
        width: usize,
        /// Requested height.
        height: usize,
    },
}

/// An endless generated clip; see the module's documentation. Pictures are available in any order. Equal format, seed
/// and index give equal samples.
///
/// A scene is painted when its first picture is requested, and kept. Each of the five scenes requires about 5 bytes per
/// sample.
pub struct GeneratedClip {
    format: VideoFormat,
    seed: u64,
    noise: SensorNoise,
    screen: Option<ScreenContent>,
    scenes: [OnceLock<Scene>; SCENES as usize],
}

/// The parts of a scene that are painted once for all its shots.
struct Scene {
    background: Canvas,
    person: Person,
}

impl GeneratedClip {
    /// A clip of this format. The seed selects people, rooms, movement and noise.
    ///
    /// # Errors
    /// If the size is not between 1x1 and 4096x2304 samples.
    pub fn new(format: VideoFormat, seed: u64) -> Result<Self, ClipError> {
        let VideoFormat { width, height, .. } = format;
        let sides = 1..=usize::from(lockstep_vp8::MAX_DIMENSION);
        if !sides.contains(&width) || !sides.contains(&height) || width * height > MAX_SAMPLES {
            return Err(ClipError::Size { width, height });
        }
        let noise = SensorNoise::new(seed, width);
        Ok(Self { format, seed, noise, screen: None, scenes: [const { OnceLock::new() }; _] })
    }

    /// A clip of a screen with this content. The seed selects the text. It repeats after an hour.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn screen(content: ScreenContent, format: VideoFormat, seed: u64) -> Result<Self, ClipError> {
        Ok(Self { screen: Some(content), ..Self::new(format, seed)? })
    }

    /// Whether the clip is that of a screen.
    #[must_use]
    pub fn is_screen(&self) -> bool {
        self.screen.is_some()
    }

    /// Size and frame rate.
    #[must_use]
    pub fn format(&self) -> VideoFormat {
        self.format
    }

    /// Seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Paints all scenes now, so that no later picture is delayed by it. Real-time calls need it.
    pub fn prepare(&self) {
        if self.is_screen() {
            return;
        }
        for scene in 0..SCENES {
            self.scene(scene);
        }
    }

    /// The picture at time [`VideoFormat::time_of`] `index`.
    #[must_use]
    pub fn picture(&self, index: u64) -> Picture {
        let nanoseconds = self.format.time_of(index).as_nanos() as u64; // saturates below 2^64
        if let Some(content) = self.screen {
            let VideoFormat { width, height, .. } = self.format;
            return screen::picture(content, width, height, self.seed, nanoseconds);
        }
        let shot = self.shot(nanoseconds);
        let number = self.scene_of(shot);
        let scene = self.scene(number);
        let mut canvas = scene.background.clone();
        let pose = Pose::at(nanoseconds as f64 * 1e-9, pair(self.seed, number));
        scene.person.draw(&mut canvas, &pose);
        self.noise.add(&mut canvas, index);
        canvas.into_picture()
    }

    /// Number of the shot at a time. Shots are numbered from zero.
    fn shot(&self, nanoseconds: u64) -> u64 {
        let near = nanoseconds / SHOT_NANOS;
        if nanoseconds >= self.cut(near + 1) {
            near + 1
        } else if near > 0 && nanoseconds < self.cut(near) {
            near - 1
        } else {
            near
        }
    }

    /// Start of a shot after the first, nanoseconds.
    fn cut(&self, shot: u64) -> u64 {
        let jitter = pair(self.seed ^ 0xc075, shot) % CUT_JITTER_NANOS;
        shot.saturating_mul(SHOT_NANOS).saturating_add(jitter).saturating_sub(CUT_JITTER_NANOS / 2)
    }

    /// The scene of a shot. Scenes take turns with a start and a step from the seed, so neighbours always differ.
    fn scene_of(&self, shot: u64) -> u64 {
        let (first, step) = (hash(self.seed) % SCENES, 1 + hash(self.seed ^ 0x57e9) % (SCENES - 1));
        (first + shot % SCENES * step) % SCENES
    }

    fn scene(&self, number: u64) -> &Scene {
        self.scenes[number as usize].get_or_init(|| {
            let VideoFormat { width, height, .. } = self.format;
            let seed = pair(self.seed ^ 0x5ce4e, number);
            let look = Look::new(number, seed);
            Scene {
                background: background::paint(width, height, number, seed),
                person: Person::paint(width, height, &look, seed),
            }
        })
    }
}

impl fmt::Debug for GeneratedClip {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "GeneratedClip({}, seed {})", self.format, self.seed)
    }
}
