//! The calls of a sweep.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use walkdir::WalkDir;

use lockstep_configuration::{
    CallArguments, CallRecord, CallSettings, CodecKind, ControllerName, NamedTrace, TraceName, content_hash,
};
use lockstep_control::Controllers;

use super::SweepArguments;
use super::contenders::{self, Contender};
use super::contents::{self, Contents};
use crate::data::with_splits;

/// Codec of a call in a sweep.
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

    /// Whether the codec is modelled, without pixels.
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

/// Maximum number of seeds in one range.
const MAX_SEEDS: u64 = 1_000_000;
/// Maximum number of calls in a sweep. Each requires several kB before it runs.
const MAX_CALLS: usize = 1_000_000;

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
                    if last < first || last - first >= MAX_SEEDS {
                        return Err(format!("expected a range of at most {MAX_SEEDS} seeds, got `{part}`"));
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
    /// Key of the call: its settings, the content of its input files and the program. Equal keys mean equal results.
    pub key: String,
    /// Its controller's unique name in rows and tables.
    pub name: String,
    /// Codec of its pictures.
    pub codec: SweepCodec,
    /// The codec model, if it is not the built-in one.
    pub codec_model: Option<PathBuf>,
    /// Hash of the codec model's file.
    pub codec_model_hash: Option<String>,
    /// Hash of the controller's model, if it is not the built-in one.
    pub model_hash: Option<String>,
    /// Hash of a foreign estimator or controller program, with all its input files.
    pub estimator_hash: Option<String>,
    /// Hash of the file of the trace.
    pub trace_hash: Option<String>,
    /// Hash of the file of the reverse trace.
    pub reverse_hash: Option<String>,
    /// Hash of the file of the clip.
    pub clip_hash: Option<String>,
    /// All other settings.
    pub call: CallSettings,
}

impl Job {
    /// Every setting of the call by its name; null if it is unset or does not apply.
    pub fn settings(&self) -> Map<String, Value> {
        let text = |value: Option<String>| value.map_or(Value::Null, Value::String);
        let path = |path: Option<&PathBuf>| text(path.map(|path| path.to_string_lossy().into_owned()));
        // The record for reports has every option. The sweep adds its own settings.
        let CallRecord(record) = self.call.record();
        let of_the_sweep = [
            ("codec", Value::String(self.codec.name().to_owned())),
            ("codec_model", path(self.codec_model.as_ref())),
            ("codec_model_hash", text(self.codec_model_hash.clone())),
            ("model_hash", text(self.model_hash.clone())),
            ("estimator_hash", text(self.estimator_hash.clone())),
            ("trace_hash", text(self.trace_hash.clone())),
            ("reverse_hash", text(self.reverse_hash.clone())),
            ("clip_hash", text(self.clip_hash.clone())),
            ("python", path(self.call.estimator.as_ref().and_then(|estimator| estimator.python.as_ref()))),
        ];
        record.into_iter().chain(of_the_sweep).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Description for messages.
    pub fn description(&self) -> String {
        let (link, codec) = (&self.call.link, self.codec.name());
        format!("{} with the codec {codec} over {}, seed {}", self.name, link.trace.name(), link.seed)
    }
}

/// The files in `folder` and below. Pipes and devices are skipped, because opening a pipe blocks.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let whole = folder.canonicalize().with_context(|| format!("cannot list {}", folder.display()))?;
    // The walk detects a link to a parent below the first folder. A link to a folder around the first one would repeat
    // everything.
    let leads_around = |path: &Path| path.is_symlink() && path.canonicalize().is_ok_and(|at| whole.starts_with(at));
    let entries = WalkDir::new(folder).follow_links(true).into_iter().filter_entry(|entry| {
        let is_around = entry.depth() > 0 && leads_around(entry.path());
        if is_around {
            eprint_line!(
                "lockstep: skipped: {}: a link to a folder around {}",
                entry.path().display(),
                folder.display()
            );
        }
        !is_around
    });
    for entry in entries {
        match entry {
            Ok(entry) if entry.file_type().is_file() => found.push(entry.into_path()),
            Ok(_) => {}
            // A link to a parent folder, or a broken link.
            Err(error) if error.depth() > 0 && error.path().is_some_and(Path::is_symlink) => {
                eprint_line!("lockstep: skipped: {error}");
            }
            Err(error) => return Err(error).with_context(|| format!("cannot list {}", folder.display())),
        }
    }
    Ok(found)
}

