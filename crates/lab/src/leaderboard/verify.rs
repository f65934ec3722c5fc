//! Runs the calls of submitted rows again, and compares every score exactly.

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use walkdir::WalkDir;

use lockstep_configuration::{CallArguments, ClipName, ControllerName, TraceName, content_hash};
use lockstep_control::Controllers;
use lockstep_link::Trace;
use lockstep_runner::progress::Progress;
use lockstep_runner::session_log::arguments::SessionArguments;
use lockstep_sim::in_parallel;

use crate::sweep::jobs::Job;
use crate::sweep::rows::SCORES;
use crate::sweep::submitted::{self, Submitted};
use crate::sweep::{Contents, call, contents};

/// Maximum number of files of a folder.
const MAX_FILES: usize = 100_000;

/// Arguments of `lockstep leaderboard verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// Rows of a sweep, as `lockstep sweep` writes them.
    rows: PathBuf,
    /// Number of rows to run; default: all.
    #[arg(long, value_name = "N")]
    sample: Option<NonZero<usize>>,
    /// Seed that selects the rows of --sample. A seed that the submitter does not know hides the selection.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder with traces, clips and models, which are found by their hashes. Default: the paths in the rows.
    #[arg(long, value_name = "FOLDER")]
    files: Option<PathBuf>,
    /// Run the estimators and programs that rows name. They are programs of the submitter, and run as you.
    #[arg(long)]
    run_programs: bool,
    /// Concurrent calls; default: the number of cores.
    #[arg(long, value_parser = crate::workers)]
    workers: Option<NonZero<usize>>,
}

/// Files of the verifier, by hash.
#[derive(Default)]
struct Files {
    contents: Contents,
    by_hash: HashMap<String, PathBuf>,
}

impl Files {
    /// Hashes every file of `folder`, if there is one.
    fn of(folder: Option<&Path>) -> Result<Self> {
        let mut files = Self::default();
        let Some(folder) = folder else { return Ok(files) };
        for (count, entry) in WalkDir::new(folder).sort_by_file_name().into_iter().enumerate() {
            let entry = entry.with_context(|| format!("--files {}", folder.display()))?;
            ensure!(count <= MAX_FILES, "--files {}: more than {MAX_FILES} files", folder.display());
            if entry.file_type().is_file() {
                let hash = files.contents.of_file(entry.path())?;
                files.by_hash.entry(hash).or_insert_with(|| entry.into_path());
            }
        }
        Ok(files)
    }

    /// The file with `hash`: that of the row, or the one in the folder. `what` names it in errors.
    fn find(&mut self, what: &str, path: &Path, hash: &str) -> Result<PathBuf> {
        if let Some(found) = self.by_hash.get(hash) {
            return Ok(found.clone());
        }
        let shown = path.display();
        if !path.is_file() {
            bail!("{what} {shown} is missing; put the file with SHA-256 {hash} into a folder for --files");
        }
        let found = self.contents.of_file(path)?;
        ensure!(
            found == hash,
            "{what} {shown} differs: SHA-256 {found}, in the row {hash}; put the right file into a folder for --files"
        );
        Ok(path.to_owned())
    }

    /// The trace `name`, whose file has `hash`.
    fn trace(&mut self, what: &str, name: TraceName, hash: Option<&String>) -> Result<TraceName> {
        let Some(hash) = hash else { return Ok(name) };
        let is_generated = Trace::is_spec(name.as_str()) && !Path::new(name.as_str()).exists();
        let found = self.find(what, name.as_path(), hash)?;
        // A fitted trace names its family file inside its own name.
        Ok(if is_generated { name } else { TraceName::from(&*found.to_string_lossy()) })
    }

    /// Settings of `row` with the files of this machine.
    fn placed(&mut self, row: &Submitted) -> Result<(CallArguments, Option<PathBuf>)> {
        let (mut arguments, hashes) = (row.arguments.clone(), &row.hashes);
        if let Some(trace) = arguments.trace.take() {
            arguments.trace = Some(self.trace("trace", trace, hashes.trace.as_ref())?);
        }
        if let Some(reverse) = arguments.reverse.take() {
            arguments.reverse = Some(self.trace("reverse trace", reverse, hashes.reverse.as_ref())?);
        }
        if let (Some(clip), Some(hash)) = (&arguments.clip, &hashes.clip) {
            arguments.clip = Some(ClipName::from(&*self.find("clip", clip.as_path(), hash)?.to_string_lossy()));
        }
        if let Some(model) = &arguments.model {
            let hash = hashes.model.as_ref().context("column `model_hash`: expected the hash of the model")?;
            arguments.model = Some(self.find("model", model, hash)?);
        }
        let codec_model = row.codec_model.as_deref().map(|path| {
            let hash = hashes.codec_model.as_ref().context("column `codec_model_hash`: expected a hash")?;
            self.find("codec model", path, hash)
        });
        Ok((arguments, codec_model.transpose()?))
    }
}

