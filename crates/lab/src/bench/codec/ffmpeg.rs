//! Encoders of other codecs through the `ffmpeg` command: VP9, AV1 and H.264.
//!
//! All run as for a call: one thread, a fixed quantizer, one key frame, no lookahead, no frames out of order. A fixed
//! quantizer has no rate control, so the curves compare coding tools alone.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use lockstep_media::{FfmpegSource, Source, SourceOptions, Y4mWriter, ffmpeg_list, ffmpeg_reason};
use lockstep_vp8::Picture;

use super::super::clip::Clip;
use super::COARSE;

const PROGRAM: &str = "ffmpeg";
/// Resolution of ffmpeg's clock, seconds.
const CLOCK_STEP: f64 = 1e-3;

/// An encoder library of ffmpeg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Vp9,
    Libaom,
    SvtAv1,
    X264,
}

/// An encoder library at one speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct External {
    pub family: Family,
    /// The library's name of the speed.
    pub speed: &'static str,
}

impl Family {
    pub(super) const ALL: [Self; 4] = [Self::Vp9, Self::Libaom, Self::SvtAv1, Self::X264];

    fn label(self) -> &'static str {
        match self {
            Self::Vp9 => "VP9",
            Self::Libaom => "libaom",
            Self::SvtAv1 => "SVT-AV1",
            Self::X264 => "x264",
        }
    }

    /// ffmpeg's name of the encoder.
    fn encoder(self) -> &'static str {
        match self {
            Self::Vp9 => "libvpx-vp9",
            Self::Libaom => "libaom-av1",
            Self::SvtAv1 => "libsvtav1",
            Self::X264 => "libx264",
        }
    }

    fn speeds(self) -> &'static [&'static str] {
        match self {
            Self::Vp9 => &["8", "7", "5"],
            Self::Libaom => &["8", "7", "6"],
            Self::SvtAv1 => &["12", "10"],
            Self::X264 => &["ultrafast", "superfast", "medium"],
        }
    }

    /// Quantizers of the library whose PSNR is near that of our real-time level at the coarse indices. Chosen on
    /// `signing-book` at 640x360.
    fn quantizers(self) -> [u8; COARSE.len()] {
        match self {
            Self::Vp9 => [17, 26, 35, 45, 52],
            Self::Libaom => [18, 27, 36, 47, 54],
            Self::SvtAv1 => [26, 36, 45, 57, 63],
            Self::X264 => [22, 26, 31, 37, 41],
        }
    }

    /// The file format for a coded clip.
    fn container(self) -> Container {
        match self {
            Self::Vp9 => Container { name: "ivf", header_bytes: 32, picture_bytes: 12 },
            // ffmpeg adds a temporal delimiter of two bytes to each picture, which RTP leaves out.
            Self::Libaom | Self::SvtAv1 => Container { name: "ivf", header_bytes: 32, picture_bytes: 14 },
            Self::X264 => Container { name: "h264", header_bytes: 0, picture_bytes: 0 },
        }
    }
}

/// File format and its overhead, which does not count as bits of the encoder.
struct Container {
    name: &'static str,
    header_bytes: usize,
    picture_bytes: usize,
}

impl External {
    pub(super) fn name(self) -> String {
        format!("{} {}", self.family.label(), self.speed)
    }

    /// The library's quantizer for an index of the coarse set.
    fn quantizer(self, index: u8) -> Result<u8> {
        let place = COARSE.iter().position(|&known| known == index);
        place.map(|at| self.family.quantizers()[at]).with_context(|| format!("{} has no index {index}", self.name()))
    }

    /// Arguments of ffmpeg from the encoder to the file format.
    fn arguments(self, quantizer: u8) -> Vec<String> {
        let (speed, quantizer) = (self.speed, quantizer.to_string());
        // With equal limits, key frames and later frames have the same quantizer.
        let constant = ["-b:v", "0", "-crf", &quantizer, "-qmin", &quantizer, "-qmax", &quantizer];
        let own: Vec<&str> = match self.family {
            Family::Vp9 => [&["-deadline", "realtime", "-cpu-used", speed], &constant[..]].concat(),
            Family::Libaom => [&["-usage", "realtime", "-cpu-used", speed], &constant[..]].concat(),
            Family::SvtAv1 => vec!["-preset", speed, "-qp", &quantizer],
            Family::X264 => vec!["-preset", speed, "-qp", &quantizer],
        };
        let delay: &[&str] = match self.family {
            Family::Vp9 => &["-lag-in-frames", "0", "-auto-alt-ref", "0", "-threads", "1"],
            Family::Libaom => &["-lag-in-frames", "0", "-threads", "1"],
            Family::SvtAv1 => &["-svtav1-params", "pred-struct=1:lookahead=0:rc=0:scd=0:lp=1"],
            // The filter drops x264's description of itself, which is no part of the pictures.
            Family::X264 => &[
                "-tune",
                "zerolatency",
                "-sc_threshold",
                "0",
                "-threads",
                "1",
                "-bsf:v",
                "filter_units=remove_types=6",
            ],
        };
        let ends = ["-g", "9999", "-f", self.family.container().name];
        [&["-c:v", self.family.encoder()], &own[..], delay, &ends].concat().into_iter().map(str::to_owned).collect()
    }

