//! `lockstep bench codec`: compares this codec with the system's libvpx over several clips, interleaved in one run on
//! one core. Encoders of ffmpeg, and all effort levels, are compared on request.

mod coder;
mod drift;
mod ffmpeg;
mod hull;
mod measures;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;

use lockstep_av1::{Av1, EncoderLibrary};
use lockstep_libvpx::{Effort, Library};
use lockstep_runner::output_file::{self, write_json};
use lockstep_runner::progress::Progress;
use lockstep_vp8::Parameters;

use super::clip::{Clip, all_named, named};
use super::{core_seconds, median};
use crate::journal::Journal;
use crate::sweep::Contents;
use coder::{Coder, Libraries};
use drift::Motion;
use ffmpeg::{Family, Ffmpeg};
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
    /// Further encoders for the hull of time and bits, separated by commas. Those of other codecs run in `ffmpeg`.
    #[arg(long, value_enum, value_delimiter = ',')]
    compare: Vec<Compare>,
    /// Write the numbers to this file as JSON. A journal next to it (`FILE.journal`) keeps measurements, so that an
    /// interrupted run resumes. Changed clips, programs and settings are measured again.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Measure everything again.
    #[arg(long)]
    fresh: bool,
}

/// Encoders that are measured on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compare {
    /// All effort levels of our VP8.
    Levels,
    /// All effort levels of AV1 as calls use it: over named slots of the system's libaom, decoded by dav1d.
    Av1,
    /// libvpx's VP9.
    Vp9,
    /// libaom's AV1 with slots of its choice.
    Libaom,
    /// SVT-AV1.
    SvtAv1,
    /// x264's H.264.
    X264,
    /// All of these.
    All,
}

impl Compare {
    fn includes(self, family: Family) -> bool {
        match self {
            Self::Levels | Self::Av1 => false,
            Self::Vp9 => family == Family::Vp9,
            Self::Libaom => family == Family::Libaom,
            Self::SvtAv1 => family == Family::SvtAv1,
            Self::X264 => family == Family::X264,
            Self::All => true,
        }
    }
}

/// Quantizer indices of the coarse points.
const COARSE: [u8; 5] = [15, 29, 51, 82, 106];
/// Quantizer indices of the points of a curve, by set: `coarse` as in calls, `fine` near noise. All match indices of
/// libvpx's scale of 0 to 63.
const SETS: [(&str, [u8; 5]); 2] = [("coarse", COARSE), ("fine", [4, 7, 9, 12, 15])];
/// Quantizer index of the speed comparison: the middle of the first set.
const SPEED_INDEX: u8 = 51;
/// Quantizers of the decoded streams.
const DECODE_INDICES: [u8; 3] = [15, 51, 106];

const REAL_TIME: Coder = Coder::Ours(lockstep_vp8::Effort::REAL_TIME);
const QUALITY: Coder = Coder::Ours(lockstep_vp8::Effort::QUALITY);
const RT_4: Coder = Coder::Libvpx(Effort::RealTime(4));
const RT_8: Coder = Coder::Libvpx(Effort::RealTime(-8));
const GOOD_0: Coder = Coder::Libvpx(Effort::Good(0));
/// Our encoders, each with those that it is compared with.
const COMPARED: [(Coder, &[Coder]); 2] = [(REAL_TIME, &[RT_4, RT_8, GOOD_0]), (QUALITY, &[RT_4, GOOD_0])];

/// State of a run: the libraries, the names of our program, libvpx and libaom, and earlier measurements.
struct Bench {
    libraries: Libraries,
    program: String,
    libvpx: String,
    libaom: String,
    /// Further encoders. They code only the coarse points.
    further: Vec<Coder>,
    rounds: usize,
    journal: Journal,
    progress: Progress,
    done: u64,
}

impl Bench {
    /// The encoders of the aims.
    fn aimed(&self) -> Vec<Coder> {
        let libvpx = [RT_4, RT_8, GOOD_0].into_iter().filter(|_| self.libraries.libvpx.is_some());
        [REAL_TIME, QUALITY].into_iter().chain(libvpx).collect()
    }

    /// All measured encoders.
    fn coders(&self) -> Vec<Coder> {
        let mut coders = self.aimed();
        coders.extend(&self.further);
        coders
    }

