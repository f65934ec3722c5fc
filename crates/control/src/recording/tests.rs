use lockstep_transport::{AcknowledgedFragment, Estimate};
use lockstep_units::Bitrate;
use proptest::prelude::*;

use super::*;
use crate::{Algorithm, ControllerSetup, Tuning};

fn header(algorithm: Algorithm) -> Header {
    let setup = ControllerSetup::new(ByteCount::new(1_200), Duration::from_nanos(33_333_333));
    let model = algorithm.shipped().map(|_| "0123456789abcdef".to_owned());
    Header::new(algorithm, &setup, model).unwrap()
}

fn written(header: &Header, events: &[Event]) -> String {
    Kept { header: Some(header.clone()), events: events.to_vec() }.text()
}

/// All events of a recording, and the way it ends.
fn read(bytes: &[u8]) -> Result<(Header, Vec<Event>, Ending), RecordingError> {
    let (header, mut reader) = RecordingReader::new(bytes)?;
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(event);
    }
    assert_eq!(reader.events() - u64::from(reader.ending() == Some(Ending::Whole)), events.len() as u64);
    Ok((header, events, reader.ending().expect("the recording has ended")))
}

/// Any valid time of a recording; most are in the first minutes of a call.
fn moment() -> impl Strategy<Value = Timestamp> {
    prop_oneof![8 => 0_u64..200_000_000_000, 1 => 0_u64..=1 << 60].prop_map(Timestamp::from_nanos)
}

fn size() -> impl Strategy<Value = ByteCount> {
    (0_u64..=65_535).prop_map(ByteCount::new)
}

fn interval() -> impl Strategy<Value = Duration> {
    prop_oneof![4 => 0_u64..2_000_000_000, 1 => 0_u64..=1 << 60].prop_map(Duration::from_nanos)
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0_u64..5_000, 1 => 0_u64..=1 << 48]
}

fn fragment() -> impl Strategy<Value = AcknowledgedFragment> {
    (any::<u32>(), any::<u16>(), size(), moment(), moment(), moment(), any::<bool>()).prop_map(
        |(frame, fragment, size, sent_at, arrived_at, acknowledged_at, congestion_experienced)| AcknowledgedFragment {
            frame,
            fragment,
            size,
            sent_at,
            arrived_at,
            acknowledged_at,
            congestion_experienced,
        },
    )
}

fn feedback() -> impl Strategy<Value = Feedback> {
    let estimate = (prop::option::of(interval()), prop::option::of(0_u64..1_000_000_000_000_000));
    let acknowledged = prop::collection::vec(fragment(), 0..5);
    (acknowledged, estimate, prop::option::of(interval()), count(), count(), count()).prop_map(
        |(acknowledged, (inter_arrival, capacity), round_trip_time, highest_sequence, found, received)| Feedback {
            acknowledged,
            estimate: Estimate { inter_arrival, capacity: capacity.map(Bitrate::from_bps) },
            round_trip_time,
            highest_sequence,
            found: found as usize,
            received,
        },
    )
}

fn in_flight() -> impl Strategy<Value = InFlight> {
    (count(), count(), count()).prop_map(|(fragments, bytes, queued)| InFlight {
        fragments,
        bytes: ByteCount::new(bytes),
        queued: ByteCount::new(queued),
    })
}

