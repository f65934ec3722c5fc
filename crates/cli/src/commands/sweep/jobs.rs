//! The calls of a sweep.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use lockstep_control::Algorithm;

use super::SweepArguments;
use crate::configuration::{CallOptions, CallSettings, CodecKind, NamedTrace, TraceName};

/// What codes the pictures of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SweepCodec {
    /// A model of the functional codec, without pixels: thousands of times faster than real time.
    Modelled,
    /// A model of the conventional codec.
    ModelledConventional,
    /// The functional codec.
    Functional,
    /// The conventional codec.
    Conventional,
}

impl SweepCodec {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Modelled => "modelled",
            Self::ModelledConventional => "modelled-conventional",
            Self::Functional => "functional",
            Self::Conventional => "conventional",
        }
    }

    /// Whether there are no pixels.
    pub fn is_modelled(self) -> bool {
        matches!(self, Self::Modelled | Self::ModelledConventional)
    }

    fn kind(self) -> CodecKind {
        match self {
            Self::Modelled | Self::Functional => CodecKind::Functional,
            Self::ModelledConventional | Self::Conventional => CodecKind::Conventional,
        }
    }
}

/// The most seeds of one range.
const MOST_SEEDS: u64 = 1_000_000;

/// Seeds such as `1-5` or `1,4,7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not like 1-5 or 1,4,7");
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let mut seeds = Vec::new();
        for part in text.split(',') {
            match part.split_once('-') {
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if last < first || last - first >= MOST_SEEDS {
                        return Err(format!("`{part}` is no range of at most {MOST_SEEDS} seeds"));
                    }
                    seeds.extend(first..=last);
                }
                None => seeds.push(number(part)?),
            }
        }
        seeds.sort_unstable();
        seeds.dedup();
        Ok(Self(seeds))
    }
}

/// One call of a sweep.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Names the call, the trace's content and the program that runs it: what was run under the same key gave the same.
    pub key: String,
    /// What codes its pictures.
    pub codec: SweepCodec,
    /// Everything else.
    pub call: CallSettings,
}

impl Job {
    /// In words.
    pub fn name(&self) -> String {
        let CallSettings { link, control, .. } = &self.call;
        let (controller, codec, trace) = (control.controller, self.codec.name(), link.trace.name());
        format!("{controller} with the codec {codec} over {trace}, seed {}", link.seed)
    }
}

/// The files in `folder` and below, by name.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

/// The traces that `named` stands for.
fn traces(named: &[String]) -> Result<Vec<NamedTrace>> {
    let open = |name: &str| NamedTrace::open(&TraceName::from(name));
    let mut traces = Vec::new();
    for name in named {
        if !Path::new(name).is_dir() {
            traces.push(open(name)?);
            continue;
        }
        let mut found = Vec::new();
        files(Path::new(name), &mut found)?;
        let before = traces.len();
        for path in found {
            // A folder of traces may hold other things, such as a note of where they come from.
            match open(&path.to_string_lossy()) {
                Ok(trace) => traces.push(trace),
                Err(error) => eprintln!("lockstep: left out: {error:#}"),
            }
        }
        if traces.len() == before {
            bail!("there is no trace in the folder {name}");
        }
    }
    traces.sort_by(|one, other| one.name().as_str().cmp(other.name().as_str()));
    traces.dedup_by(|one, other| one.name() == other.name());
    Ok(traces)
}

/// Names this program by its content: another build may give other results.
fn program() -> Result<Vec<u8>> {
    let path = std::env::current_exe().context("cannot find the lockstep program")?;
    Ok(Md5::digest(fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?).to_vec())
}

fn key(program: &[u8], codec: SweepCodec, call: &CallSettings) -> Result<String> {
    let mut hash = Md5::new();
    hash.update(program);
    hash.update(codec.name());
    hash.update(serde_json::to_vec(call)?);
    let reverse = call.link.reverse.iter().map(|reverse| reverse.name().as_path());
    for path in [call.link.trace.name().as_path(), call.clip.as_path()].into_iter().chain(reverse) {
        if path.is_file() {
            hash.update(fs::read(path).with_context(|| format!("cannot read {}", path.display()))?);
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Every call that `arguments` ask for, in the order of the rows: by controller, codec, trace and seed.
pub fn all(arguments: &SweepArguments) -> Result<Vec<Job>> {
    // What codes is said by the codecs.
    let given = CallOptions { modelled: None, ..arguments.simulation.said().clone() };
    let usual = CallOptions::usual();
    let one_trace = given.trace.as_ref().or(usual.trace.as_ref()).map(ToString::to_string);
    let named = if arguments.traces.is_empty() { one_trace.into_iter().collect() } else { arguments.traces.clone() };
    let traces = traces(&named)?;
    let first_trace = traces.first().map(|trace| trace.name().clone());
    let mut controllers = match &arguments.controllers[..] {
        [] => vec![given.controller],
        names => names.iter().map(|name| Ok(Some(name.parse::<Algorithm>()?))).collect::<Result<Vec<_>>>()?,
    };
    controllers.sort_by_key(|controller| controller.map(|controller| controller.to_string()));
    controllers.dedup();
    let mut codecs = arguments.codecs.clone();
    codecs.sort_unstable();
    codecs.dedup();

    let program = program()?;
    let mut jobs = Vec::new();
    for controller in controllers {
        let settings = CallOptions { controller, trace: first_trace.clone(), ..given.clone() }.settings()?;
        let seeds = arguments.seeds.as_ref().map_or_else(|| vec![settings.link.seed], |seeds| seeds.0.clone());
        for &codec in &codecs {
            for trace in &traces {
                for &seed in &seeds {
                    let mut call = settings.clone();
                    call.link.trace.clone_from(trace);
                    call.link.seed = seed;
                    call.control.codec = codec.kind();
                    call.modelled = codec.is_modelled();
                    jobs.push(Job { key: key(&program, codec, &call)?, codec, call });
                }
            }
        }
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_ranges_and_lists() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(seeds("3-5"), Ok(vec![3, 4, 5]));
        assert_eq!(seeds("7,1,2-3,3"), Ok(vec![1, 2, 3, 7]));
        assert!(seeds("5-3").unwrap_err().contains("no range"));
        assert!(seeds("0-99999999999").is_err());
        assert!(seeds("one").unwrap_err().contains("not like"));
    }
}
