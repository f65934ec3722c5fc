//! Packet log of an emulator: a CSV file with a row for each delivered or dropped packet.
//!
//! The file grows during the run, so that a killed emulator leaves its rows.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use lockstep_emulator::{Fate, PacketLog, PacketRecord};
use lockstep_runner::output_file::is_standard_output;
use lockstep_units::Timestamp;

/// Columns. Times are seconds since 1970, by this machine's clock at the start plus a monotonic clock.
///
/// `out_s` of a dropped packet is the time at which the drop was detected.
const COLUMNS: [&str; 8] = ["direction", "bytes", "in_s", "out_s", "fate", "queueing_ms", "late_ms", "marked"];

/// A log that is being written.
pub struct PacketCsv {
    name: String,
    writer: Arc<Mutex<csv::Writer<File>>>,
}

fn seconds(at: Timestamp) -> String {
    let nanoseconds = at.as_nanos();
    format!("{}.{:06}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000 / 1_000)
}

fn row(record: &PacketRecord) -> [String; COLUMNS.len()] {
    let milliseconds = |time: Duration| format!("{:.3}", time.as_secs_f64() * 1e3);
    let (queueing, late, marked) = match record.fate {
        Fate::Delivered { queueing_delay, late, marked } => {
            (milliseconds(queueing_delay), milliseconds(late), u8::from(marked).to_string())
        }
        _ => Default::default(),
    };
    [
        record.direction.word().to_owned(),
        record.size.get().to_string(),
        seconds(record.in_at),
        seconds(record.out_at),
        record.fate.word().to_owned(),
        queueing,
        late,
        marked,
    ]
}

impl PacketCsv {
    /// Creates a log at `path`, and the callback that receives packets.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path) -> Result<(Self, PacketLog)> {
        if is_standard_output(path) {
            bail!("--log requires a file");
        }
        let name = path.display().to_string();
        let file = File::create(path).with_context(|| format!("cannot create {name}"))?;
        let mut writer = csv::Writer::from_writer(file);
        writer.write_record(COLUMNS).with_context(|| format!("cannot write {name}"))?;
        let writer = Arc::new(Mutex::new(writer));
        let own = writer.clone();
        let log: PacketLog = Box::new(move |record| {
            if let Ok(mut writer) = own.lock() {
                // `flush` reports the error.
                let _ = writer.write_record(row(record));
            }
        });
        Ok((Self { name, writer }, log))
    }

    /// Flushes the rows.
    ///
    /// # Errors
    /// If this or an earlier write fails.
    pub fn flush(&self) -> Result<()> {
        let mut writer =
            self.writer.lock().map_err(|_| anyhow!("cannot write {}: an earlier write failed", self.name))?;
        writer.flush().with_context(|| format!("cannot write {}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use lockstep_emulator::Direction;
    use lockstep_link::DropReason;
    use lockstep_units::ByteCount;

    use super::*;

    #[test]
    fn row_has_the_columns_and_the_fate_of_its_packet() {
        let (in_at, out_at) =
            (Timestamp::from_micros(1_500_000_000_000_001), Timestamp::from_micros(1_500_000_000_020_101));
        let size = ByteCount::new(1_500);
        let record = |fate| PacketRecord { direction: Direction::Reverse, size, in_at, out_at, fate };
        let (queueing_delay, late) = (Duration::from_micros(1_250), Duration::from_micros(35));
        let delivered = row(&record(Fate::Delivered { queueing_delay, late, marked: true }));
        assert_eq!(delivered.join(","), "reverse,1500,1500000000.000001,1500000000.020101,delivered,1.250,0.035,1");
        let dropped = row(&record(Fate::Dropped(Some(DropReason::Queue))));
        assert_eq!(dropped.join(","), "reverse,1500,1500000000.000001,1500000000.020101,queue,,,");
    }
}
