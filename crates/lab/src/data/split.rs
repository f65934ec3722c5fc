//! Parts of a folder of traces: 80 % to train on and 20 % to judge by, and five folds that walk forward.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use lockstep_configuration::{content_hash, open_regular_file};
use lockstep_runner::output_file::write_text;

use super::folder;

/// Of a hundred traces, so many are for training.
const TRAINING: usize = 80;
/// How many folds there are.
const FOLDS: usize = 5;

/// What `lockstep data split` is told.
#[derive(Debug, Clone, Args)]
pub struct SplitArguments {
    /// The folder of traces.
    folder: PathBuf,
    /// What decides which trace is in which part.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the manifest goes, JSON.
    #[arg(long)]
    output: PathBuf,
}

#[derive(Debug, Serialize)]
struct File {
    path: String,
    sha256: String,
}

/// One step forward: trained on all parts before the one it is judged by.
#[derive(Debug, Serialize)]
struct Fold {
    train: Vec<String>,
    test: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Manifest {
    folder: String,
    seed: u64,
    files: Vec<File>,
    train: Vec<String>,
    test: Vec<String>,
    walk_forward: Vec<Fold>,
}

/// The SHA-256 of the regular file `path`.
fn hash_of(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = open_regular_file(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.with_context(|| path.display().to_string())?;
    Ok(content_hash(&bytes))
}

/// The same for the same names and seed, on every machine: the order of the hashes of seed and name.
pub fn shuffled(mut names: Vec<String>, seed: u64) -> Vec<String> {
    names.sort_by_cached_key(|name| (content_hash(format!("{seed}/{name}").as_bytes()), name.clone()));
    names
}

/// How many of `traces` are for training: never all, never none, where there are two; a single one is for training.
pub fn training(traces: usize) -> usize {
    if traces < 2 { traces } else { (traces * TRAINING / 100).clamp(1, traces - 1) }
}

/// For each fold what it is trained on and what it is judged by: the traces in six parts, of which the first is only
/// trained on.
fn walk_forward(names: &[String]) -> Vec<Fold> {
    let at = |part: usize| names.len() * part / (FOLDS + 1);
    let fold = |fold: usize| Fold { train: names[..at(fold)].to_vec(), test: names[at(fold)..at(fold + 1)].to_vec() };
    (1..=FOLDS).map(fold).collect()
}

/// `lockstep data split`.
pub fn run(arguments: &SplitArguments) -> Result<()> {
    let contents = folder::read(&arguments.folder)?;
    contents.say_unread();
    let mut files = Vec::new();
    for found in &contents.traces {
        files.push(File { path: found.name.clone(), sha256: hash_of(&found.path)? });
    }
    let names = shuffled(files.iter().map(|file| file.path.clone()).collect(), arguments.seed);
    let (train, test) = names.split_at(training(names.len()));
    let manifest = Manifest {
        folder: arguments.folder.display().to_string(),
        seed: arguments.seed,
        train: train.to_vec(),
        test: test.to_vec(),
        walk_forward: walk_forward(&names),
        files,
    };
    write_text(&arguments.output, &(serde_json::to_string_pretty(&manifest)? + "\n"))?;
    say!(
        "{} traces to train on, {} to judge by, {FOLDS} folds: {}",
        manifest.train.len(),
        manifest.test.len(),
        arguments.output.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("trace_{index}")).collect()
    }

    #[test]
    fn a_seed_gives_the_same_order_whatever_order_the_files_were_found_in() {
        let mut backwards = names(50);
        backwards.reverse();
        assert_eq!(shuffled(names(50), 7), shuffled(backwards, 7));
        assert_ne!(shuffled(names(50), 7), shuffled(names(50), 8));
    }

    #[test]
    fn every_fold_is_judged_by_traces_that_it_was_not_trained_on_and_that_come_later() {
        let order = shuffled(names(60), 1);
        let folds = walk_forward(&order);
        assert_eq!(folds.len(), FOLDS);
        for fold in &folds {
            assert_eq!(fold.test.len(), 10);
            assert!(fold.test.iter().all(|name| !fold.train.contains(name)));
            assert_eq!(order[..fold.train.len()], fold.train[..]);
        }
        assert_eq!([training(0), training(1), training(2), training(5), training(100)], [0, 1, 1, 4, 80]);
    }
}