fn input() -> impl Strategy<Value = RecordedInput> {
    let lost = (any::<u32>(), any::<u16>(), size(), moment())
        .prop_map(|(frame, fragment, size, sent_at)| LostFragment { frame, fragment, size, sent_at });
    prop_oneof![
        size().prop_map(RecordedInput::Sent),
        size().prop_map(RecordedInput::FeedbackSent),
        size().prop_map(RecordedInput::Encoded),
        feedback().prop_map(RecordedInput::Feedback),
        Just(RecordedInput::Time),
        prop::collection::vec(lost, 0..5).prop_map(RecordedInput::Lost),
        Just(RecordedInput::PictureSkipped),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), prop::option::of(any::<u64>()), any::<u64>());
    let allowance = numbers.prop_map(|(budget, interval, target, capacity, behind)| Allowance {
        budget: ByteCount::new(budget),
        pacing_interval: Duration::from_nanos(interval),
        target: Bitrate::from_bps(target),
        capacity: capacity.map(Bitrate::from_bps),
        behind_cross_traffic: ByteCount::new(behind),
    });
    let traits = (any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(is_bounded, has_ceiling, wants_probes)| Traits { is_bounded, has_ceiling, wants_probes });
    prop_oneof![
        (moment(), in_flight(), allowance).prop_map(|(at, in_flight, it)| Answer::Allowance(at, in_flight, it)),
        (moment(), in_flight(), any::<u64>()).prop_map(|(at, in_flight, interval)| Answer::Pacing(
            at,
            in_flight,
            Duration::from_nanos(interval)
        )),
        traits.prop_map(Answer::Traits),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![(moment(), input()).prop_map(|(at, input)| Event::Input(at, input)), answer().prop_map(Event::Answer),]
}

/// Events at increasing times, like those of a clock.
fn course() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(), 1..60).prop_map(|mut events| {
        let mut times: Vec<Timestamp> = events.iter().filter_map(Event::at).collect();
        times.sort();
        let mut times = times.into_iter();
        for event in &mut events {
            match event {
                Event::Input(at, _) | Event::Answer(Answer::Allowance(at, ..) | Answer::Pacing(at, ..)) => {
                    *at = times.next().expect("one time per event");
                }
                Event::Answer(Answer::Traits(_)) => {}
            }
        }
        events
    })
}

proptest! {
    #[test]
    fn recording_round_trips_through_text(events in prop::collection::vec(event(), 0..40)) {
        let header = header(Algorithm::Lockstep);
        let (of, again, ending) = read(written(&header, &events).as_bytes()).unwrap();
        prop_assert_eq!((of, again, ending), (header, events, Ending::Whole));
    }

    #[test]
    fn cut_recording_is_read_up_to_its_last_whole_line(
        events in prop::collection::vec(event(), 1..12),
        share in 0.0..1.0_f64,
    ) {
        let header = header(Algorithm::Gcc);
        let text = written(&header, &events);
        let first = header_line(&header).len();
        let end = first + ((text.len() - first) as f64 * share) as usize;
        let whole = text[first..end].matches('\n').count();
        let (_, kept, ending) = read(&text.as_bytes()[..end]).unwrap();
        prop_assert_eq!((&kept[..], ending), (&events[..whole], Ending::CutOff));
    }

    #[test]
    fn replaced_bytes_are_refused_or_read_without_extra_events(
        events in prop::collection::vec(event(), 1..8),
        place in any::<prop::sample::Index>(),
        foreign in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let text = written(&header(Algorithm::Sprout), &events).into_bytes();
        let place = place.index(text.len());
        let bytes = [&text[..place], &foreign[..], &text[(place + foreign.len()).min(text.len())..]].concat();
        if let Ok((_, kept, _)) = read(&bytes) {
            prop_assert!(kept.len() <= events.len() + foreign.len());
        }
    }

}

proptest! {
    // Each case runs every controller, including learned ones.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn recording_changes_no_decision_and_replays_identically(
        events in course(),
    ) {
        for algorithm in Algorithm::all().filter(|algorithm| !algorithm.knows_path()) {
            let header = header(algorithm.clone());
            let made = || algorithm.controller(&header.setup()).expect("the controller needs no known path");
            let mut paths = [(); 3].map(|()| PathObserver::new(header.setup().payload, &Tuning::default()));
            let (mut plain, mut again, kept) = (made(), made(), KeptEvents::default());
            let mut recorded = Recorded::new(made(), &header, Box::new(kept.clone()));
            for event in &events {
                prop_assert_eq!(event.replay(&mut paths[0], plain.as_mut()), event.replay(&mut paths[1], &mut recorded), "{}", algorithm);
            }
            prop_assert_eq!(plain.counters(), recorded.counters());
            let recording = kept.take().events;
            prop_assert_eq!(
                recording.iter().filter(|event| matches!(event, Event::Input(..))).count(),
                events.iter().filter(|event| matches!(event, Event::Input(..))).count()
            );
            for event in recording.iter() {
                if let (Some(now), Event::Answer(then)) = (event.replay(&mut paths[2], again.as_mut()), event) {
                    prop_assert_eq!(now, *then, "{}", algorithm);
                }
            }
        }
    }
}