/// Refuses rows that would run programs of the submitter.
fn refuse_programs(row: &Submitted) -> Result<()> {
    let arguments = &row.arguments;
    let program = arguments.controller.as_ref().and_then(ControllerName::program);
    if let Some(program) = arguments.estimator.as_deref().or(program).or(arguments.python.as_deref()) {
        bail!("it runs the program {}; read the program, then pass --run-programs", program.display());
    }
    // Other names are inputs of ffmpeg, such as devices and addresses.
    let clip = arguments.clip.as_ref().map_or("", ClipName::as_str);
    let is_generated = clip == "generated" || clip.starts_with("generated:");
    ensure!(is_generated || row.hashes.clip.is_some(), "clip {clip}: expected a file or a generated clip");
    Ok(())
}

/// The job of `row`, with the same settings and files.
fn job(row: &Submitted, files: &mut Files, run_programs: bool, controllers: &Controllers) -> Result<Job> {
    if !run_programs {
        refuse_programs(row)?;
    }
    let (arguments, codec_model) = files.placed(row)?;
    let program = arguments.controller.as_ref().and_then(ControllerName::program);
    let estimator_hash = arguments.estimator.as_deref().or(program).map(contents::of_estimator).transpose()?;
    ensure!(
        estimator_hash == row.hashes.estimator,
        "the estimator or program differs: its folder has another hash than column `estimator_hash`"
    );
    let job = Job::new(row.name.clone(), row.codec, arguments.settings_with(controllers)?);
    let mut job = Job { codec_model, ..job };
    job.finish("", &mut files.contents)?;
    // A file of this machine may have the name of a generated trace.
    for (column, found, submitted) in [
        ("trace_hash", &job.trace_hash, &row.hashes.trace),
        ("reverse_hash", &job.reverse_hash, &row.hashes.reverse),
        ("clip_hash", &job.clip_hash, &row.hashes.clip),
    ] {
        let shown = |hash: &Option<String>| hash.clone().unwrap_or_else(|| "no file".to_owned());
        ensure!(found == submitted, "column `{column}`: {}, here {}", shown(submitted), shown(found));
    }
    Ok(job)
}

/// Differences of the scores, as text: the first, and the number of others.
fn difference(row: &Submitted, found: &[Option<f64>]) -> Option<String> {
    let shown = |value: Option<f64>| value.map_or("nothing".to_owned(), |value| value.to_string());
    let differing =
        SCORES.iter().zip(row.scores.iter().zip(found)).filter(|(_, (submitted, found))| submitted != found);
    let differing: Vec<String> = differing
        .map(|((score, _), (submitted, found))| {
            format!("{score} is {} in the row and {} here", shown(*submitted), shown(*found))
        })
        .collect();
    let first = differing.first()?;
    Some(match differing.len() {
        1 => first.clone(),
        count => format!("{first}; other differences: {}", count - 1),
    })
}

/// `rows` of a sample, in their order. Without a number, all.
fn sampled(mut rows: Vec<Submitted>, sample: Option<NonZero<usize>>, seed: u64) -> Vec<Submitted> {
    let Some(sample) = sample else { return rows };
    rows.sort_by_cached_key(|row| content_hash(format!("{seed}/{}", row.number).as_bytes()));
    rows.truncate(sample.get());
    rows.sort_by_key(|row| row.number);
    rows
}

