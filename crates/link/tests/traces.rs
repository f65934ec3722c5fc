//! Tests of reading and writing traces.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockstep_link::{
    ColumnUnits, Conditions, End, OPPORTUNITY, Problem, RateUnit, Segment, TimeUnit, Trace, TraceError, TraceFormat,
    parse_alphartc,
};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use proptest::prelude::*;

fn ms(milliseconds: u64) -> Timestamp {
    Timestamp::from_millis(milliseconds)
}

fn span(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn rates(trace: &Trace) -> Vec<(u64, u64)> {
    let segments = trace.to_segments(span(1)).unwrap();
    segments.iter().map(|s| (s.duration.as_millis() as u64, s.rate.as_bps())).collect()
}

#[test]
fn mahimahi_file_repeats_at_its_last_line() {
    let trace = Trace::from_bytes(b"0\n0\r\n4\n10\n\n").unwrap();
    assert_eq!((trace.period(), trace.end()), (span(10), End::Repeat));
    // The two opportunities at zero are over when the trace starts. They recur at 10, 20, ... with the last one.
    let counts = [(0, 3), (3, 4), (4, 9), (9, 10), (0, 10), (10, 20), (5, 1_005)]
        .map(|(from, to)| trace.bytes_between(ms(from), ms(to)).get() / OPPORTUNITY.get());
    assert_eq!(counts, [0, 1, 0, 3, 4, 4, 400]);
    assert_eq!(trace.time_to_pass(ms(3), ByteCount::new(1_501)), Some(ms(10)));
    assert_eq!(trace.mean_capacity(ms(0), ms(10)), Bitrate::from_kbps(4_800));
}

#[test]
fn columns_are_read_with_and_without_header_in_any_unit() {
    let expected = vec![(1_000, 500_000), (2_000, 1_500_000), (2_000, 0)];
    let thousandths = ColumnUnits { time: TimeUnit::Milliseconds, rate: RateUnit::KilobitsPerSecond };
    for (format, text) in [
        (None, "0 0.5\n1 1.5\n3 0\n"),
        (None, "# recorded\n100.0\t0.5\n101.0\t1.5\n103.0\t0\n"),
        (None, "1,0.5\n2, 1.5\n4,0"),
        (None, "time,rate\n0,0.5\n1,1.5\n3,0\n"),
        (None, "time_ms,bandwidth_kbps\n0,500\n1000,1500\n3000,0\n"),
        (None, "ms,kbps\n0,500\n1000,1500\n3000,0\n"),
        (None, "time,Mbit/s\n0,0.5\n1,1.5\n3,0\n"),
        (None, "capacity (bit/s),note,time (s)\n500000,x,0\n1500000,,1\n0,y,3\n"),
        (None, "duration_s,rate_mbps\n1,0.5\n2,1.5\n2,0\n"),
        (Some(TraceFormat::Columns(thousandths)), "0;500\n1000;1500\n3000;0\n"),
    ] {
        let trace = match format {
            Some(format) => Trace::parse(format, text.as_bytes()),
            None => Trace::from_bytes(text.as_bytes()),
        };
        assert_eq!(rates(&trace.unwrap_or_else(|error| panic!("{text}: {error}"))), expected, "{text}");
    }
}

#[test]
fn profile_applies_its_values_during_each_wait() {
    let trace =
        Trace::from_bytes(b"rate 1200kbit\nwait 2s\ndelay\t50ms\nloss 0.08%\nrate 800kbit\nwait 500ms").unwrap();
    assert_eq!(rates(&trace), [(2_000, 1_200_000), (500, 800_000)]);
    assert_eq!(trace.conditions_at(ms(1_999)), Conditions::NONE);
    let expected = Conditions { loss: 0.0008, delay: span(50), jitter: Duration::ZERO };
    assert_eq!(trace.conditions_at(ms(2_000)), expected);
    assert_eq!(trace.conditions_at(ms(2_500)), Conditions::NONE);
}

#[test]
fn alphartc_trace_may_omit_fields_and_have_a_downlink() {
    let text = r#"{"downlink": {"trace_pattern": [{"duration": 50, "capacity": 7}]}, "uplink": {"trace_pattern": [
        {"duration": 199.5, "capacity": 583.52}, {"duration": 200, "capacity": 0, "loss": 0.1, "rtt": 40, "jitter": 3,
        "time": 0.2}]}}"#;
    let traces = parse_alphartc(text).unwrap();
    assert_eq!(traces.uplink.period(), Duration::from_micros(399_500));
    assert_eq!(traces.uplink.capacity_at(ms(0)).as_bps(), 583_520);
    let expected = Conditions { loss: 0.1, delay: span(20), jitter: span(3) };
    assert_eq!(traces.uplink.conditions_at(ms(200)), expected);
    assert_eq!(traces.downlink.unwrap().capacity_at(ms(0)).as_bps(), 7_000);
}