/// The traces of the arguments `named`.
fn traces(named: &[String]) -> Result<Vec<NamedTrace>> {
    let open = |name: &str| NamedTrace::open(&TraceName::from(name));
    let mut traces = Vec::new();
    for name in &with_splits(named)? {
        if !Path::new(name).is_dir() {
            traces.push(open(name)?);
            continue;
        }
        let before = traces.len();
        for path in files(Path::new(name))? {
            // A folder of traces may contain other files, such as a note about their source.
            match open(&path.to_string_lossy()) {
                Ok(trace) => traces.push(trace),
                Err(error) => eprint_line!("lockstep: skipped: {error:#}"),
            }
        }
        if traces.len() == before {
            bail!("the folder {name} has no trace");
        }
    }
    traces.sort_by(|one, other| one.name().as_str().cmp(other.name().as_str()));
    traces.dedup_by(|one, other| one.name() == other.name());
    Ok(traces)
}

impl Job {
    /// The call of `call` with `codec`, under the controller's name, without hashes and key.
    pub fn new(name: String, codec: SweepCodec, mut call: CallSettings) -> Self {
        call.control.codec = codec.kind();
        call.modelled = codec.is_modelled();
        Self {
            key: String::new(),
            name,
            codec,
            codec_model: None,
            codec_model_hash: None,
            model_hash: None,
            estimator_hash: None,
            trace_hash: None,
            reverse_hash: None,
            clip_hash: None,
            call,
        }
    }

    /// Sets the hashes of the files of traces and clip, and the key.
    pub fn finish(&mut self, program: &str, contents: &mut Contents) -> Result<()> {
        let mut hash = |path: &Path| path.is_file().then(|| contents.of_file(path)).transpose();
        let link = &self.call.link;
        self.trace_hash = hash(link.trace.name().as_path())?;
        self.reverse_hash = link.reverse.as_ref().map(|reverse| hash(reverse.name().as_path())).transpose()?.flatten();
        self.clip_hash = hash(self.call.clip.as_path())?;
        // The settings include the hashes.
        self.key = content_hash(format!("{program} {}", serde_json::to_string(&self.settings())?).as_bytes());
        Ok(())
    }
}