    /// The encoders that code a set of points.
    fn coders_of(&self, set: &str) -> Vec<Coder> {
        if set == "coarse" { self.coders() } else { self.aimed() }
    }

    /// Steps per clip: points of each encoder, speeds, decoded streams, menus, fits and drifts.
    fn steps_a_clip(&self) -> u64 {
        let points = SETS.iter().map(|(set, points)| self.coders_of(set).len() * points.len()).sum::<usize>();
        (points + 1 + DECODE_INDICES.len() + 2 + drift::MOTIONS.len() * drift::INDICES.len()) as u64
    }

    /// Runs one step. A step of libvpx alone is not repeated after a change of this program.
    fn step<T: Serialize + DeserializeOwned>(
        &mut self,
        clip: &Clip,
        what: &str,
        by: &[Coder],
        measure: impl FnOnce(&Libraries) -> Result<T>,
    ) -> Result<T> {
        self.progress.update(self.done, &format!("{}: {what}", clip.name));
        self.done += 1;
        let ours =
            by.iter().any(|coder| matches!(coder, Coder::Ours(_) | Coder::Av1(_))).then_some(self.program.as_str());
        let theirs = by.iter().any(|coder| matches!(coder, Coder::Libvpx(_))).then_some(self.libvpx.as_str());
        let mut key = format!("{} {} {} {what}", clip.content, ours.unwrap_or("-"), theirs.unwrap_or("-"));
        for coder in by {
            match (coder, &self.libraries.ffmpeg) {
                (Coder::External(external), Some(ffmpeg)) => {
                    key += &format!(" {} {}", ffmpeg.version, external.settings());
                }
                (Coder::Av1(_), _) => key += &format!(" libaom {}", self.libaom),
                _ => {}
            }
        }
        let libraries = &self.libraries;
        self.journal.measured(&key, || measure(libraries))
    }

    fn clip(&mut self, typed: &str, most: usize) -> Result<ClipReport> {
        let clip = Clip::open(typed, most)?;
        let (coders, rounds) = (self.coders(), self.rounds);
        let mut curves = vec![BTreeMap::new(); coders.len()];
        for (set, points) in SETS {
            let members = self.coders_of(set);
            for (coder, curves) in coders.iter().zip(&mut curves).filter(|(coder, _)| members.contains(coder)) {
                let mut curve = Curve::default();
                for index in points {
                    let what = format!("{} at {index}", coder.name());
                    let point = self.step(&clip, &what, &[*coder], |libraries| {
                        measures::curve_point(&clip, *coder, libraries, index)
                    })?;
                    curve.add(index, &point);
                }
                curves.insert(set, curve);
            }
        }
        let mut what = format!("speeds, {rounds} rounds");
        for coder in &self.further {
            what += &format!(", {}", coder.name());
        }
        let seconds = self.step(&clip, &what, &coders, |libraries| {
            measures::speeds(&clip, &coders, libraries, SPEED_INDEX, rounds)
        })?;
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

        let tradeoffs = of(&REAL_TIME).map(|anchor| hull::of_clip(&encoders, anchor)).unwrap_or_default();

        let both = [REAL_TIME, RT_4];
        let mut decoding = Vec::new();
        for index in DECODE_INDICES {
            let what = format!("decoding at {index}, {rounds} rounds");
            decoding.push(self.step(&clip, &what, &both, |libraries| {
                measures::decoding(&clip, REAL_TIME, libraries, index, rounds)
            })?);
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
            tradeoffs,
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
                all.push(self.step(clip, &format!("{name} at {index}"), &[coders.0, coders.1], |libraries| {
                    drift::measure(moving, motion, index, coders, libraries)
                })?);
            }
        }
        Ok(all)
    }
}

