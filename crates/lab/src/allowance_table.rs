//! Writes a Parquet file with the recorded and the replayed allowances, one row per decision. Memory stays constant,
//! except for the index of row groups.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use lockstep_control::recording::Answer;
use lockstep_control::{Allowance, InFlight};
use lockstep_runner::output_file::OutputFile;
use lockstep_runner::parquet_table::{Kind, TableWriter, Values};

/// Rows per row group.
const ROW_GROUP: usize = 1 << 14;

/// The columns: integers in the units that their names end in.
const COLUMNS: [&str; 9] = [
    "event",
    "at_ns",
    "on_the_way_bytes",
    "recorded_budget_bytes",
    "replayed_budget_bytes",
    "recorded_pacing_ns",
    "replayed_pacing_ns",
    "recorded_target_bps",
    "replayed_target_bps",
];

/// A table that is being written.
pub struct AllowanceTable {
    table: TableWriter,
    columns: Vec<Values>,
    rows: usize,
    path: PathBuf,
}

/// Checks that the name of the file ends in `.parquet`.
pub fn check_name(path: &Path) -> Result<()> {
    if path.extension().is_none_or(|extension| extension != "parquet") {
        bail!("--allowances {}: the name must end in .parquet", path.display());
    }
    Ok(())
}

/// Converts to 63 bits. Larger numbers saturate.
fn integer(number: u64) -> Option<i64> {
    Some(i64::try_from(number).unwrap_or(i64::MAX))
}

impl AllowanceTable {
    /// Creates a table at `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let columns = COLUMNS.map(|name| (name, Kind::Integers));
        let table = TableWriter::new(OutputFile::create(path)?, "allowance", &columns)?;
        let columns = columns.iter().map(|(_, kind)| Values::of(*kind)).collect();
        Ok(Self { table, columns, rows: 0, path: path.to_owned() })
    }

    /// Appends the recorded and the replayed answer to event `number`, if they are allowances.
    pub fn add(&mut self, number: u64, recorded: &Answer, replayed: &Answer) -> Result<()> {
        let Answer::Allowance(at, InFlight { bytes, .. }, recorded) = recorded else { return Ok(()) };
        let Answer::Allowance(_, _, replayed) = replayed else { return Ok(()) };
        let nanos = |allowance: &Allowance| u64::try_from(allowance.pacing_interval.as_nanos()).unwrap_or(u64::MAX);
        let row = [
            number,
            at.as_nanos(),
            bytes.get(),
            recorded.budget.get(),
            replayed.budget.get(),
            nanos(recorded),
            nanos(replayed),
            recorded.target.as_bps(),
            replayed.target.as_bps(),
        ];
        for (column, value) in self.columns.iter_mut().zip(row) {
            if let Values::Integers(values) = column {
                values.push(integer(value));
            }
        }
        self.rows += 1;
        if self.rows == ROW_GROUP { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<()> {
        let written = self.table.write_group(&self.columns);
        self.columns.iter_mut().for_each(Values::clear);
        self.rows = 0;
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Writes the rest. Without this call, no file is created.
    pub fn finish(mut self) -> Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let written = self.table.finish().with_context(|| format!("cannot write {}", self.path.display()))?;
        written.finish()
    }
}