/// All calls of `arguments` in the order of the rows: by controller name, codec, trace and seed.
pub fn all(arguments: &SweepArguments, controllers: &Controllers) -> Result<Vec<Job>> {
    // `--codecs` sets the codec.
    let given = CallArguments { modelled: None, ..arguments.simulation.given().clone() };
    let usual = CallArguments::usual();
    let one_trace = given.trace.as_ref().or(usual.trace.as_ref()).map(ToString::to_string);
    let named = if arguments.traces.is_empty() { one_trace.into_iter().collect() } else { arguments.traces.clone() };
    let traces = traces(&named)?;
    let first_trace = traces.first().map(|trace| trace.name().clone());
    let contenders = contenders::all(&arguments.controllers, &given, controllers)?;
    let mut codecs = arguments.codecs.clone();
    codecs.sort_unstable();
    codecs.dedup();

    let calls = arguments.seeds.as_ref().map_or(1, |seeds| seeds.0.len());
    let calls = [contenders.len(), codecs.len(), traces.len()].iter().fold(calls, |all, &of| all.saturating_mul(of));
    if calls > MAX_CALLS {
        bail!("the sweep has {calls} calls, more than {MAX_CALLS}; give fewer seeds, traces or controllers");
    }

    let mut contents = Contents::default();
    let program = contents.of_this_program()?;
    let codec_model_hash = arguments.codec_model.as_deref().map(|path| contents.of_file(path)).transpose()?;
    let mut jobs = Vec::new();
    for Contender { name, controller, model, estimator } in contenders {
        let file = controller.as_ref().and_then(ControllerName::program);
        let estimator_hash = estimator.as_deref().or(file).map(contents::of_estimator).transpose()?;
        let model_hash = model.as_deref().map(|path| contents.of_file(path)).transpose()?;
        let trace = first_trace.clone();
        let settings = CallArguments { controller, model, estimator, trace, ..given.clone() };
        let settings = settings.settings_with(controllers)?;
        let seeds = arguments.seeds.as_ref().map_or_else(|| vec![settings.link.seed], |seeds| seeds.0.clone());
        for &codec in &codecs {
            for trace in &traces {
                for &seed in &seeds {
                    let mut call = settings.clone();
                    call.link.trace.clone_from(trace);
                    call.link.seed = seed;
                    let mut job = Job {
                        codec_model: arguments.codec_model.clone().filter(|_| codec.is_modelled()),
                        codec_model_hash: codec_model_hash.clone().filter(|_| codec.is_modelled()),
                        model_hash: model_hash.clone(),
                        estimator_hash: estimator_hash.clone(),
                        ..Job::new(name.clone(), codec, call)
                    };
                    job.finish(&program, &mut contents)?;
                    jobs.push(job);
                }
            }
        }
    }
    Ok(jobs)
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::time::Duration;

    use lockstep_link::LossInterval;

    use super::*;

    fn job(codec: SweepCodec, change: impl FnOnce(&mut CallArguments)) -> Job {
        let mut options = CallArguments { trace: Some(TraceName::from("constant:1mbps")), ..CallArguments::default() };
        change(&mut options);
        Job::new("a name".to_owned(), codec, options.settings().unwrap())
    }

    /// Calls that together have every option at an unusual value: no call can have all options at once.
    pub(in crate::sweep) fn examples() -> Vec<Job> {
        let examples: [(SweepCodec, &[(&str, &str)]); 6] = [
            (
                SweepCodec::Conventional,
                &[
                    ("clip", "generated:64x48@30"),
                    ("trace", "constant:2mbps"),
                    ("reverse", "constant:2mbps"),
                    ("queue", "codel"),
                    ("queue_packets", "9"),
                    ("delay_ms", "1.5"),
                    ("loss", "1%"),
                    ("reverse_loss", "2%"),
                    ("burst_loss", "1%,30%"),
                    ("loss_at", "1s+1s"),
                    ("reorder", "1%,15ms"),
                    ("jitter_ms", "3"),
                    ("seed", "4"),
                    ("fit_passes", "2"),
                    ("preset", "quality"),
                    ("controller", "sprout"),
                    ("latency", "low"),
                    ("max_bitrate", "1mbps"),
                    ("tuning", "silence.margin=0.2"),
                    ("seconds", "5"),
                    ("encode_ms", "6"),
                    ("encode_time", concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/src/encode_time.json")),
                    ("decode_ms", "7"),
                    ("feedback_ms", "8"),
                    ("two_way", "true"),
                    ("audio", "tone"),
                    ("vmaf", "true"),
                ],
            ),
            (
                SweepCodec::Modelled,
                &[("controller", "salsify"), ("grace_period", "none"), ("queue_bytes", "1000"), ("bound", "true")],
            ),
            (
                SweepCodec::Functional,
                &[
                    ("controller", "rlv"),
                    ("model", concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lockstep/learn/models/rlv.onnx")),
                ],
            ),
            (SweepCodec::Functional, &[("controller", "gcc"), ("queue", "codel"), ("ecn", "true")]),
            (SweepCodec::Functional, &[("as_published", "salsify")]),
            (
                SweepCodec::ModelledConventional,
                &[("menu", "serial"), ("estimator", "mine.py"), ("python", "python3.9")],
            ),
        ];
        let example = |(codec, settings): (SweepCodec, &[(&str, &str)])| {
            job(codec, |options| {
                for (name, word) in settings {
                    options.set_values(name, &[(*word).to_owned()]).unwrap();
                }
            })
        };
        examples.into_iter().map(example).collect()
    }

    #[test]
    fn settings_include_every_option_of_a_call() {
        let usual = job(SweepCodec::Functional, |_| ()).settings();
        let set: Vec<_> = examples().iter().map(Job::settings).collect();
        for option in CallArguments::TABLE {
            let name = option.name;
            let differs =
                |settings: &Map<String, Value>| settings[name] != Value::Null && settings[name] != usual[name];
            // The limit of an estimator ends a call or does not affect it.
            let is_in_settings = name == "estimator_limit" || set.iter().any(differs);
            assert!(is_in_settings, "the settings of a call lack {name}");
        }
    }

    #[test]
    fn key_changes_with_settings_and_file_contents() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("a.up");
        fs::write(&trace, "10\n20\n").unwrap();
        let name = TraceName::from(trace.to_str().unwrap());
        let key = |change: &dyn Fn(&mut Job)| {
            let mut job = job(SweepCodec::Modelled, |options| {
                options.trace = Some(name.clone());
                options.estimator = Some(PathBuf::from("mine.py"));
            });
            change(&mut job);
            job.finish("this", &mut Contents::default()).unwrap();
            job.key
        };
        let before = key(&|_| ());
        let mut keys = vec![
            key(&|job| job.codec = SweepCodec::ModelledConventional),
            key(&|job| job.estimator_hash = Some("0".to_owned())),
            key(&|job| job.model_hash = Some("0".to_owned())),
            key(&|job| job.codec_model_hash = Some("0".to_owned())),
            key(&|job| job.call.link.loss_at.push(LossInterval { from: Duration::ZERO, to: Duration::MAX, loss: 1.0 })),
            key(&|job| {
                job.call.estimator.as_mut().expect("it has one").python = Some(PathBuf::from("python3.9"));
            }),
        ];
        assert_eq!(key(&|_| ()), before);
        fs::write(&trace, "10\n30\n").unwrap();
        keys.push(key(&|_| ()));
        keys.push(before);
        let different: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
    }

    #[test]
    fn key_changes_with_the_content_of_a_family_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.json");
        let words = format!("fitted:family={},name=lte,seed=3", file.display());
        let mut families = lockstep_link::Families::built_in();
        let mut key = |step_ms| {
            families.families.iter_mut().for_each(|family| family.step_ms = step_ms);
            fs::write(&file, serde_json::to_string(&families).unwrap()).unwrap();
            let forward = job(SweepCodec::Modelled, |options| options.trace = Some(TraceName::from(&*words)));
            let reverse = job(SweepCodec::Modelled, |options| options.reverse = Some(TraceName::from(&*words)));
            [forward, reverse].map(|mut job| {
                job.finish("this", &mut Contents::default()).unwrap();
                job.key
            })
        };
        let before = key(100);
        assert_eq!(key(100), before);
        let after = key(200);
        assert!(after[0] != before[0] && after[1] != before[1]);
    }

    #[test]
    fn seeds_are_ranges_and_lists() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(seeds("3-5"), Ok(vec![3, 4, 5]));
        assert_eq!(seeds("7,1,2-3,3"), Ok(vec![1, 2, 3, 7]));
        assert!(seeds("5-3").unwrap_err().contains("expected a range"));
        assert!(seeds("0-99999999999").is_err());
        assert!(seeds("one").unwrap_err().contains("not like"));
    }
}
