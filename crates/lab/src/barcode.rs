//! `lockstep barcode`: writes frame numbers into pictures, and reads them.

use std::io::{Write, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use lockstep_configuration::{OptionValue, Seconds};
use lockstep_media::barcode::{MAX_NUMBER, read_barcode, write_barcode};
use lockstep_media::{FormatError, FrameRate, Source, SourceOptions, Y4mSource, Y4mWriter, open_source, parse_size};
use lockstep_runner::output_file::{self, OutputFile, is_standard_output};
use lockstep_runner::progress::Progress;
use lockstep_runner::standard_input::{self, is_standard_input};

/// A width and a height.
#[derive(Debug, Clone, Copy)]
struct Size((usize, usize));

fn size(text: &str) -> Result<Size, FormatError> {
    parse_size(text).map(Size)
}

/// Arguments of `lockstep barcode`.
#[derive(Debug, Clone, Args)]
pub struct BarcodeArguments {
    /// The pictures: a y4m file, `-` for y4m from standard input, `generated`, `generated:640x360@25`, or any input of
    /// ffmpeg.
    input: String,
    /// The y4m file to write, `-` for standard output. With --read: the table of numbers as .csv or .json; CSV on
    /// standard output by default.
    #[arg(required_unless_present = "read")]
    output: Option<PathBuf>,
    /// Read the numbers in the pictures: one row per picture with its number or the error.
    #[arg(long)]
    read: bool,
    /// The number of the first picture; numbers increase by one.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, conflicts_with = "read",
        value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_NUMBER)))]
    first: u32,
    /// Stop after this duration of the input. A generated clip is endless.
    #[arg(long, value_parser = Seconds::from_word)]
    seconds: Option<Seconds>,
    /// Scale the pictures to this size first, or generate them in it.
    #[arg(long, value_name = "WIDTHxHEIGHT", value_parser = size)]
    size: Option<Size>,
    /// Resample the pictures to this rate first, or generate them at it.
    #[arg(long)]
    rate: Option<FrameRate>,
    /// Seed of the generated clip.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The reading of a picture.
#[derive(Debug, Serialize)]
struct Row {
    picture: u64,
    number: Option<u32>,
    problem: Option<String>,
}

/// Output of rows.
enum Table {
    Csv(Box<csv::Writer<OutputFile>>),
    Json(OutputFile, bool),
}

impl Table {
    fn create(path: &Path) -> Result<Self> {
        let json = is_json(path)?;
        let output = OutputFile::create(path)?;
        Ok(if json { Self::Json(output, false) } else { Self::Csv(Box::new(csv::Writer::from_writer(output))) })
    }

    fn write(&mut self, row: &Row) -> Result<()> {
        match self {
            Self::Csv(writer) => writer.serialize(row)?,
            Self::Json(output, begun) => {
                output.write_all(if *begun { b",\n" } else { b"[\n" })?;
                *begun = true;
                serde_json::to_writer(output, row)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Csv(writer) => writer.into_inner().map_err(csv::IntoInnerError::into_error)?.finish(),
            Self::Json(mut output, begun) => {
                output.write_all(if begun { b"\n]\n" } else { b"[]\n" })?;
                output.finish()
            }
        }
    }
}

/// Whether the table at `path` is JSON.
fn is_json(path: &Path) -> Result<bool> {
    let name = path.to_string_lossy().to_ascii_lowercase();
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        _ if is_standard_output(path) => Ok(false),
        Some("csv") => Ok(false),
        Some("json") => Ok(true),
        _ => bail!("{}: numbers are written as .csv or .json", path.display()),
    }
}

/// `lockstep barcode`.
pub fn run(arguments: &BarcodeArguments) -> Result<()> {
    let path = arguments.output.as_deref().unwrap_or_else(|| Path::new("-"));
    if arguments.read {
        is_json(path)?;
    }
    output_file::check(&[("output", Some(path))], &[Path::new(&arguments.input)])?;
    let options =
        SourceOptions { size: arguments.size.map(|Size(size)| size), frame_rate: arguments.rate, seed: arguments.seed };
    let mut source = if is_standard_input(Path::new(&arguments.input)) {
        if options.size.is_some() || options.frame_rate.is_some() {
            bail!("--size and --rate do not apply to standard input: convert it before the pipe");
        }
        Box::new(Y4mSource::from_reader(Path::new(standard_input::NAME), stdin())?)
    } else {
        open_source(&arguments.input, &options)?
    };
    let endless = source.is_live() || arguments.input.split(':').next() == Some("generated");
    if endless && arguments.seconds.is_none() {
        bail!("{} is endless: give a duration, such as --seconds 10", arguments.input);
    }
    let most = arguments.seconds.map(|seconds| {
        let rate = source.format().frame_rate;
        (seconds.as_f64() * rate.as_f64() - 1e-6).ceil() as u64
    });
    let mut progress = Progress::new("barcode", most.unwrap_or(0));
    let summary = if arguments.read {
        read(source.as_mut(), most, path, &mut progress)
    } else {
        write(source.as_mut(), most, path, arguments.first, &mut progress)
    }?;
    progress.finish();
    let Some(summary) = summary else { bail!("{}: no pictures", arguments.input) };
    eprint_line!("{summary}");
    Ok(())
}

/// Writes numbers into the pictures of `source`, and prints how many. Without pictures, it writes no file.
fn write(
    source: &mut dyn Source,
    most: Option<u64>,
    path: &Path,
    first: u32,
    progress: &mut Progress,
) -> Result<Option<String>> {
    let writing = || format!("cannot write {}", path.display());
    let mut output = Y4mWriter::new(OutputFile::create(path)?, source.format()).with_context(writing)?;
    let mut written = 0u64;
    while most.is_none_or(|most| written < most) {
        let Some(picture) = source.next()? else { break };
        let number = u32::try_from(u64::from(first) + written).unwrap_or(u32::MAX);
        let picture = write_barcode(&picture, number).with_context(|| format!("picture {written}"))?;
        output.write_picture(&picture).with_context(writing)?;
        written += 1;
        progress.update(written, &format!("{written} pictures"));
    }
    if written == 0 {
        return Ok(None);
    }
    output.finish().with_context(writing)?.finish()?;
    Ok(Some(format!("{written} pictures, numbers {first} to {}", u64::from(first) + written - 1)))
}

/// Reads the numbers in the pictures of `source`, and prints how many. Without pictures, it writes no file.
fn read(source: &mut dyn Source, most: Option<u64>, path: &Path, progress: &mut Progress) -> Result<Option<String>> {
    let mut table = Table::create(path)?;
    let (mut picture, mut certain) = (0u64, 0u64);
    while most.is_none_or(|most| picture < most) {
        let Some(next) = source.next()? else { break };
        let (number, problem) = match read_barcode(&next) {
            Ok(number) => (Some(number), None),
            Err(error) => (None, Some(error.to_string())),
        };
        certain += u64::from(number.is_some());
        table.write(&Row { picture, number, problem }).with_context(|| format!("cannot write {}", path.display()))?;
        picture += 1;
        progress.update(picture, &format!("{certain} of {picture} pictures read"));
    }
    if picture == 0 {
        return Ok(None);
    }
    table.finish()?;
    Ok(Some(format!("{certain} of {picture} pictures read")))
}