#[test]
fn errors_have_the_line_and_the_reason() {
    for (text, message) in [
        ("", "the trace is empty"),
        ("\n # only a remark\n", "the trace is empty"),
        ("hello", "none of the known trace formats: line 1 reads \"hello\""),
        ("5\n4\n", "line 2: time 4 is not after 5"),
        ("5\n\n5000000000\n", "line 3: \"5000000000\" is not a whole number of milliseconds"),
        ("5\n6 7\n", "line 2: \"6 7\" is not a whole number of milliseconds"),
        ("0\n0\n", "the duration of the trace is zero"),
        ("4294967295\n", "the trace is longer than 49 days"),
        ("0 1\n1 x\n", "line 2: rate \"x\" is not a number"),
        ("0 1\n1\n", "line 2: rate is missing"),
        ("0 1\n1 -2\n", "line 2: rate -2 is out of range, which is 0 to 1000 Gb/s"),
        ("0 1\n2 2\n2 3\n", "line 3: time 2 is not after 2"),
        // Times appear as in the file, whatever its start and unit.
        ("5,1\n6,2\n4,3\n", "line 3: time 4 is not after 6"),
        ("time_ms,kbps\n1700000000.5,1\n1700000000.25,2\n", "line 3: time 1700000000.25 is not after 1700000000.5"),
        ("0 1\ninf 2\n", "line 2: time inf is out of range, which is finite"),
        (
            "time,speed\n0,1\n",
            "line 1: a column rate (or capacity, bandwidth, throughput, bitrate; such as rate_kbps) is missing",
        ),
        ("kbps,kind\n0,1\n", "line 1: a column time or duration (such as time_ms) is missing"),
        ("time,rate\n0,1,2\n", "line 2: unexpected field \"2\""),
        ("rate 5\nwait 1s", "line 1: rate \"5\" needs a number and a unit such as 500kbps"),
        ("wait 1s", "line 1: a rate before the first wait is missing"),
        ("rate 5kbit\nspeed 6\n", "line 2: unknown word \"speed\", expected rate, delay, loss or wait"),
        ("rate 5kbit\nwait 1s\nrate 6kbit", "line 3: the last changes have no effect: add a wait after them"),
        ("rate 5kbit\nloss 101%\nwait 1s", "line 2: loss 101% is out of range, which is 0 to 1, or 0% to 100%"),
        (r#"{"uplink": {}}"#, "the trace is empty"),
        (r#"{"uplink": {"trace_pattern": [{"duration": 5}]}}"#, "segment 1: capacity is missing"),
        (
            r#"{"uplink": {"trace_pattern": [{"duration": 5, "capacity": 1, "loss": 2}]}}"#,
            "segment 1: loss 2 is out of range, which is 0 to 1, or 0% to 100%",
        ),
        (
            r#"{"uplink": {"trace_pattern": [{"duration": -5, "capacity": 1}]}}"#,
            "segment 1: duration -5 is out of range, which is 0 to 49 days",
        ),
        ("{\n", "not an AlphaRTC trace: EOF while parsing an object (line 2, column 0)"),
        ("{}", "not an AlphaRTC trace: missing field `uplink` (line 1, column 2)"),
    ] {
        let error = Trace::from_bytes(text.as_bytes()).expect_err(text);
        assert_eq!(error.to_string(), message, "{text}");
    }
    assert_eq!(Trace::from_bytes(b"1\n2\n\xff"), Err(TraceError::NotText { line: 3 }));
    assert_eq!(Trace::from_bytes(b"\x1f\x8b\x08\0"), Err(TraceError::Packed));
    let error = TraceError::Line { line: 1, problem: Problem::Milliseconds("12a".to_owned()) };
    assert_eq!(Trace::parse(TraceFormat::Mahimahi, b"12a"), Err(error));
    assert!(matches!(Trace::open(Path::new("/no/such/trace")), Err(TraceError::Read { .. })));
}

#[test]
fn limits_of_traces_are_enforced() {
    let huge = vec![b'\n'; lockstep_link::MAX_INPUT + 1];
    assert_eq!(Trace::from_bytes(&huge), Err(TraceError::InputTooLarge));
    let many = "1\n".repeat(lockstep_link::MAX_OPPORTUNITIES + 1);
    assert_eq!(Trace::from_bytes(many.as_bytes()), Err(TraceError::TooManyOpportunities));
    let crowded = |count| Trace::from_bytes(("7\n".repeat(count) + "9\n").as_bytes());
    assert!(crowded(83_334).is_ok());
    assert_eq!(
        crowded(83_335).unwrap_err().to_string(),
        "line 83335: rate of more than 83334 packets in a millisecond is out of range, which is 0 to 1000 Gb/s"
    );
    let around = Trace::from_opportunities([vec![0; 50_000], vec![2; 50_000]].concat(), 2);
    assert!(matches!(around, Err(TraceError::Line { line: 100_000, .. })), "{around:?}");
    let many = "rate 1kbit\n".to_owned() + &"wait 1ms\n".repeat(lockstep_link::MAX_SEGMENTS + 1);
    assert_eq!(Trace::from_bytes(many.as_bytes()), Err(TraceError::TooManySegments));
    let many = "{\"uplink\":{\"trace_pattern\":[{}".to_owned() + &",{}".repeat(lockstep_link::MAX_SEGMENTS) + "]}}";
    assert!(matches!(Trace::from_bytes(many.as_bytes()), Err(TraceError::Json { message, .. })
        if message.contains("more than")));
    let deep = "{\"uplink\":".repeat(100_000);
    assert!(matches!(Trace::from_bytes(deep.as_bytes()), Err(TraceError::Json { .. })));
    assert_eq!(Trace::from_bytes(b"1\n").unwrap().to_segments(Duration::ZERO), Err(TraceError::Bin));
}

#[test]
fn held_trace_keeps_its_last_rate_and_conditions() {
    let text = r#"{"uplink": {"trace_pattern": [{"duration": 100, "capacity": 100},
        {"duration": 100, "capacity": 200, "loss": 0.5}]}}"#;
    let trace = Trace::from_bytes(text.as_bytes()).unwrap().with_end(End::Hold).unwrap();
    assert_eq!(trace.capacity_at(ms(99_950)).as_bps(), 200_000);
    assert_eq!(trace.conditions_at(ms(99_950)).loss, 0.5);
    assert_eq!(trace.bytes_between(ms(100), ms(1_100)).get(), 25_000);
    let opportunities = Trace::from_bytes(b"1\n").unwrap();
    assert_eq!(opportunities.with_end(End::Hold), Err(TraceError::CannotHold));
}

