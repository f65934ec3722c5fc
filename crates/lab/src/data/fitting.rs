//! `lockstep data fit`: fits a family of generated traces to the recordings of a folder.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;

use lockstep_configuration::read_families;
use lockstep_link::fit::{fit, held_out_error};
use lockstep_link::{Families, Family, Trace};
use lockstep_runner::output_file::write_text;

use super::{folder, split};

/// Validates the name of a family, which must suit the name of a trace.
fn family_name(word: &str) -> Result<String, String> {
    Family::check_name(word).map(|()| word.to_owned())
}

/// Arguments of `lockstep data fit`.
#[derive(Debug, Clone, Args)]
pub struct FitArguments {
    /// Folders of recordings, or single recordings.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Name of the family.
    #[arg(long, default_value = "fitted", value_parser = family_name)]
    family: String,
    /// Description of the recordings for users of the family; their names by default.
    #[arg(long)]
    provenance: Option<String>,
    /// Seed that selects the held-out fifth of the recordings.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Generated traces per held-out one.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    generated: u64,
    /// Write the family to this JSON file. A family of the same name is replaced, others stay.
    #[arg(long)]
    output: Option<PathBuf>,
}

fn show(family: &Family) {
    print_line!("family {}   steps of {} ms   {}", family.name, family.step_ms, family.provenance);
    let quantile = |values: &[f64], index: usize| values.get(index).copied().unwrap_or(0.0);
    let mean = |index| quantile(&family.mean_bps, index) / 1e6;
    print_line!("means         {:.2} to {:.2} Mb/s, median {:.2}", mean(0), mean(10), mean(5));
    let steps = |index| quantile(&family.outage_steps, index) * f64::from(family.step_ms) / 1e3;
    let every = f64::from(family.step_ms) / 1e3 / family.outage_start.max(1e-12);
    match family.outage_start > 0.0 {
        true => {
            print_line!(
                "outages       one in {every:.0} s, {:.1} to {:.1} s, median {:.1}",
                steps(0),
                steps(10),
                steps(5)
            )
        }
        false => print_line!("outages       none"),
    }
    let Some(error) = &family.held_out else { return };
    print_line!("held out      {} traces, fitted to {}; mean and worst of them", error.traces.1, error.traces.0);
    if let Some((mean, worst)) = error.rates_100ms {
        print_line!("rates, 100 ms {mean:.3}   {worst:.3}   (largest difference of the distributions, 0-1)");
    }
    print_line!("rates, 1 s    {:.3}   {:.3}", error.rates_1s.0, error.rates_1s.1);
    print_line!("rates, 10 s   {:.3}   {:.3}", error.rates_10s.0, error.rates_10s.1);
    let (second, five) = (error.autocorrelation_1s, error.autocorrelation_5s);
    print_line!("correlation   {:.3}   {:.3}   at 1 s; {:.3}   {:.3}   at 5 s", second.0, second.1, five.0, five.1);
    match error.outage_lengths {
        Some(distance) => print_line!("outages       {distance:.3}   (of the lengths of all)"),
        None => print_line!("outages       none to compare"),
    }
}

/// Name of a trace of `family` in the file `path` with `families`.
fn words_of_trace(path: &Path, family: &str, families: &Families) -> String {
    let name = if families.families.len() > 1 { format!(",name={family}") } else { String::new() };
    let words = |here| format!("fitted:family={here}{}{name},seed=1", path.display());
    // Without a folder, the path may look like a built-in family.
    if Trace::family_file(&words("")).is_some() { words("") } else { words("./") }
}