    /// Text that identifies the settings of an index in a journal.
    pub(super) fn settings(self) -> String {
        let quantizers = self.family.quantizers().map(|quantizer| quantizer.to_string());
        format!("{} at {}", self.arguments(0).join(" "), quantizers.join(","))
    }
}

/// Names of the video encoders in the output of `ffmpeg -encoders`.
fn video_encoders(list: &str) -> HashSet<String> {
    let lines = list.lines().skip_while(|line| !line.trim_start().starts_with("------")).skip(1);
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().filter(|flags| flags.starts_with('V'))?;
        words.next().map(str::to_owned)
    };
    lines.filter_map(name).collect()
}

/// Processor time in the output of `ffmpeg -benchmark`, seconds: `bench: utime=0.211s stime=0.026s rtime=2.252s`.
fn processor_seconds(output: &str) -> Option<f64> {
    let line = output.lines().rev().find_map(|line| line.split_once("bench: utime="))?.1;
    let (user, rest) = line.split_once("s stime=")?;
    let (system, _) = rest.split_once('s')?;
    Some(user.trim().parse::<f64>().ok()? + system.trim().parse::<f64>().ok()?)
}

/// The ffmpeg of this machine.
pub(super) struct Ffmpeg {
    pub version: String,
    encoders: HashSet<String>,
    /// Holds the current clip and the last coded clip.
    folder: TempDir,
}

/// A coded clip in a file of ffmpeg. A later one replaces the file.
pub(super) struct CodedFile {
    path: PathBuf,
    pub bytes: usize,
}

impl CodedFile {
    /// The decoded pictures.
    pub(super) fn pictures(&self) -> Result<impl Iterator<Item = Result<Picture>> + use<>> {
        let path = self.path.to_str().context("the temporary folder has a name that is not UTF-8")?;
        let mut source = FfmpegSource::open(path, &SourceOptions::default())?;
        Ok(std::iter::from_fn(move || Some(source.next().transpose()?.map_err(Into::into))))
    }
}

impl Ffmpeg {
    /// Starts `program` and asks for its encoders.
    fn open_program(program: &str) -> Result<Self> {
        let ask = |option: &str| ffmpeg_list(program.as_ref(), option).with_context(|| format!("cannot run {program}"));
        let version = ask("-version")?.lines().next().unwrap_or_default().to_owned();
        let encoders = video_encoders(&ask("-encoders")?);
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        Ok(Self { version, encoders, folder })
    }

    pub(super) fn open() -> Result<Self> {
        Self::open_program(PROGRAM)
    }

    /// The speeds of a family.
    ///
    /// # Errors
    /// If this ffmpeg lacks its encoder.
    pub(super) fn externals(&self, family: Family) -> Result<impl Iterator<Item = External> + use<>> {
        if !self.encoders.contains(family.encoder()) {
            bail!("this ffmpeg has no encoder {}", family.encoder());
        }
        Ok(family.speeds().iter().map(move |speed| External { family, speed }))
    }

