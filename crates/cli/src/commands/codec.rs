//! `lockstep encode` and `lockstep decode`.

use std::fmt::Display;
use std::io::{BufRead, BufReader, BufWriter, Write, stdin, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use md5::{Digest, Md5};

use lockstep_configuration::value_of;
use lockstep_media::{IvfReader, IvfWriter, VideoFormat, Y4mError, Y4mReader, Y4mWriter};
use lockstep_runner::output_file::{self, OutputFile, is_standard_output};
use lockstep_runner::progress::Progress;
use lockstep_runner::standard_input::{input_name, is_standard_input};
use lockstep_units::open_input;
use lockstep_vp8::{Analysis, Arena, DEFAULT_PIXEL_LIMIT, Effort, Parameters, State, decode_in};

/// Arguments of `lockstep encode`.
#[derive(Args)]
pub struct EncodeArguments {
    /// Video source, a y4m file in 4:2:0; `-` is standard input.
    input: PathBuf,
    /// IVF file to write; `-` is standard output.
    output: PathBuf,
    /// Quantizer index: 0 is the finest, 127 the coarsest.
    #[arg(long, short, value_parser = clap::value_parser!(u8).range(0..=127))]
    quantizer: u8,
    /// Effort of the encoder.
    #[arg(long, value_parser = value_of::<Effort>(), default_value = "real-time")]
    preset: Effort,
}

/// Arguments of `lockstep decode`.
#[derive(Args)]
pub struct DecodeArguments {
    /// Frames, VP8 in an IVF file; `-` is standard input.
    input: PathBuf,
    /// The y4m file to write, `-` for standard output; optional with --md5.
    #[arg(required_unless_present = "md5")]
    output: Option<PathBuf>,
    /// Print the MD5 of each frame's I420 samples instead.
    #[arg(long)]
    md5: bool,
    /// Refuse pictures with more pixels than this; the default allows 8K video.
    #[arg(long, value_name = "PIXELS", default_value_t = DEFAULT_PIXEL_LIMIT)]
    max_pixels: usize,
}

/// Opens an input file or standard input.
fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if is_standard_input(path) {
        return Ok(Box::new(stdin().lock()));
    }
    let file = open_input(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Items of `next` until it fails or ends.
///
/// A recording whose writer was killed is truncated. The items before that are kept, and the error is stored in
/// `failure`.
fn until_failure<Item, Error>(
    mut next: impl FnMut() -> Result<Option<Item>, Error>,
    failure: &mut Option<Error>,
) -> impl Iterator<Item = Item> {
    std::iter::from_fn(move || {
        next().unwrap_or_else(|error| {
            *failure = Some(error);
            None
        })
    })
}

/// Error for a truncated input, whose earlier part was written to a complete `output`.
fn broke_off(input: &Path, failure: impl Display, output: &Path, has: &str) -> anyhow::Error {
    let input = input_name(input);
    let output = if is_standard_output(output) { "standard output".into() } else { output.to_string_lossy() };
    anyhow!("{input}: {failure}; {output} has the {has} before that and can be used")
}

/// Encodes a y4m file.
pub fn encode(arguments: &EncodeArguments) -> Result<()> {
    let input = || input_name(&arguments.input);
    let writing = || format!("cannot write {}", arguments.output.display());
    output_file::check(&[("output", Some(&arguments.output))], &[&arguments.input])?;
    let mut source = Y4mReader::new(open(&arguments.input)?).with_context(input)?;
    let format = source.format();
    let (mut output, mut can_seek): (Option<IvfWriter<OutputFile>>, _) = (None, false);
    let parameters = Parameters { quantizer: arguments.quantizer, effort: arguments.preset, ..Parameters::default() };
    let (arena, mut state) = (Arena::default(), State::default());
    let mut progress = Progress::new("encode", 0);
    let (mut frames, mut bytes) = (0, 0);
    let mut failure = None;
    for picture in until_failure(|| source.read_picture(), &mut failure) {
        let writer = match &mut output {
            Some(writer) => writer,
            None => {
                let file = OutputFile::create(&arguments.output)?;
                can_seek = file.can_seek();
                output.insert(IvfWriter::new(file, format).with_context(writing)?)
            }
        };
        let encoded = Analysis::new_in(&arena, &state, &picture, &parameters).encode(parameters.quantizer);
        writer.write_frame(frames, &encoded.frame).with_context(writing)?;
        frames += 1;
        bytes += encoded.frame.len() as u64;
        state = encoded.state;
        progress.update(frames, &format!("{frames} frames, {bytes} bytes"));
    }
    let Some(writer) = output else {
        failure.map_or(Ok(()), Err).with_context(input)?;
        bail!("{}: no pictures", input());
    };
    // The header in a pipe does not receive the number of frames.
    let output = if can_seek { writer.finish() } else { writer.into_inner() };
    output.with_context(writing)?.finish()?;
    progress.finish();
    let seconds = format.time_of(frames).as_secs_f64().max(1e-9);
    eprint_line!("{frames} frames, {bytes} bytes, {:.1} kb/s", bytes as f64 * 8e-3 / seconds);
    failure.map_or(Ok(()), |failure| {
        Err(broke_off(&arguments.input, failure, &arguments.output, &format!("{frames} pictures")))
    })
}

/// Decodes an IVF file.
pub fn decode(arguments: &DecodeArguments) -> Result<()> {
    let input = || input_name(&arguments.input);
    let writing =
        || format!("cannot write {}", arguments.output.as_deref().unwrap_or_else(|| Path::new("-")).display());
    output_file::check(&[("output", arguments.output.as_deref())], &[&arguments.input])?;
    let mut frames = IvfReader::new(open(&arguments.input)?).with_context(input)?;
    let frame_rate = frames.header().format.frame_rate;
    let stem = arguments.input.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let mut output: Option<Y4mWriter<OutputFile>> = None;
    let mut printed = BufWriter::new(stdout().lock());
    let (arena, mut state) = (Arena::default(), State::default());
    let (mut number, mut failed) = (0u64, 0u64);
    let mut first_failed = None;
    let mut failure = None;
    for frame in until_failure(|| frames.read_frame(), &mut failure) {
        number += 1;
        let picture = match decode_in(&arena, &state, &frame.data, arguments.max_pixels) {
            Ok((next, picture)) => {
                state = next;
                picture
            }
            Err(error) => {
                failed += 1;
                first_failed.get_or_insert_with(|| format!("first frame {number}: {error}"));
                // The previous picture stays on the screen, as with other decoders.
                match state.last_picture() {
                    Some(picture) => picture,
                    None => continue,
                }
            }
        };
        if !state.is_shown() {
            continue;
        }
        if arguments.md5 {
            let mut digest = Md5::new();
            for row in picture.planes().iter().flat_map(|plane| plane.rows()) {
                digest.update(row);
            }
            let (width, height) = (picture.width(), picture.height());
            writeln!(printed, "{:x}  {stem}-{width}x{height}-{number:04}.i420", digest.finalize())?;
            continue;
        }
        let Some(path) = &arguments.output else { continue };
        let writer = match &mut output {
            Some(writer) => writer,
            None => {
                let format = VideoFormat { width: picture.width(), height: picture.height(), frame_rate };
                output.insert(Y4mWriter::new(OutputFile::create(path)?, format).with_context(writing)?)
            }
        };
        writer.write_picture(&picture).map_err(|error| match error {
            Y4mError::Mismatch { .. } => {
                anyhow!("frame {number}: {error}: y4m holds one picture size only; use --md5 for such a stream")
            }
            error => anyhow!("{}: {error}", writing()),
        })?;
    }
    printed.flush()?;
    let written = output.is_some();
    if let Some(writer) = output {
        writer.finish().with_context(writing)?.finish()?;
    }
    match (failure, &arguments.output) {
        (Some(failure), Some(path)) if written => {
            return Err(broke_off(&arguments.input, failure, path, "pictures"));
        }
        (failure, _) => failure.map_or(Ok(()), Err).with_context(input)?,
    }
    if number == 0 {
        bail!("{}: no frames", input());
    }
    let Some(first) = first_failed else { return Ok(()) };
    let has = match &arguments.output {
        Some(path) if written => format!("{} repeats the picture before each", path.display()),
        Some(path) => format!("{} is not written", path.display()),
        None => "the picture before each counts for it".to_owned(),
    };
    bail!("{}: {failed} of {number} frames could not be decoded, {first}; {has}", input())
}
