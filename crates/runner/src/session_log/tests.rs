use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

use lockstep_measure::{SentCounts, SessionMeter};

use super::rows::{VERSION, VERSION_KEY, second_columns, session_columns};
use super::*;
use crate::parquet_table::Kind;

/// The schema that Python also uses.
const SCHEMA: &str = include_str!("../../../../python/lockstep/sessions/schema.json");

fn described() -> Description {
    Description { session: 0x1234, kind: "send".to_owned(), seen_from: "sender", ..Description::default() }
}

fn seconds_of(meter: &mut SessionMeter, from: u64, until: u64) {
    for second in from..=until {
        let packets = 10 * second;
        meter.sent(Timestamp::ZERO + Duration::from_secs(second), SentCounts { packets, ..SentCounts::default() });
    }
}

fn rows(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(metadata.iter().any(|pair| pair.key == VERSION_KEY && pair.value.as_deref() == Some(VERSION)));
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

fn field(row: &Row, name: &str) -> Field {
    row.get_column_iter().find(|(column, _)| *column == name).unwrap().1.clone()
}

#[test]
fn the_columns_are_those_of_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!(schema["version"].to_string(), VERSION);
    assert_eq!(schema["metadata_key"], VERSION_KEY);
    let columns = |kind: &str| -> Vec<(String, String, bool)> {
        let text = |column: &Value, name: &str| column[name].as_str().unwrap().to_owned();
        let column = |column: &Value| (text(column, "name"), text(column, "type"), column["required"] == true);
        schema[kind].as_array().unwrap().iter().map(column).collect()
    };
    let written = |columns: Vec<(&'static str, crate::parquet_table::Values)>| -> Vec<(String, String, bool)> {
        let kind = |kind| match kind {
            Kind::Integers => ("int64", false),
            Kind::Names => ("int64", true),
            Kind::Small => ("int32", false),
            Kind::Texts => ("text", true),
            Kind::Flags => ("flag", true),
            Kind::Numbers => ("double", false),
        };
        // The file format allows null in these columns, but they are never null.
        let required = |name: &str, required| required || ["second", "seconds"].contains(&name);
        let column = |(name, values): (&str, crate::parquet_table::Values)| {
            let (of, there) = kind(values.kind());
            (name.to_owned(), of.to_owned(), required(name, there))
        };
        columns.into_iter().map(column).collect()
    };
    assert_eq!(written(session_columns(&[])), columns("sessions"));
    assert_eq!(written(second_columns(&[])), columns("seconds"));
}

#[test]
fn totals_follow_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let said =
        schema["sessions"].as_array().unwrap().iter().filter_map(|column| {
            Some((column["name"].as_str()?.to_owned(), column["of_seconds"].as_str()?.to_owned()))
        });
    let made =
        lockstep_measure::TOTAL_COLUMNS.map(|(name, total)| (name.to_owned(), format!("{total:?}").to_lowercase()));
    assert_eq!(said.collect::<Vec<_>>(), made);
}

#[test]
fn unfinished_log_has_the_rows_of_its_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SessionLog::create(folder.path(), described()).unwrap();
    let mut meter = SessionMeter::new(Timestamp::ZERO);
    seconds_of(&mut meter, 0, 60);
    log.checkpoint(settled(&mut meter)).unwrap();
    let files = Files::new(folder.path(), "send-0000000000001234-sender".to_owned()).unwrap();
    let session = &rows(&files.sessions())[0];
    assert_eq!((field(session, "seconds"), field(session, "complete")), (Field::Int(55), Field::Bool(false)));
    assert_eq!(rows(&files.seconds(0)).len(), 55);
    seconds_of(&mut meter, 61, 100);
    log.finish(&mut meter, u64::MAX).unwrap();
    let session = &rows(&files.sessions())[0];
    assert_eq!((field(session, "seconds"), field(session, "complete")), (Field::Int(100), Field::Bool(true)));
    assert_eq!(field(session, "packets_sent"), Field::Long(1_000));
    assert_eq!(field(session, "rtt_us"), Field::Null);
    let seconds = rows(&files.seconds(0));
    assert_eq!((seconds.len(), field(&seconds[99], "second")), (100, Field::Int(99)));
    assert_eq!(field(&seconds[99], "session"), Field::Long(0x1234));
}

#[test]
fn a_long_session_is_written_in_parts_of_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SessionLog::create(folder.path(), described()).unwrap();
    let mut meter = SessionMeter::new(Timestamp::ZERO);
    seconds_of(&mut meter, 0, 3_700);
    log.checkpoint(settled(&mut meter)).unwrap();
    assert!(log.rows.len() < 100, "a full part is written and removed");
    seconds_of(&mut meter, 3_701, 4_000);
    log.finish(&mut meter, u64::MAX).unwrap();
    let files = Files::new(folder.path(), "send-0000000000001234-sender".to_owned()).unwrap();
    let parts = [0, 1].map(|part| rows(&files.seconds(part)));
    assert_eq!(parts.each_ref().map(Vec::len), [3_600, 400]);
    assert_eq!(field(&parts[1][0], "second"), Field::Int(3_600));
    assert_eq!(field(&rows(&files.sessions())[0], "seconds"), Field::Int(4_000));
}

#[test]
fn live_log_is_written_during_the_call_and_complete_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let log = SessionLog::create(folder.path(), described()).unwrap();
    let mut live = LiveSessionLog::new(log, Timestamp::ZERO);
    for second in 0..=200 {
        let (now, packets) = (Timestamp::ZERO + Duration::from_secs(second), 10 * second);
        live.meter(now).sent(now, SentCounts { packets, ..SentCounts::default() });
        live.tick(now);
    }
    live.finish().unwrap();
    let files = Files::new(folder.path(), "send-0000000000001234-sender".to_owned()).unwrap();
    assert_eq!(rows(&files.seconds(0)).len(), 200);
    let session = &rows(&files.sessions())[0];
    assert_eq!((field(session, "seconds"), field(session, "complete")), (Field::Int(200), Field::Bool(true)));
    assert_eq!(field(session, "packets_sent"), Field::Long(2_000));
}
