//! The calls of a sweep.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use lockstep_control::Algorithm;

use super::SweepArguments;
use super::contents::{self, Contents};
use crate::configuration::{CODEC_OPTIONS, CodecArgument, SimulateArguments, open_trace};

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

    fn kind(self) -> CodecArgument {
        match self {
            Self::Modelled | Self::Functional => CodecArgument::Functional,
            Self::ModelledConventional | Self::Conventional => CodecArgument::Conventional,
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
    /// Names the call, the content of the files that it reads and the program that runs it: what was run under the same key
    /// gave the same.
    pub key: String,
    /// What codes its pictures.
    pub codec: SweepCodec,
    /// The codec model, where it is not the built-in one.
    pub model: Option<PathBuf>,
    /// Hash of the codec model's file.
    pub model_hash: Option<String>,
    /// Hash of the estimator with all that it reads, where it is none of this project's.
    pub estimator_hash: Option<String>,
    /// Everything else.
    pub call: SimulateArguments,
}

/// The name of the controller that follows an estimator of somebody else's.
const FOLLOWER: &str = "receiver-estimate";

/// An option that ends a call or leaves it as it is.
const WITHOUT_EFFECT: &str = "estimator_limit";

impl Job {
    /// Every setting of the call by its name, null where nothing is set or it means nothing in this call. They are had from
    /// the options that there are and from how a call's are written, so that no option can be left out here.
    pub fn settings(&self) -> Result<Map<String, Value>> {
        let names = SimulateArguments::option_names().into_iter().map(|name| name.replace('-', "_"));
        let mut settings: Map<String, Value> = names.map(|name| (name, Value::Null)).collect();
        match serde_json::to_value(&self.call)? {
            Value::Object(said) => settings.extend(said),
            other => bail!("the settings of a call are no object but {other}"),
        }
        if self.codec.is_modelled() {
            settings.extend(CODEC_OPTIONS.map(|name| (name.to_owned(), Value::Null)));
        }
        settings.remove(WITHOUT_EFFECT);
        settings.insert("modelled".to_owned(), Value::Bool(self.codec.is_modelled()));
        let also = [
            ("codec", Some(self.codec.name().to_owned())),
            ("model", self.model.as_ref().map(|path| path.to_string_lossy().into_owned())),
            ("model_hash", self.model_hash.clone()),
            ("estimator_hash", self.estimator_hash.clone()),
            ("python", self.call.estimator.python.clone()),
        ];
        settings.extend(also.map(|(name, value)| (name.to_owned(), value.map_or(Value::Null, Value::String))));
        Ok(settings)
    }

    /// In words.
    pub fn name(&self) -> String {
        let SimulateArguments { link, control, .. } = &self.call;
        format!("{} with the codec {} over {}, seed {}", control.controller, self.codec.name(), link.trace, link.seed)
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

/// The traces that `named` stands for, each as [`open_trace`] reads it.
fn traces(named: &[String]) -> Result<Vec<String>> {
    let mut traces = Vec::new();
    for name in named {
        if !Path::new(name).is_dir() {
            open_trace(name)?;
            traces.push(name.clone());
            continue;
        }
        let mut found = Vec::new();
        files(Path::new(name), &mut found)?;
        let before = traces.len();
        for path in found {
            let path = path.to_string_lossy().into_owned();
            // A folder of traces may hold other things, such as a note of where they come from.
            match open_trace(&path) {
                Ok(_) => traces.push(path),
                Err(error) => eprintln!("lockstep: left out: {error:#}"),
            }
        }
        if traces.len() == before {
            bail!("there is no trace in the folder {name}");
        }
    }
    traces.sort();
    traces.dedup();
    Ok(traces)
}

/// Names this program by its content: another build may give other results.
fn program(contents: &mut Contents) -> Result<String> {
    contents.of_file(&std::env::current_exe().context("cannot find the lockstep program")?)
}

/// The key of a job that has none yet.
fn key(program: &str, job: &Job, contents: &mut Contents) -> Result<String> {
    let mut hash = Md5::new();
    hash.update(program);
    hash.update(serde_json::to_vec(&job.settings()?)?);
    let call = &job.call;
    for name in [&call.link.trace, &call.clip].into_iter().chain(&call.link.reverse) {
        if Path::new(name).is_file() {
            hash.update(contents.of_file(Path::new(name))?);
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Every call that `arguments` ask for, in the order of the rows: by controller, codec, trace and seed.
pub fn all(arguments: &SweepArguments) -> Result<Vec<Job>> {
    let given = &arguments.simulation;
    let or_one = |many: &[String], one: &String| if many.is_empty() { vec![one.clone()] } else { many.to_vec() };
    let mut controllers = or_one(&arguments.controllers, &given.control.controller);
    for name in &controllers {
        name.parse::<Algorithm>()?;
    }
    controllers.sort();
    controllers.dedup();
    let mut codecs = arguments.codecs.clone();
    codecs.sort_unstable();
    codecs.dedup();
    let traces = traces(&or_one(&arguments.traces, &given.link.trace))?;
    let seeds = arguments.seeds.as_ref().map_or_else(|| vec![given.link.seed], |seeds| seeds.0.clone());

    let mut contents = Contents::default();
    let program = program(&mut contents)?;
    let estimator = given.estimator.estimator.as_deref();
    let estimator_hash = estimator.map(contents::of_estimator).transpose()?;
    let model_hash = arguments.model.as_deref().map(|path| contents.of_file(path)).transpose()?;
    if estimator.is_some() {
        controllers = vec![FOLLOWER.to_owned()];
    }
    let mut jobs = Vec::new();
    for controller in &controllers {
        for &codec in &codecs {
            for trace in &traces {
                for &seed in &seeds {
                    let mut call = given.clone();
                    call.control.controller.clone_from(controller);
                    call.link.trace.clone_from(trace);
                    call.link.seed = seed;
                    call.control.codec = codec.kind();
                    call.modelled = codec.is_modelled();
                    let mut job = Job {
                        key: String::new(),
                        codec,
                        model: arguments.model.clone().filter(|_| codec.is_modelled()),
                        model_hash: model_hash.clone().filter(|_| codec.is_modelled()),
                        estimator_hash: estimator_hash.clone(),
                        call,
                    };
                    job.key = key(&program, &job, &mut contents)?;
                    jobs.push(job);
                }
            }
        }
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(codec: SweepCodec, words: &[&str]) -> Job {
        let call = SimulateArguments::from_words(words.iter().map(|&word| word.to_owned())).unwrap();
        Job { key: String::new(), codec, model: None, model_hash: None, estimator_hash: None, call }
    }

    #[test]
    fn every_option_of_a_call_is_among_its_settings() {
        let usual = job(SweepCodec::Functional, &[]).settings().unwrap();
        // No call can have all of them at once.
        let link = [
            "--trace=constant:1mbps",
            "--reverse=constant:2mbps",
            "--queue=codel",
            "--queue-packets=9",
            "--delay-ms=1",
            "--loss=1%",
            "--reverse-loss=2%",
            "--burst-loss=1%,30%",
            "--loss-at=1s+1s",
            "--reorder=1%,15ms",
            "--jitter-ms=3",
            "--seed=4",
        ];
        let codec =
            ["--clip=generated:64x48@30", "--menu=fit", "--fit-passes=2", "--preset=quality", "--controller=sprout"];
        let call = ["--latency=low", "--max-bitrate=1mbps", "--seconds=5", "--encode-ms=6", "--decode-ms=7", "--vmaf"];
        let examples = [
            job(SweepCodec::Conventional, &[&link[..], &codec, &call].concat()),
            job(SweepCodec::Modelled, &["--controller=salsify", "--grace-period=none", "--queue-bytes=1000"]),
            job(SweepCodec::Functional, &["--menu=serial", "--estimator=mine.py", "--python=python3.9"]),
            job(SweepCodec::Modelled, &["--modelled"]),
        ];
        let said = examples.map(|example| example.settings().unwrap());
        for name in SimulateArguments::option_names().into_iter().map(|name| name.replace('-', "_")) {
            let differs =
                |settings: &Map<String, Value>| settings[&name] != Value::Null && settings[&name] != usual[&name];
            assert!(name == WITHOUT_EFFECT || said.iter().any(differs), "the settings of a call say nothing of {name}");
        }
        for name in CODEC_OPTIONS {
            assert_eq!(said[3][name], Value::Null, "a model does not heed {name}");
        }
    }

    #[test]
    fn another_setting_or_another_content_of_a_file_is_another_call() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("a.up");
        fs::write(&trace, "10\n20\n").unwrap();
        let words = [format!("--trace={}", trace.display())];
        let key = |change: &dyn Fn(&mut Job)| {
            let mut job = job(SweepCodec::Modelled, &words.each_ref().map(String::as_str));
            change(&mut job);
            key("this", &job, &mut Contents::default()).unwrap()
        };
        let before = key(&|_| ());
        let mut keys = vec![
            key(&|job| job.codec = SweepCodec::ModelledConventional),
            key(&|job| job.estimator_hash = Some("0".to_owned())),
            key(&|job| job.model_hash = Some("0".to_owned())),
            key(&|job| job.call.link.loss_at = vec![(std::time::Duration::ZERO, std::time::Duration::from_secs(1))]),
            key(&|job| job.call.estimator.python = Some("python3.9".to_owned())),
        ];
        assert_eq!(key(&|_| ()), before);
        fs::write(&trace, "10\n30\n").unwrap();
        keys.push(key(&|_| ()));
        keys.push(before);
        let different: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
    }

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