/// Bytes of each bin.
fn bins(trace: &Trace, bin: u64) -> Vec<u64> {
    let period = trace.period().as_millis() as u64;
    (0..period.div_ceil(bin)).map(|i| trace.bytes_between(ms(i * bin), ms(((i + 1) * bin).min(period))).get()).collect()
}

fn opportunities() -> impl Strategy<Value = Trace> {
    (prop::collection::vec(0u32..3_000, 1..400), 1u32..100).prop_map(|(mut times, extra)| {
        times.sort_unstable();
        let last = times[times.len() - 1];
        times.push(last + extra);
        Trace::from_opportunities(times, last + extra).unwrap()
    })
}

fn segments() -> impl Strategy<Value = Trace> {
    let share = prop_oneof![Just(0.0), 0.0..1.0f64];
    let conditions = (share, 0u64..1_000_000_000, 0u64..1_000_000_000).prop_map(|(loss, delay, jitter)| Conditions {
        loss,
        // An even number, since conversion to AlphaRTC's format and back doubles and halves it.
        delay: Duration::from_nanos(delay * 2),
        jitter: Duration::from_nanos(jitter),
    });
    let rate = prop_oneof![Just(0u64), 1u64..1_000_000_000_000];
    let part = (1u64..10_000_000_000, rate, conditions);
    let part = part.prop_map(|(duration, rate, conditions)| Segment {
        duration: Duration::from_nanos(duration),
        rate: Bitrate::from_bps(rate),
        conditions,
    });
    prop::collection::vec(part, 1..30).prop_map(|parts| Trace::from_segments(&parts, End::Repeat).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn mahimahi_round_trips_exactly(trace in opportunities()) {
        let text = trace.to_mahimahi().unwrap();
        prop_assert_eq!(Trace::from_bytes(text.as_bytes()).unwrap(), trace);
    }

    #[test]
    fn conversion_to_alphartc_and_back_keeps_bytes_of_bins(trace in opportunities(), bin in 1u64..700) {
        let json = trace.to_alphartc_json(span(bin)).unwrap();
        let rates = Trace::from_bytes(json.as_bytes()).unwrap();
        prop_assert_eq!(rates.period(), trace.period());
        for (there, here) in bins(&rates, bin).iter().zip(bins(&trace, bin)) {
            // Rates are integers in bit/s; one bit/s is at most 0.7 bits in a bin of 700 ms.
            prop_assert!(there.abs_diff(here) <= 1);
        }
        let back = Trace::from_bytes(rates.to_mahimahi().unwrap().as_bytes()).unwrap();
        prop_assert_eq!(bins(&back, bin), bins(&trace, bin));
        prop_assert_eq!(back.period(), trace.period());
    }

    #[test]
    fn rates_round_trip_exactly_as_json_and_csv(trace in segments()) {
        let json = trace.to_alphartc_json(span(1)).unwrap();
        prop_assert_eq!(&Trace::from_bytes(json.as_bytes()).unwrap(), &trace);
        let csv = trace.to_csv(span(1)).unwrap();
        prop_assert_eq!(&Trace::from_bytes(csv.as_bytes()).unwrap(), &trace);
    }

    #[test]
    fn traces_survive_a_round_trip_in_a_configuration(rates in segments(), opportunities in opportunities()) {
        let conditions = [(span(5), Conditions { loss: 0.1, ..Conditions::NONE }), (span(7), Conditions::NONE)];
        for trace in [rates, opportunities.with_conditions(&conditions).unwrap(), opportunities] {
            let text = serde_json::to_string(&trace).unwrap();
            prop_assert_eq!(serde_json::from_str::<Trace>(&text).unwrap(), trace);
        }
    }

    #[test]
    fn opportunities_from_rates_carry_the_same_bytes(trace in segments()) {
        match trace.to_opportunities() {
            Ok(made) => {
                let period = Timestamp::ZERO + trace.period();
                let (here, there) = (trace.bytes_between(ms(0), period), made.bytes_between(ms(0), period + span(1)));
                prop_assert!(here.get().abs_diff(there.get()) < 1_500 + OPPORTUNITY.get());
            }
            Err(error) => prop_assert!(
                matches!(error, TraceError::NoOpportunities | TraceError::TooManyOpportunities)
            ),
        }
    }

    #[test]
    fn bytes_of_parts_add_up(trace in prop_oneof![segments(), opportunities()], cuts in prop::array::uniform3(0u64..40_000)) {
        let mut cuts = cuts.map(Timestamp::from_millis);
        cuts.sort_unstable();
        let [a, b, c] = cuts;
        let parts = trace.bytes_between(a, b).get() + trace.bytes_between(b, c).get();
        prop_assert!(trace.bytes_between(a, c).get().abs_diff(parts) <= 1);
        prop_assert_eq!(trace.bytes_between(c, a), ByteCount::ZERO);
        let size = trace.bytes_between(a, c);
        prop_assert!(trace.time_to_pass(a, size).unwrap() <= c);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in [TraceFormat::Mahimahi, TraceFormat::AlphaRtc, TraceFormat::Profile,
            TraceFormat::Columns(ColumnUnits::default())] {
            let _ = Trace::parse(format, &bytes);
        }
        let _ = Trace::from_bytes(&bytes);
    }

    #[test]
    fn almost_valid_text_never_panics(
        text in "(([0-9.e+-]{1,6}|rate|wait|time|loss|delay|kbit|ms|%|NaN|inf|-1)[ ,\t;\n_]){0,40}",
        json in "\\{\"uplink\": \\{\"trace_pattern\": \\[(\\{\"(duration|capacity|loss|rtt)\": [0-9.e+-]{1,6}\\},?){0,4}\\]\\}\\}",
    ) {
        for text in [text, json] {
            if let Ok(trace) = Trace::from_bytes(text.as_bytes()) {
                let _ = (trace.summary(), trace.to_mahimahi(), trace.capacity_at(Timestamp::MAX));
                let _ = trace.bytes_between(ms(0), Timestamp::MAX);
            }
        }
    }
}

/// The folder of shared traces, if it exists.
fn shared() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("LOCKSTEP_SHARED").map_or(beside, PathBuf::from).join("traces");
    if !root.is_dir() {
        eprintln!("note: skipped, there are no shared traces in {}", root.display());
        return None;
    }
    Some(root)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn shared_traces_survive_a_round_trip() {
    let Some(root) = shared() else { return };
    let columns = TraceFormat::Columns(ColumnUnits::default());
    for (folder, format) in [
        ("mahimahi", TraceFormat::Mahimahi),
        ("alphartc", TraceFormat::AlphaRtc),
        ("bob-profiles", TraceFormat::Profile),
        ("norway-3g", columns),
        ("fcc", columns),
    ] {
        let files = files(&root.join(folder));
        assert!(!files.is_empty());
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            assert_eq!(TraceFormat::detect(std::str::from_utf8(&bytes).unwrap()), Ok(format), "{}", file.display());
            let trace = Trace::open(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            eprintln!("{}: {}", file.display(), trace.summary());
            assert!(trace.summary().mean > Bitrate::ZERO && trace.period() >= span(200));
            if trace.has_opportunities() {
                let json = trace.to_alphartc_json(span(200)).unwrap();
                let back = Trace::from_bytes(json.as_bytes()).unwrap().to_mahimahi().unwrap();
                let back = Trace::from_bytes(back.as_bytes()).unwrap();
                assert!(bins(&back, 200) == bins(&trace, 200), "{}", file.display());
            } else {
                let json = trace.to_alphartc_json(span(200)).unwrap();
                assert_eq!(Trace::from_bytes(json.as_bytes()).unwrap(), trace);
                let csv = trace.to_csv(span(200)).unwrap();
                assert_eq!(Trace::from_bytes(csv.as_bytes()).unwrap(), trace);
            }
        }
    }
}

#[test]
fn shared_traces_have_the_rates_of_their_files() {
    let Some(root) = shared() else { return };
    let poisson = Trace::open(&root.join("mahimahi/0.57mbps-poisson.up")).unwrap();
    // The file has 2786 lines, the last at 60,027 ms.
    assert_eq!(poisson.summary().mean.as_bps(), 2_786 * 12_000 * 1_000 / 60_027);
    let bob = Trace::open(&root.join("bob-profiles/FCCamazone")).unwrap();
    let quarter = Trace::open(&root.join("bob-profiles/FCCamazone_x0.25")).unwrap();
    assert_eq!((bob.capacity_at(ms(0)).as_bps(), bob.period()), (1_418_000, Duration::from_secs(600)));
    assert_eq!(bob.conditions_at(ms(0)), quarter.conditions_at(ms(0)), "0.08% and 0.0008 are the same loss");
}