/// The further encoders of `compare`, and the ffmpeg that has them. Missing ones are reported and skipped.
fn further(compare: &[Compare]) -> (Vec<Coder>, Option<Ffmpeg>) {
    let mut coders = Vec::new();
    if compare.iter().any(|one| matches!(one, Compare::Levels | Compare::All)) {
        let levels = lockstep_vp8::Effort::all().map(Coder::Ours);
        coders.extend(levels.filter(|level| ![REAL_TIME, QUALITY].contains(level)));
    }
    if compare.iter().any(|one| matches!(one, Compare::Av1 | Compare::All)) {
        match Av1::check_libraries() {
            Ok(()) => coders.extend(Av1::EFFORTS.levels().map(Coder::Av1)),
            Err(error) => eprint_line!("lockstep: warning: {error}; AV1 of calls is skipped"),
        }
    }
    let families = Family::ALL.into_iter().filter(|family| compare.iter().any(|one| one.includes(*family)));
    let families: Vec<Family> = families.collect();
    if families.is_empty() {
        return (coders, None);
    }
    let ffmpeg = match Ffmpeg::open() {
        Ok(ffmpeg) => ffmpeg,
        Err(error) => {
            eprint_line!("lockstep: warning: {error:#}; encoders of other codecs are skipped");
            return (coders, None);
        }
    };
    for family in families {
        match ffmpeg.externals(family) {
            Ok(externals) => coders.extend(externals.map(Coder::External)),
            Err(error) => eprint_line!("lockstep: warning: {error}; it is skipped"),
        }
    }
    (coders, Some(ffmpeg))
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
    let (further, ffmpeg) = further(&arguments.compare);
    let mut bench = Bench {
        program: Contents::default().of_file(&std::env::current_exe()?)?,
        libvpx: library.as_ref().map_or_else(|| "without".to_owned(), Library::version),
        libaom: EncoderLibrary::open().map_or_else(|_| "without".to_owned(), |library| library.version()),
        libraries: Libraries { libvpx: library, ffmpeg },
        further,
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
        libvpx: bench.libraries.libvpx.as_ref().map(Library::version),
        ffmpeg: bench.libraries.ffmpeg.map(|ffmpeg| ffmpeg.version),
        clock: if core_seconds().is_some() { "core" } else { "wall" },
        pictures: arguments.pictures,
        rounds: arguments.rounds,
        tradeoffs: hull::of_clips(&reports),
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

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        codec: CodecArguments,
    }

    fn parsed(words: &[&str]) -> CodecArguments {
        Words::try_parse_from([&["codec"], words].concat()).unwrap().codec
    }

    #[test]
    fn comparison_names_levels_and_families() {
        assert!(further(&[]).0.is_empty());
        let (levels, ffmpeg) = further(&parsed(&["--compare", "levels"]).compare);
        let names: Vec<String> = levels.iter().map(|coder| coder.name()).collect();
        assert_eq!(names, (1..9).map(|level| format!("lockstep {level}")).collect::<Vec<_>>());
        assert!(ffmpeg.is_none());
        let compare = parsed(&["--compare", "svt-av1,x264"]).compare;
        let included = Family::ALL.map(|family| compare.iter().any(|one| one.includes(family)));
        assert_eq!(included, [false, false, true, true]);
        assert!(Family::ALL.into_iter().all(|family| Compare::All.includes(family)));
    }

    #[test]
    fn report_has_the_hull_of_every_compared_encoder() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("codec.json");
        let words =
            ["--clip", "generated:64x64@30", "--pictures", "3", "--rounds", "1", "--compare", "levels,av1,x264"];
        let arguments = parsed(&[&words[..], &["--json", json.to_str().unwrap()]].concat());
        run(&arguments).unwrap();
        let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        let clip = &report["clips"][0];
        let names: Vec<&str> =
            clip["encoders"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        assert!(names.contains(&"lockstep 1") && names.contains(&"lockstep quality"), "{names:?}");
        let (encoders, _) = further(&arguments.compare);
        assert!(encoders.iter().all(|coder| names.contains(&coder.name().as_str())), "{names:?}");
        for tradeoffs in [&clip["tradeoffs"], &report["tradeoffs"]] {
            let tradeoffs = tradeoffs.as_array().unwrap();
            assert_eq!(tradeoffs.len(), names.len());
            assert!(tradeoffs.iter().all(|one| one["time"].as_f64() > Some(0.0)), "{tradeoffs:?}");
            for measure in ["psnr", "ssim"] {
                assert!(tradeoffs.iter().any(|one| one[measure]["on_hull"] == true), "{tradeoffs:?}");
            }
            let real_time = tradeoffs.iter().find(|one| one["name"] == "lockstep real-time").unwrap();
            assert_eq!((&real_time["time"], &real_time["psnr"]["bd_rate"]), (&1.0.into(), &0.0.into()));
        }
        let levels = clip["encoders"].as_array().unwrap().iter().filter(|one| one["curves"]["fine"].is_null());
        assert_eq!(levels.count(), encoders.len());
    }
}
