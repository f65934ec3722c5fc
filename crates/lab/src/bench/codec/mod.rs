//! `lockstep bench codec`: compares this codec with the system's libvpx over several clips, interleaved in one run on
//! one core.

mod coder;
mod drift;
mod measures;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use lockstep_libvpx::{Effort, Library};
use lockstep_runner::output_file::{self, write_json};
use lockstep_runner::progress::Progress;
use lockstep_vp8::{Parameters, Preset};

use super::clip::{Clip, all_named, named};
use super::{core_seconds, median};
use crate::journal::Journal;
use crate::sweep::Contents;
use coder::Coder;
use drift::Motion;
use measures::Curve;
use report::{BenchReport, ClipReport, EncoderReport, aims};

/// Arguments of `lockstep bench codec`.
#[derive(Args)]
pub(super) struct CodecArguments {
    /// A clip with an optional name: `generated`, a y4m file, or any input of ffmpeg; `bunny=FILE`. Repeatable.
    #[arg(long = "clip", value_name = "[NAME=]CLIP", default_value = "generated")]
    clips: Vec<String>,
    /// Maximum number of pictures per clip.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=3000))]
    pictures: u32,
    /// Rounds; the median time counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Write the numbers to this file as JSON. A journal next to it (`FILE.journal`) keeps measurements, so that an
    /// interrupted run resumes. Changed clips, programs and settings are measured again.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Measure everything again.
    #[arg(long)]
    fresh: bool,
}

/// Quantizer indices of the points of a curve, by set: `coarse` as in calls, `fine` near noise. All match indices of
/// libvpx's scale of 0 to 63.
const SETS: [(&str, [u8; 5]); 2] = [("coarse", [15, 29, 51, 82, 106]), ("fine", [4, 7, 9, 12, 15])];
/// Quantizer index of the speed comparison: the middle of the first set.
const SPEED_INDEX: u8 = 51;
/// Quantizers of the decoded streams.
const DECODE_INDICES: [u8; 3] = [15, 51, 106];

const REAL_TIME: Coder = Coder::Ours(Preset::RealTime);
const QUALITY: Coder = Coder::Ours(Preset::Quality);
const RT_4: Coder = Coder::Libvpx(Effort::RealTime(4));
const RT_8: Coder = Coder::Libvpx(Effort::RealTime(-8));
const GOOD_0: Coder = Coder::Libvpx(Effort::Good(0));
/// Our encoders, each with those that it is compared with.
const COMPARED: [(Coder, &[Coder]); 2] = [(REAL_TIME, &[RT_4, RT_8, GOOD_0]), (QUALITY, &[RT_4, GOOD_0])];

/// State of a run: the library, the names of both programs, and earlier measurements.
struct Bench {
    library: Option<Library>,
    program: String,
    libvpx: String,
    rounds: usize,
    journal: Journal,
    progress: Progress,
    done: u64,
}

impl Bench {
    fn coders(&self) -> Vec<Coder> {
        let libvpx = [RT_4, RT_8, GOOD_0].into_iter().filter(|_| self.library.is_some());
        [REAL_TIME, QUALITY].into_iter().chain(libvpx).collect()
    }

    /// Steps per clip: points of each encoder, speeds, decoded streams, menus, fits and drifts.
    fn steps_a_clip(&self) -> u64 {
        let points = self.coders().len() * SETS.iter().map(|(_, points)| points.len()).sum::<usize>();
        (points + 1 + DECODE_INDICES.len() + 2 + drift::MOTIONS.len() * drift::INDICES.len()) as u64
    }

    /// Runs one step. A step of libvpx alone is not repeated after a change of this program.
    fn step<T: Serialize + DeserializeOwned>(
        &mut self,
        clip: &Clip,
        what: &str,
        by: &[Coder],
        measure: impl FnOnce(Option<&Library>) -> Result<T>,
    ) -> Result<T> {
        self.progress.update(self.done, &format!("{}: {what}", clip.name));
        self.done += 1;
        let ours = by.iter().any(|coder| matches!(coder, Coder::Ours(_))).then_some(self.program.as_str());
        let theirs = by.iter().any(|coder| matches!(coder, Coder::Libvpx(_))).then_some(self.libvpx.as_str());
        let key = format!("{} {} {} {what}", clip.content, ours.unwrap_or("-"), theirs.unwrap_or("-"));
        let library = self.library.as_ref();
        self.journal.measured(&key, || measure(library))
    }