#[test]
fn repeated_question_without_input_is_recorded_once() {
    let (header, kept) = (header(Algorithm::Gcc), KeptEvents::default());
    let controller = header.algorithm.controller(&header.setup()).unwrap();
    let mut recorded = Recorded::new(controller, &header, Box::new(kept.clone()));
    let ask =
        |recorded: &Recorded| (recorded.traits(), recorded.pacing_interval(&PathView::default(), InFlight::default()));
    assert_eq!(ask(&recorded), ask(&recorded));
    assert_eq!(kept.take().events.len(), 2);
    recorded.handle(&PathView::default(), Input::Time);
    ask(&recorded);
    assert_eq!(kept.take().events.len(), 3);
}

#[test]
fn missing_events_end_a_recording_and_are_counted() {
    let header = header(Algorithm::Nada);
    let time = |millis| Event::Input(Timestamp::from_millis(millis), RecordedInput::Time);
    let text = header_line(&header) + &event_line(0, &time(1)) + &event_line(7, &time(8)) + &end_line(8);
    assert_eq!(read(text.as_bytes()).unwrap(), (header, vec![time(1)], Ending::Gap(6)));
}

/// Error message for a file that is not a recording.
fn refusal(text: &str) -> String {
    read(text.as_bytes()).expect_err("not a recording").to_string()
}

#[test]
fn invalid_recording_is_refused_with_line_and_reason() {
    let first = header_line(&header(Algorithm::Scream));
    let with = |from: &str, to: &str| {
        assert!(first.contains(from), "{first}");
        first.replace(from, to)
    };
    let time = |number: u64| event_line(number, &Event::Input(Timestamp::ZERO, RecordedInput::Time));
    let cases = [
        (String::new(), "not a recording of a controller's decisions"),
        ("{\"start\":{\"epoch\":1}}\n".to_owned(), "not a recording of a controller's decisions"),
        ("x".repeat(10_000_000), "not a recording of a controller's decisions"),
        (with("\"lockstep_decisions\":2", "\"lockstep_decisions\":3"), "format version 3"),
        (with("scream", "reno"), "line 1: unknown controller `reno`"),
        (with("scream", "hindsight"), "line 1: cannot replay the controller hindsight"),
        (with("balanced", "no"), "line 1: unknown latency `no`"),
        (with("\"payload_bytes\":1200", "\"payload_bytes\":0"), "line 1: the payload of a fragment is out of range"),
        (with("\"least_bps\":30000", "\"least_bps\":0"), "line 1: a bit rate is out of range"),
        (with("\"frame_interval_ns\":33333333", "\"frame_interval_ns\":0"), "line 1: the time between two pictures"),
        (first.clone() + "nonsense\n", "line 2: expected ident (column 2)"),
        (first.clone() + "[0,{\"time\":{\"at_ns\":-1}}]\n", "line 2: invalid value"),
        (first.clone() + "[0,{\"time\":{\"at_ns\":18446744073709551615}}]\n", "line 2: a time is out of range"),
        (first.clone() + "[0,{\"sent\":{\"at_ns\":0,\"bytes\":65536}}]\n", "line 2: a packet's size is out of range"),
        (first.clone() + &"[".repeat(100_000) + "\n", "line 2: "),
        (first.clone() + &"[0,".repeat(2_000_000), "line 2 has more than 4194304 bytes"),
        (first.clone() + &time(0) + &time(0), "line 3: event 0 comes after event 0"),
        (first.clone() + &end_line(0) + &time(1), "line 3: unexpected line after the end"),
    ];
    for (text, expected) in cases {
        let refused = refusal(&text);
        assert!(refused.contains(expected) && refused.len() < 600 && !refused.contains('\n'), "{expected}: {refused}");
    }
}
