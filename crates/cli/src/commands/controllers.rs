//! `lockstep controllers`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use lockstep_call::Tuning;
use lockstep_control::Controllers;
use lockstep_runner::output_file;
use lockstep_units::tuning::{Constant, Tuned, constants};

/// Arguments of `lockstep controllers`.
#[derive(Debug, Clone, Args)]
pub struct ControllersArguments {
    /// List the tuned constants of a call with the default controller: value, unit, range, meaning, experiment.
    /// `--tuning` of `lockstep simulate` and `lockstep sweep` overrides them.
    #[arg(long)]
    constants: bool,
    /// JSON file for the list; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A controller in the JSON document.
#[derive(Serialize)]
struct ControllerRow<'a> {
    name: &'a str,
    about: &'a str,
}

/// A tuned constant in the JSON document.
#[derive(Serialize)]
struct ConstantRow {
    name: String,
    value: f64,
    unit: &'static str,
    least: f64,
    most: f64,
    whole: bool,
    about: &'static str,
    lab: &'static str,
}

impl ConstantRow {
    fn of(tuned: &Tuned) -> Self {
        let Constant { about, unit, min, max, is_whole, lab, .. } = tuned.constant;
        Self { name: tuned.name(), value: tuned.value, unit, least: min, most: max, whole: is_whole, about, lab }
    }
}

/// Prints rows with aligned columns, followed by the last text.
fn print(rows: &[([String; 3], String)]) {
    let width = |column: usize| rows.iter().map(|(cells, _)| cells[column].len()).max().unwrap_or(0);
    let (first, second, third) = (width(0), width(1), width(2));
    for ([name, value, range], last) in rows {
        print_line!("{name:first$}   {value:second$}   {range:third$}   {last}");
    }
}

/// `lockstep controllers`.
pub fn run(arguments: &ControllersArguments, controllers: &Controllers) -> Result<()> {
    let tuned = constants(&Tuning::default());
    if let Some(path) = &arguments.json {
        return if arguments.constants {
            output_file::write_json(path, &tuned.iter().map(ConstantRow::of).collect::<Vec<_>>())
        } else {
            let rows: Vec<ControllerRow> =
                controllers.names().map(|(name, about)| ControllerRow { name, about }).collect();
            output_file::write_json(path, &rows)
        };
    }
    if !arguments.constants {
        let widest = controllers.names().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, meaning) in controllers.names() {
            print_line!("{name:widest$}   {meaning}");
        }
        return Ok(());
    }
    let row = |tuned: &Tuned| {
        let Constant { about, unit, min, max, lab, .. } = tuned.constant;
        let value = format!("{} {unit}", tuned.value).trim_end().to_owned();
        ([tuned.name(), value, format!("{min} to {max}")], format!("{about} (lab: {lab})"))
    };
    print(&tuned.iter().map(row).collect::<Vec<_>>());
    print_line!("\n{} tuned constants", tuned.len());
    Ok(())
}