    fn clip(&mut self, typed: &str, most: usize) -> Result<ClipReport> {
        let clip = Clip::open(typed, most)?;
        let (coders, rounds) = (self.coders(), self.rounds);
        let mut curves = vec![BTreeMap::new(); coders.len()];
        for (set, points) in SETS {
            for (coder, curves) in coders.iter().zip(&mut curves) {
                let mut curve = Curve::default();
                for index in points {
                    let what = format!("{} at {index}", coder.name());
                    let point = self.step(&clip, &what, &[*coder], |library| {
                        measures::curve_point(&clip, *coder, library, index)
                    })?;
                    curve.add(index, &point);
                }
                curves.insert(set, curve);
            }
        }
        let what = format!("speeds, {rounds} rounds");
        let seconds =
            self.step(&clip, &what, &coders, |library| measures::speeds(&clip, &coders, library, SPEED_INDEX, rounds))?;
        let encoders: Vec<EncoderReport> = coders
            .iter()
            .zip(curves)
            .zip(seconds)
            .map(|((coder, curves), seconds)| {
                let frames_per_second = clip.pictures.len() as f64 / median(&seconds);
                EncoderReport { name: coder.name(), curves, seconds, frames_per_second }
            })
            .collect();
        let of = |coder: &Coder| encoders.iter().find(|encoder| encoder.name == coder.name());
        let pairs =
            COMPARED.iter().flat_map(|(ours, anchors)| anchors.iter().map(move |anchor| (of(ours), of(anchor))));
        let comparisons = pairs.filter_map(|(ours, anchor)| Some(ours?.compare(anchor?))).collect();

        let both = [REAL_TIME, RT_4];
        let mut decoding = Vec::new();
        for index in DECODE_INDICES {
            let what = format!("decoding at {index}, {rounds} rounds");
            decoding.push(
                self.step(&clip, &what, &both, |library| measures::decoding(&clip, REAL_TIME, library, index, rounds))?,
            );
        }
        let parameters = Parameters { quantizer: SPEED_INDEX, ..Parameters::default() };
        let what = format!("menus, {rounds} rounds");
        let menus = self.step(&clip, &what, &[REAL_TIME], |_| Ok(measures::menus(&clip, &parameters, rounds)))?;
        let fits = self.step(&clip, "frames made to fit", &[REAL_TIME], |_| Ok(measures::fits(&clip, &parameters)))?;
        let drift = self.drift(&clip)?;
        Ok(ClipReport {
            name: clip.name.clone(),
            clip: named(typed).1,
            width: clip.format.width,
            height: clip.format.height,
            pictures: clip.pictures.len(),
            encoders,
            comparisons,
            decoding,
            menus,
            fits,
            drift,
        })
    }

    fn drift(&mut self, clip: &Clip) -> Result<Vec<drift::Drift>> {
        let mut all = Vec::new();
        for motion in drift::MOTIONS {
            let moving = drift::moving(&clip.pictures[0], clip.format, motion);
            for index in drift::INDICES {
                let Some(moving) = &moving else {
                    self.done += 1;
                    continue;
                };
                let name = match motion {
                    Motion::Still => "a still",
                    Motion::Pan => "a pan",
                    Motion::Zoom => "a zoom",
                };
                let coders = (REAL_TIME, RT_4);
                all.push(self.step(clip, &format!("{name} at {index}"), &[coders.0, coders.1], |library| {
                    drift::measure(moving, motion, index, coders, library)
                })?);
            }
        }
        Ok(all)
    }
}

/// `lockstep bench codec`.
pub(super) fn run(arguments: &CodecArguments) -> Result<()> {
    let clips = all_named(&arguments.clips)?;
    let inputs: Vec<&Path> = clips.iter().map(|(_, clip)| Path::new(clip)).collect();
    output_file::check(&[("--json", arguments.json.as_deref())], &inputs)?;
    let journal = Journal::of_output(arguments.json.as_deref(), arguments.fresh)?;
    let library = match Library::open() {
        Ok(library) => Some(library),
        Err(error) => {
            eprint_line!("lockstep: warning: {error}; only our own codec is measured");
            None
        }
    };
    let mut bench = Bench {
        program: Contents::default().of_file(&std::env::current_exe()?)?,
        libvpx: library.as_ref().map_or_else(|| "without".to_owned(), Library::version),
        library,
        rounds: arguments.rounds as usize,
        journal,
        progress: Progress::new("bench codec", 1),
        done: 0,
    };
    bench.progress = Progress::new("bench codec", bench.steps_a_clip() * clips.len() as u64);
    let mut reports = Vec::new();
    for typed in &arguments.clips {
        reports.push(bench.clip(typed, arguments.pictures as usize)?);
    }
    bench.progress.finish();
    let report = BenchReport {
        lockstep: env!("CARGO_PKG_VERSION"),
        libvpx: bench.library.as_ref().map(Library::version),
        clock: if core_seconds().is_some() { "core" } else { "wall" },
        pictures: arguments.pictures,
        rounds: arguments.rounds,
        aims: aims(&reports),
        clips: reports,
    };
    report::print(&report);
    if let Some(path) = &arguments.json {
        write_json(path, &report)?;
        print_line!("\nnumbers in {}", path.display());
    }
    Ok(())
}