    /// The clip as a y4m file. It replaces the file of another clip.
    fn input(&self, clip: &Clip) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{}.y4m", clip.content));
        if !path.exists() {
            for old in fs::read_dir(self.folder.path())? {
                fs::remove_file(old?.path())?;
            }
            let mut writer = Y4mWriter::new(BufWriter::new(File::create(&path)?), clip.format)?;
            for picture in &clip.pictures {
                writer.write_picture(picture)?;
            }
            writer.finish()?;
        }
        Ok(path)
    }

    /// Runs ffmpeg on the y4m file `input`. Returns its processor time, seconds.
    fn run(input: &Path, arguments: &[String], output: &Path) -> Result<f64> {
        let mut command = Command::new(PROGRAM);
        command.args(["-nostdin", "-hide_banner", "-nostats", "-benchmark", "-y", "-threads", "1", "-i"]).arg(input);
        let run = command.args(arguments).arg(output).stdin(Stdio::null()).stdout(Stdio::null()).output();
        let run = run.with_context(|| format!("cannot run {PROGRAM}"))?;
        let text = String::from_utf8_lossy(&run.stderr);
        if !run.status.success() {
            let reason = ffmpeg_reason(&text).unwrap_or_default();
            bail!("{PROGRAM} {} ended with {}: {reason}", arguments.join(" "), run.status);
        }
        processor_seconds(&text).with_context(|| format!("{PROGRAM} printed no processor time"))
    }

    /// Encodes the clip at the quantizer for an index of the coarse set. Returns the file and the processor time,
    /// seconds, without that of reading the clip.
    pub(super) fn encode(&self, external: External, clip: &Clip, index: u8) -> Result<(CodedFile, f64)> {
        let (input, container) = (self.input(clip)?, external.family.container());
        let path = self.folder.path().join(format!("coded.{}", container.name));
        let arguments = external.arguments(external.quantizer(index)?);
        let reading = Self::run(&input, &["-f".to_owned(), "null".to_owned()], Path::new("-"))?;
        let seconds = Self::run(&input, &arguments, &path)?;
        let overhead = container.header_bytes + container.picture_bytes * clip.pictures.len();
        let bytes = (fs::metadata(&path)?.len() as usize).saturating_sub(overhead);
        Ok((CodedFile { path, bytes }, (seconds - reading).max(CLOCK_STEP)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::coder::{CodedClip, Stream, quality};
    use super::*;

    const LIST: &str = "Encoders:\n V..... = Video\n A..... = Audio\n ------\n V....D a64multi             Multicolor \
                        charset (codec a64_multi)\n V....D libvpx-vp9           libvpx VP9 (codec vp9)\n A....D libopus  \
                        \u{20}           libopus Opus\n";

    #[test]
    fn list_of_encoders_has_only_video_encoders() {
        let encoders = video_encoders(LIST);
        assert_eq!(encoders, HashSet::from(["a64multi".to_owned(), "libvpx-vp9".to_owned()]));
        assert!(video_encoders("").is_empty());
    }

    #[test]
    fn missing_encoder_is_named_in_the_error() {
        let (encoders, folder) = (video_encoders(LIST), tempfile::tempdir().unwrap());
        let ffmpeg = Ffmpeg { version: String::new(), encoders, folder };
        assert_eq!(ffmpeg.externals(Family::Vp9).unwrap().count(), Family::Vp9.speeds().len());
        let error = ffmpeg.externals(Family::SvtAv1).err().unwrap().to_string();
        assert_eq!(error, "this ffmpeg has no encoder libsvtav1");
        let error = Ffmpeg::open_program("no-such-ffmpeg").err().unwrap();
        assert!(format!("{error:#}").starts_with("cannot run no-such-ffmpeg: "), "{error:#}");
    }

    #[test]
    fn processor_time_is_that_of_user_and_system() {
        let text = "frame= 40\nbench: utime=0.211s stime=0.026s rtime=2.252s\nbench: maxrss=86464kB\n";
        assert!((processor_seconds(text).unwrap() - 0.237).abs() < 1e-9);
        assert_eq!(processor_seconds("bench: utime=s stime=0.026s"), None);
        assert_eq!(processor_seconds("Conversion failed!"), None);
    }

    #[test]
    fn arguments_forbid_delay_and_fix_the_quantizer() {
        let arguments = |family: Family| External { family, speed: family.speeds()[0] }.arguments(33).join(" ");
        assert_eq!(
            arguments(Family::Vp9),
            "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -b:v 0 -crf 33 -qmin 33 -qmax 33 -lag-in-frames 0 \
             -auto-alt-ref 0 -threads 1 -g 9999 -f ivf"
        );
        assert_eq!(
            arguments(Family::Libaom),
            "-c:v libaom-av1 -usage realtime -cpu-used 8 -b:v 0 -crf 33 -qmin 33 -qmax 33 -lag-in-frames 0 \
             -threads 1 -g 9999 -f ivf"
        );
        assert_eq!(
            arguments(Family::SvtAv1),
            "-c:v libsvtav1 -preset 12 -qp 33 -svtav1-params pred-struct=1:lookahead=0:rc=0:scd=0:lp=1 -g 9999 -f ivf"
        );
        assert_eq!(
            arguments(Family::X264),
            "-c:v libx264 -preset ultrafast -qp 33 -tune zerolatency -sc_threshold 0 -threads 1 \
             -bsf:v filter_units=remove_types=6 -g 9999 -f h264"
        );
    }

    #[test]
    fn quantizers_follow_the_coarse_indices() {
        for family in Family::ALL {
            let external = External { family, speed: family.speeds()[0] };
            let quantizers = COARSE.map(|index| external.quantizer(index).unwrap());
            assert!(quantizers.windows(2).all(|pair| pair[0] < pair[1]), "{quantizers:?}");
            assert!(external.quantizer(4).is_err());
        }
    }

    #[test]
    fn every_encoder_of_this_ffmpeg_codes_a_clip() {
        let Ok(ffmpeg) = Ffmpeg::open() else {
            eprint_line!("skipped: ffmpeg is not installed");
            return;
        };
        let clip = Clip::open("generated:96x64", 4).unwrap();
        for family in Family::ALL {
            let Ok(mut externals) = ffmpeg.externals(family) else {
                eprint_line!("skipped: this ffmpeg has no {}", family.encoder());
                continue;
            };
            let external = externals.next().unwrap();
            let [fine, coarse] = [COARSE[0], COARSE[4]].map(|index| {
                let (file, seconds) = ffmpeg.encode(external, &clip, index).unwrap();
                let coded = CodedClip { stream: Stream::File(file), seconds };
                let (psnrs, _) = quality(&clip, &coded.stream).unwrap();
                assert_eq!(psnrs.len(), clip.pictures.len());
                assert!(coded.seconds > 0.0);
                (coded.bytes(), psnrs[3])
            });
            assert!(fine.0 > coarse.0 && coarse.0 > 20, "{}: {fine:?} {coarse:?}", external.name());
            assert!(fine.1 > coarse.1 && coarse.1 > 20.0, "{}: {fine:?} {coarse:?}", external.name());
        }
    }
}
