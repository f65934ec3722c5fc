//! Splits a folder of traces: 80 % for training and 20 % for evaluation, and five walk-forward folds.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use lockstep_configuration::content_hash;
use lockstep_runner::output_file::write_text;

use super::folder;
use super::manifest::{File, Fold, Manifest, hash_of};

/// Percentage of traces for training.
const TRAINING: usize = 80;
/// Number of folds.
const FOLDS: usize = 5;

/// Arguments of `lockstep data split`.
#[derive(Debug, Clone, Args)]
pub struct SplitArguments {
    /// Folder of traces.
    folder: PathBuf,
    /// Seed that selects the part of each trace.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the manifest to this file as JSON.
    #[arg(long)]
    output: PathBuf,
}

/// Shuffles names by the hashes of seed and name. The order is the same on every machine.
pub fn shuffled(mut names: Vec<String>, seed: u64) -> Vec<String> {
    names.sort_by_cached_key(|name| (content_hash(format!("{seed}/{name}").as_bytes()), name.clone()));
    names
}

/// Number of training traces out of `traces`. Of two or more, neither part is empty; a single one is for training.
pub fn training(traces: usize) -> usize {
    if traces < 2 { traces } else { (traces * TRAINING / 100).clamp(1, traces - 1) }
}

/// Training and evaluation sets of each fold. The traces have six parts; the first is for training only.
fn walk_forward(names: &[String]) -> Vec<Fold> {
    let at = |part: usize| names.len() * part / (FOLDS + 1);
    let fold = |fold: usize| Fold { train: names[..at(fold)].to_vec(), test: names[at(fold)..at(fold + 1)].to_vec() };
    (1..=FOLDS).map(fold).collect()
}

/// `lockstep data split`.
pub fn run(arguments: &SplitArguments) -> Result<()> {
    let contents = folder::read(&arguments.folder)?;
    contents.print_skipped();
    let mut files = Vec::new();
    for found in &contents.traces {
        files.push(File { path: found.name.clone(), sha256: hash_of(&found.path)? });
    }
    let names = shuffled(files.iter().map(|file| file.path.clone()).collect(), arguments.seed);
    let (train, test) = names.split_at(training(names.len()));
    let manifest = Manifest {
        source: String::new(),
        folder: arguments.folder.display().to_string(),
        seed: arguments.seed,
        train: train.to_vec(),
        validation: Vec::new(),
        test: test.to_vec(),
        walk_forward: walk_forward(&names),
        files,
    };
    write_text(&arguments.output, &(serde_json::to_string_pretty(&manifest)? + "\n"))?;
    print_line!(
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
    fn order_depends_on_seed_and_names_only() {
        let mut backwards = names(50);
        backwards.reverse();
        assert_eq!(shuffled(names(50), 7), shuffled(backwards, 7));
        assert_ne!(shuffled(names(50), 7), shuffled(names(50), 8));
    }

    #[test]
    fn folds_evaluate_on_later_unseen_traces() {
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