/// `lockstep data fit`.
pub fn run(arguments: &FitArguments) -> Result<()> {
    let mut found = Vec::new();
    for folder in &arguments.folders {
        let contents = folder::read(folder)?;
        contents.print_skipped();
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
    // An unreadable file may hold families, which must not be overwritten.
    let mut families = read_families(path)?.unwrap_or_else(|| Families { families: Vec::new() });
    let name = family.name.clone();
    families.families.retain(|other| other.name != name);
    families.families.push(family);
    families.families.sort_by(|one, other| one.name.cmp(&other.name));
    let text = serde_json::to_string(&families)? + "\n";
    if let Err(why) = Families::from_json(&text) {
        bail!("cannot read {}, so it is not overwritten: {why}", path.display());
    }
    write_text(path, &text)?;
    print_line!("written to {}", path.display());
    let words = words_of_trace(path, &name, &families);
    // A path with commas does not suit the name of a trace, and standard output is not a file.
    if Trace::family_file(&words).is_some_and(Path::is_file) {
        print_line!("a trace of it is {words}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use lockstep_configuration::open_trace;

    use super::*;

    fn fitted(folder: &Path, family: &str, recordings: &[&str], output: &Path) -> Result<()> {
        let folder = folder.join(family);
        fs::create_dir_all(&folder).unwrap();
        for (number, words) in recordings.iter().enumerate() {
            let trace = Trace::from_spec(words).unwrap();
            let json = trace.to_alphartc_json(Duration::from_millis(100)).unwrap();
            fs::write(folder.join(format!("{number}.json")), json).unwrap();
        }
        run(&FitArguments {
            folders: vec![folder],
            family: family.to_owned(),
            provenance: None,
            seed: 1,
            generated: 1,
            output: Some(output.to_owned()),
        })
    }

    #[test]
    fn fitted_family_generates_traces() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("mine.json");
        let recordings = [1, 2, 3].map(|seed| format!("cellular:mean=2mbps,seed={seed},duration=60s"));
        fitted(folder.path(), "mine", &recordings.each_ref().map(String::as_str), &output).unwrap();
        let families = read_families(&output).unwrap().unwrap();
        let trace = |name: &str| {
            let words = words_of_trace(&output, name, &read_families(&output).unwrap().unwrap());
            open_trace(&words).unwrap_or_else(|error| panic!("{words}: {error:#}"))
        };
        let direct =
            |families: &Families, name| families.named(name).unwrap().trace(Duration::from_secs(120), 1, None).unwrap();
        let mine = trace("mine");
        assert_eq!(mine, direct(&families, "mine"));
        let recordings = [4, 5].map(|seed| format!("cellular:mean=9mbps,seed={seed},duration=60s"));
        fitted(folder.path(), "fast", &recordings.each_ref().map(String::as_str), &output).unwrap_err();
        let recordings = [4, 5, 6].map(|seed| format!("cellular:mean=9mbps,seed={seed},duration=60s"));
        fitted(folder.path(), "fast", &recordings.each_ref().map(String::as_str), &output).unwrap();
        assert_eq!(trace("mine"), mine, "the other family stays");
        assert_ne!(trace("fast"), mine);
    }

    #[test]
    fn printed_trace_name_is_accepted() {
        let families = Families::built_in();
        let one = Families { families: vec![families.families[0].clone()] };
        let words = |path: &str, families| words_of_trace(Path::new(path), "lte", families);
        assert_eq!(words("mine.json", &one), "fitted:family=mine.json,seed=1");
        assert_eq!(words("mine", &one), "fitted:family=./mine,seed=1");
        assert_eq!(words("a/mine", &families), "fitted:family=a/mine,name=lte,seed=1");
        assert_eq!(Trace::family_file(&words("a,b.json", &one)), None);
    }

    #[test]
    fn invalid_family_name_is_refused_before_the_fit() {
        assert!(family_name("mine").is_ok());
        assert!(family_name("a,b").is_err() && family_name("").is_err());
    }

    #[test]
    fn unreadable_family_file_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("families.json");
        assert_eq!(read_families(&path).unwrap(), None);
        fs::write(&path, b"{\"families\": [], \"note\": \"\xff\"}").unwrap();
        let said = format!("{:#}", read_families(&path).unwrap_err());
        assert!(said.contains("families.json") && said.contains("not text"), "{said}");
        assert!(read_families(folder.path()).is_err());
    }
}
