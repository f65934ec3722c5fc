//! `lockstep data`: public sets of traces, their training and evaluation parts, and families fitted to them.

pub mod download;
mod fitting;
mod folder;
mod manifest;
mod sets;
pub mod split;
mod verify;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};

use lockstep_configuration::{Milliseconds, OptionValue};
use lockstep_runner::output_file::write_text;

pub use manifest::with_splits;
use manifest::{FROZEN, Manifest};

/// Arguments of `lockstep data`.
#[derive(Debug, Clone, Args)]
pub struct DataArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// List the known public data sets with their licences, the families of generated traces and the frozen splits.
    List,
    /// Download a data set.
    Get(GetArguments),
    /// Convert every trace of a folder to one format.
    Convert(ConvertArguments),
    /// Split a folder of traces into training and evaluation parts: a manifest with the hash of every file.
    Split(split::SplitArguments),
    /// Compare a folder of traces with a frozen split or a manifest: missing, different and extra files.
    Verify(verify::VerifyArguments),
    /// Fit a family of generated traces to a folder of recordings, and print its error on held-out recordings.
    Fit(fitting::FitArguments),
}

/// Arguments of `lockstep data get`.
#[derive(Debug, Clone, Args)]
struct GetArguments {
    /// The data set, see `lockstep data list`.
    set: String,
    /// Folder for the files. A file with the recorded hash is not downloaded again.
    #[arg(long)]
    output: PathBuf,
    /// Download the files by name from this base URL instead: a mirror.
    #[arg(long, value_name = "URL")]
    from: Option<String>,
}

/// Target formats of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Seconds and Mb/s.
    Csv,
    /// Delivery opportunities.
    Mahimahi,
    /// AlphaRTC's JSON.
    Json,
}

/// Arguments of `lockstep data convert`.
#[derive(Debug, Clone, Args)]
struct ConvertArguments {
    /// Folder of traces, with subfolders.
    folder: PathBuf,
    /// Folder for the converted traces.
    #[arg(long)]
    output: PathBuf,
    /// Target format.
    #[arg(long, value_enum, default_value = "csv")]
    format: Format,
    /// Width of the intervals of csv and json, milliseconds.
    #[arg(long, default_value = "200", value_parser = Milliseconds::from_word)]
    interval_ms: Milliseconds,
}

/// `lockstep data`.
pub fn run(arguments: &DataArguments) -> Result<()> {
    match &arguments.what {
        What::List => list(),
        What::Get(arguments) => get(arguments),
        What::Convert(arguments) => convert(arguments),
        What::Split(arguments) => split::run(arguments),
        What::Verify(arguments) => verify::run(arguments),
        What::Fit(arguments) => fitting::run(arguments),
    }
}

fn list() -> Result<()> {
    for set in sets::ALL {
        print_line!("{}   {}", set.name, set.about);
        print_line!("    licence  {}", set.licence);
        match set.by_hand {
            Some(how) => print_line!("    by hand  {how}"),
            None => print_line!("    files    {} from {}", set.files.len(), set.page),
        }
    }
    print_line!("\nfamilies of generated traces, such as fitted:family=lte,seed=7,seconds=60");
    for family in lockstep_link::Families::built_in().families {
        print_line!("{}   {}", family.name, family.provenance);
    }
    print_line!("\nfrozen splits, such as --traces split:norway-3g:test=FOLDER");
    for (name, _) in FROZEN {
        let Manifest { source, train, validation, test, .. } = Manifest::open(name)?;
        let [train, validation, test] = [train, validation, test].map(|part| part.len());
        print_line!(
            "{name}   {train} to train on, {validation} for validation, {test} to judge by; files from {source}"
        );
    }
    Ok(())
}

fn get(arguments: &GetArguments) -> Result<()> {
    let set = sets::named(&arguments.set)?;
    if let Some(how) = set.by_hand {
        bail!("{} cannot be downloaded by a command: {how}", set.name);
    }
    print_line!("{}: {}\nlicence: {}", set.name, set.about, set.licence);
    let files: Vec<download::Wanted> = set
        .files
        .iter()
        .map(|&(name, url)| {
            let url = match &arguments.from {
                Some(mirror) => format!("{}/{name}", mirror.trim_end_matches('/')),
                None => url.to_owned(),
            };
            download::Wanted { name: name.to_owned(), url }
        })
        .collect();
    download::all(&files, &arguments.output)?;
    print_line!("{} files in {}", files.len(), arguments.output.display());
    if let Some(archive) = files.iter().find(|file| file.name.ends_with(".zip")) {
        print_line!("unpack {} before converting: `unzip`", archive.name);
    }
    Ok(())
}

fn convert(arguments: &ConvertArguments) -> Result<()> {
    let interval = arguments.interval_ms.get();
    let contents = folder::read(&arguments.folder)?;
    contents.print_skipped();
    let mut converted = 0;
    for found in &contents.traces {
        let (text, extension) = match arguments.format {
            Format::Csv => (found.trace.to_csv(interval), "csv"),
            Format::Mahimahi => (found.trace.to_mahimahi(), "trace"),
            Format::Json => (found.trace.to_alphartc_json(interval), "json"),
        };
        let text = match text {
            Ok(text) => text,
            Err(why) => {
                eprint_line!("skipped {}: {why}", found.name);
                continue;
            }
        };
        converted += 1;
        let path = arguments.output.join(format!("{}.{extension}", found.name));
        let folder = path.parent().context("the output has no folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
        write_text(&path, &text)?;
    }
    if converted == 0 {
        bail!("no trace in {} could be converted", arguments.folder.display());
    }
    print_line!("{converted} traces in {}", arguments.output.display());
    Ok(())
}
