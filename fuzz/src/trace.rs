//! Parses arbitrary bytes as a trace in every format. A valid trace must answer all queries, survive writing and
//! reading again, and drive a link.

use std::time::Duration;

use lockstep_link::{ColumnUnits, Link, LinkConfig, RateUnit, TimeUnit, Trace, TraceFormat, parse_alphartc};
use lockstep_units::quantity::MAX_PERIOD;
use lockstep_units::{ByteCount, Timestamp};

use crate::memory::bounded;

/// Memory for 2^24 delivery opportunities, the limit of a specification: 64 MiB, and twice that while they grow. 2^20
/// segments need less.
const MEMORY: usize = 384 << 20;
/// Limit on parts of a trace that is written; more would only cost time.
const PARTS: usize = 2_000;
/// Packets sent over the link.
const PACKETS: u64 = 24;

fn questions(trace: &Trace, seed: u64) {
    let period = u64::try_from(trace.period().as_nanos()).unwrap_or(u64::MAX);
    let times = [0, 1, seed % period.max(1), period - 1, period, period + 1, 3 * period + seed % 7, seed, u64::MAX];
    for (index, at) in times.into_iter().enumerate() {
        let from = Timestamp::from_nanos(at);
        let _ = (trace.capacity_at(from), trace.conditions_at(from));
        let to = Timestamp::from_nanos(times[(index + 3) % times.len()]);
        let (bytes, _) = (trace.bytes_between(from, to), trace.mean_capacity(from, to));
        assert!(to > from || bytes == ByteCount::ZERO);
        for size in [1, 1_500, 1_501, 1 << 20, u64::MAX].map(ByteCount::new) {
            let Some(passed) = trace.time_to_pass(from, size) else { continue };
            assert!(passed > from || from == Timestamp::MAX);
            if passed == Timestamp::MAX {
                continue;
            }
            assert!(trace.bytes_between(from, passed) >= size, "{size:?} from {from} to {passed}");
            let before = Timestamp::from_nanos(passed.as_nanos() - 1);
            assert!(trace.bytes_between(from, before) < size, "{size:?} from {from} before {passed}");
        }
    }
}

fn round_trips(trace: &Trace) {
    let bin = Duration::from_secs(1).max(trace.period() / 1_000);
    let csv = trace.to_csv(bin).expect("few bins");
    let json = trace.to_alphartc_json(bin).expect("few bins");
    let stored = serde_json::to_string(trace).expect("a trace");
    assert!(serde_json::from_str::<Trace>(&stored).expect("a trace that was stored") == *trace, "{stored}");
    let again = Trace::from_bytes(csv.as_bytes()).unwrap_or_else(|error| panic!("{error}: {csv}"));
    let repeating = trace.with_end(lockstep_link::End::Repeat).expect("everything repeats");
    assert!(trace.has_opportunities() || again == repeating, "{csv}");
    // The parser limits the format's round-trip time to the bound of one-way delays.
    if trace.summary().longest_delay * 2 <= MAX_PERIOD {
        let again = parse_alphartc(&json).unwrap_or_else(|error| panic!("{error}: {json}")).uplink;
        assert!(trace.has_opportunities() || again == repeating, "{json}");
    }
}

fn link(trace: &Trace, seed: u64) {
    let mut link = Link::new(LinkConfig::new(trace.clone()), seed).expect("a plain link");
    let mut now = Timestamp::from_nanos(seed % 1_000_000_007);
    for packet in 0..PACKETS {
        let size = ByteCount::new(1 + (seed >> (packet % 48)) % 1_500);
        let _ = link.send(now, size, packet);
        now += Duration::from_micros((seed >> (packet % 32)) & 0xffff);
        while link.poll(now).is_some() {}
    }
    let mut asked = 0;
    while let Some(at) = link.poll_timeout() {
        now = now.max(at);
        while link.poll(now).is_some() {}
        asked += 1;
        assert!(asked < 10 * PACKETS, "the link has endless timeouts");
    }
}

fn read(choice: u8, bytes: &[u8]) -> Option<Trace> {
    let units = ColumnUnits {
        time: [TimeUnit::default(), TimeUnit::Milliseconds][usize::from(choice >> 4 & 1)],
        rate: [RateUnit::default(), RateUnit::KilobitsPerSecond][usize::from(choice >> 5 & 1)],
    };
    match choice % 8 {
        0 | 1 => Trace::from_bytes(bytes).ok(),
        2 => Trace::from_spec(std::str::from_utf8(bytes).ok()?).ok(),
        3 => parse_alphartc(std::str::from_utf8(bytes).ok()?).ok()?.downlink,
        4 => Trace::parse(TraceFormat::Columns(units), bytes).ok(),
        5 => Trace::parse(TraceFormat::Profile, bytes).ok(),
        6 => Trace::parse(TraceFormat::Mahimahi, bytes).ok(),
        _ => serde_json::from_slice(bytes).ok(),
    }
}

/// Input: one byte for the format, eight for times, then the trace.
pub fn run(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let Some((seed, bytes)) = rest.split_first_chunk() else { return };
    let seed = u64::from_le_bytes(*seed);
    bounded(MEMORY, || {
        let Some(trace) = read(choice, bytes) else { return };
        let summary = trace.summary();
        questions(&trace, seed);
        link(&trace, seed);
        if summary.parts <= PARTS {
            round_trips(&trace);
        }
    });
}