/// `lockstep leaderboard verify`.
pub fn run(arguments: &VerifyArguments, controllers: &Controllers) -> Result<()> {
    let shown = arguments.rows.display();
    let rows = submitted::read(&arguments.rows)?;
    let all = rows.len();
    let rows = sampled(rows, arguments.sample, arguments.seed);
    let mut files = Files::of(arguments.files.as_deref())?;
    let jobs: Vec<Result<Job>> =
        rows.iter().map(|row| job(row, &mut files, arguments.run_programs, controllers)).collect();
    let cores = arguments.workers.or(available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN);
    let mut progress = Progress::new("verify", rows.len() as u64);
    let mut problems: Vec<Option<String>> = vec![None; rows.len()];
    let mut count = 0;
    let run = |job: &Result<Job>| match job {
        Ok(job) => call(job, &SessionArguments::default()).map_err(|error| format!("{error:#}")),
        Err(error) => Err(format!("{error:#}")),
    };
    in_parallel(&jobs, cores, run, |index, outcome| {
        count += 1;
        progress.update(count, &format!("{count} of {} calls", rows.len()));
        problems[index] = match outcome {
            Ok(scores) => {
                let found: Vec<Option<f64>> = SCORES.iter().map(|(_, score)| score(&scores)).collect();
                difference(&rows[index], &found)
            }
            Err(problem) => Some(problem),
        };
        true
    });
    progress.finish();
    let mut failed = 0;
    for (row, problem) in rows.iter().zip(problems) {
        let Some(problem) = problem else { continue };
        failed += 1;
        let trace = row.arguments.trace.as_ref().map(ToString::to_string).unwrap_or_default();
        let seed = row.arguments.seed.unwrap_or_default();
        print_line!("row {}: {} over {trace}, seed {seed}: {problem}", row.number, row.name);
    }
    if failed > 0 {
        bail!("cannot confirm {failed} of {} rows of {shown}", rows.len());
    }
    print_line!("{} of {all} rows of {shown} have exactly the scores of their calls", rows.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockstep_configuration::OptionValue;

    use crate::sweep::jobs::SweepCodec;
    use crate::sweep::submitted::Hashes;

    use super::*;

    fn row(number: usize, change: impl FnOnce(&mut CallArguments)) -> Submitted {
        let mut arguments = CallArguments { clip: CallArguments::usual().clip, ..CallArguments::default() };
        change(&mut arguments);
        let scores = vec![Some(1.0); SCORES.len()];
        let (name, codec, hashes) = ("a".to_owned(), SweepCodec::Modelled, Hashes::default());
        Submitted { number, name, codec, codec_model: None, arguments, hashes, scores }
    }

    #[test]
    fn rows_with_programs_or_inputs_of_ffmpeg_are_refused() {
        assert!(refuse_programs(&row(1, |_| ())).is_ok());
        let refused = |change: &dyn Fn(&mut CallArguments)| refuse_programs(&row(1, change)).unwrap_err().to_string();
        let program = ControllerName::from_word("program:./evil").unwrap();
        assert!(refused(&|given| given.controller = Some(program.clone())).contains("it runs the program ./evil"));
        assert!(refused(&|given| given.estimator = Some("evil.py".into())).contains("pass --run-programs"));
        assert!(refused(&|given| given.python = Some("/bin/evil".into())).contains("it runs the program"));
        assert!(
            refused(&|given| given.clip = Some(ClipName::from("http://a/b")))
                .contains("clip http://a/b: expected a file")
        );
    }

    #[test]
    fn files_are_found_by_hash_and_others_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other-name.up");
        std::fs::write(&path, "1\n2\n").unwrap();
        let hash = content_hash(b"1\n2\n");
        let mut files = Files::of(Some(folder.path())).unwrap();
        assert_eq!(files.find("trace", Path::new("x.up"), &hash).unwrap(), path);
        let mut files = Files::of(None).unwrap();
        assert_eq!(files.find("trace", &path, &hash).unwrap(), path);
        let error = files.find("trace", Path::new("x.up"), &hash).unwrap_err().to_string();
        assert!(error.starts_with("trace x.up is missing; put the file with SHA-256 "), "{error}");
        let error = files.find("trace", &path, "0").unwrap_err().to_string();
        assert!(error.contains("other-name.up differs: SHA-256 "), "{error}");
    }

    #[test]
    fn sample_depends_on_the_seed_and_keeps_the_order() {
        let rows: Vec<Submitted> = (1..=40).map(|number| row(number, |_| ())).collect();
        let numbers = |seed| {
            let sample = sampled(rows.clone(), NonZero::new(5), seed);
            sample.iter().map(|row| row.number).collect::<Vec<_>>()
        };
        assert!(numbers(1) == numbers(1) && numbers(1) != numbers(2));
        assert!(numbers(1).is_sorted() && numbers(1).len() == 5);
        assert_eq!(sampled(rows.clone(), NonZero::new(99), 1).len(), 40);
    }

    #[test]
    fn differences_name_the_first_score_and_both_values() {
        let row = row(1, |_| ());
        let mut found = row.scores.clone();
        assert_eq!(difference(&row, &found), None);
        found[0] = Some(2.0);
        assert_eq!(difference(&row, &found).unwrap(), "scored_seconds is 1 in the row and 2 here");
        found[1] = None;
        assert!(difference(&row, &found).unwrap().ends_with("; other differences: 1"));
    }
}
