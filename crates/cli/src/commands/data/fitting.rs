//! `lockstep data fit`: a family of generated traces like those of a folder.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use lockstep_link::fit::{fit, held_out_error};
use lockstep_link::{Families, Family, Trace};

use super::{folder, split};
use crate::configuration::read_regular_text;
use crate::output_file::write_text;

/// What `lockstep data fit` is told.
#[derive(Debug, Clone, Args)]
pub struct FitArguments {
    /// Folders of recordings, or single ones.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// What the family is called.
    #[arg(long, default_value = "fitted")]
    family: String,
    /// What the recordings are, for those who use the family; their names if not given.
    #[arg(long)]
    provenance: Option<String>,
    /// What decides which fifth of the recordings is held out.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Traces that are generated for each one held out.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    generated: u64,
    /// Where the family goes, JSON; one that is there and called the same is replaced, others stay.
    #[arg(long)]
    output: Option<PathBuf>,
}

fn show(family: &Family) {
    say!("family {}   steps of {} ms   {}", family.name, family.step_ms, family.provenance);
    let quantile = |values: &[f64], index: usize| values.get(index).copied().unwrap_or(0.0);
    let mean = |index| quantile(&family.mean_bps, index) / 1e6;
    say!("means         {:.2} to {:.2} Mb/s, median {:.2}", mean(0), mean(10), mean(5));
    let steps = |index| quantile(&family.outage_steps, index) * f64::from(family.step_ms) / 1e3;
    let every = f64::from(family.step_ms) / 1e3 / family.outage_start.max(1e-12);
    match family.outage_start > 0.0 {
        true => {
            say!("outages       one in {every:.0} s, {:.1} to {:.1} s, median {:.1}", steps(0), steps(10), steps(5))
        }
        false => say!("outages       none"),
    }
    let Some(error) = &family.held_out else { return };
    say!("held out      {} traces, fitted to {}; mean and worst of them", error.traces.1, error.traces.0);
    if let Some((mean, worst)) = error.rates_100ms {
        say!("rates, 100 ms {mean:.3}   {worst:.3}   (largest difference of the distributions, 0-1)");
    }
    say!("rates, 1 s    {:.3}   {:.3}", error.rates_1s.0, error.rates_1s.1);
    say!("rates, 10 s   {:.3}   {:.3}", error.rates_10s.0, error.rates_10s.1);
    let (second, five) = (error.autocorrelation_1s, error.autocorrelation_5s);
    say!("correlation   {:.3}   {:.3}   at 1 s; {:.3}   {:.3}   at 5 s", second.0, second.1, five.0, five.1);
    match error.outage_lengths {
        Some(distance) => say!("outages       {distance:.3}   (of the lengths of all)"),
        None => say!("outages       none to compare"),
    }
}

/// The families that are in the file `path`; none if there is no such file.
fn families_in(path: &Path) -> Result<Families> {
    match read_regular_text(path) {
        Ok(text) => Families::from_json(&text).map_err(|why| anyhow::anyhow!("{}: {why}", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Families { families: Vec::new() }),
        // What cannot be read may hold families, and would be written over.
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// `lockstep data fit`.
pub fn run(arguments: &FitArguments) -> Result<()> {
    let mut found = Vec::new();
    for folder in &arguments.folders {
        let contents = folder::read(folder)?;
        contents.say_unread();
        found.extend(contents.traces);
    }
    let order = split::shuffled(found.iter().map(|found| found.name.clone()).collect(), arguments.seed);
    let (train, test) = order.split_at(split::training(order.len()));
    let part = |names: &[String]| -> Vec<&Trace> {
        found.iter().filter(|found| names.contains(&found.name)).map(|found| &found.trace).collect()
    };
    let (train, test) = (part(train), part(test));
    if test.is_empty() {
        bail!("one trace cannot be fitted to and held out; give two at least");
    }
    let provenance = arguments.provenance.clone().unwrap_or_else(|| {
        let folders: Vec<String> = arguments.folders.iter().map(|folder| folder.display().to_string()).collect();
        format!("{} recordings of {}", found.len(), folders.join(", "))
    });
    let mut family = fit(&arguments.family, &provenance, &train)?;
    family.held_out = Some(held_out_error(&family, &test, train.len(), arguments.generated));
    show(&family);
    let Some(path) = &arguments.output else { return Ok(()) };
    let mut families = families_in(path)?;
    families.families.retain(|other| other.name != family.name);
    families.families.push(family);
    families.families.sort_by(|one, other| one.name.cmp(&other.name));
    write_text(path, &(serde_json::to_string(&families)? + "\n"))?;
    say!("written to {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_has_no_families_and_one_that_cannot_be_read_is_not_taken_for_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("families.json");
        assert!(families_in(&path).unwrap().families.is_empty());
        std::fs::write(&path, b"{\"families\": [], \"note\": \"\xff\"}").unwrap();
        let said = format!("{:#}", families_in(&path).unwrap_err());
        assert!(said.contains("families.json") && said.contains("no text"), "{said}");
        assert!(families_in(folder.path()).is_err());
    }
}
