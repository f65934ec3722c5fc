//! Tests of the wire format: decoding inverts encoding, and all other bytes are refused.

use std::time::Duration;

use lockstep_transport::wire::{
    Acknowledgement, Data, Datagram, Hello, HelloReply, MAX_PAYLOAD, ReceivedFragment, Sound, VERSION, VideoFormat,
    WireError,
};
use lockstep_transport::{CodecId, Estimate, MAX_PARITY_FRAGMENTS, Parity, StateId};
use lockstep_units::{Bitrate, MAX_FRAME_RATE, Timestamp};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn moment() -> impl Strategy<Value = Timestamp> {
    (0..=Timestamp::MAX.as_micros()).prop_map(Timestamp::from_micros)
}

fn span() -> impl Strategy<Value = Duration> {
    any::<u32>().prop_map(|micros| Duration::from_micros(u64::from(micros)))
}

prop_compose! {
    fn data()(
        (connection, sequence, frame) in any::<(u32, u32, u32)>(),
        (fragments, fragment, parity) in (1..u16::MAX - MAX_PARITY_FRAGMENTS).prop_flat_map(|fragments| {
            let own = (Just(fragments), 0..fragments, Just(None));
            let parity = (1..=MAX_PARITY_FRAGMENTS, any::<u16>()).prop_flat_map(move |(count, last)| {
                (Just(fragments), fragments..fragments + count, Just(Some(Parity { count, last })))
            });
            prop_oneof![own, parity]
        }),
        (source, target) in any::<(u64, u64)>(),
        (sent_at, captured) in (moment(), moment()),
        (idle, keep_from, anchor, key_frame, feedback_doublings) in (any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>(), 0..8u8),
        payload in vec(any::<u8>(), 0..MAX_PAYLOAD),
    ) -> Datagram {
        Datagram::Data(Data {
            connection, sequence, frame, fragment, fragments, parity, source: StateId(source),
            target: StateId(target), sent_at, captured, idle, keep_from, anchor, key_frame, feedback_doublings,
            payload,
        })
    }
}

prop_compose! {
    fn sound()(
        (connection, sequence, frame, idle) in any::<(u32, u32, u32, u32)>(),
        (sent_at, age) in (moment(), span()),
        payload in vec(any::<u8>(), 0..MAX_PAYLOAD),
        further in vec(vec(any::<u8>(), 0..200), 0..6),
    ) -> Datagram {
        Datagram::Sound(Sound { connection, sequence, frame, sent_at, age, idle, payload, further })
    }
}

/// Frames that are mostly consecutive, newest first.
fn frames() -> impl Strategy<Value = Vec<u32>> {
    let steps = vec(prop_oneof![8 => Just(u32::MAX), 1 => any::<u32>(), 1 => 0..300u32], 0..=255);
    (any::<u32>(), steps).prop_map(|(newest, steps)| {
        steps
            .into_iter()
            .scan(newest, |frame, step| {
                *frame = frame.wrapping_add(step);
                Some(*frame)
            })
            .collect()
    })
}

prop_compose! {
    fn acknowledgement()(
        (connection, sequence, highest, received) in any::<(u32, u32, u32, u32)>(),
        (sent_at, echo, hold) in (moment(), moment(), span()),
        (inter_arrival, capacity) in (option::of(span()), option::of(any::<u64>().prop_map(Bitrate::from_bps))),
        mut ages in vec(0u32..1 << 31, 0..=255),
        places in vec(prop_oneof![Just((0, 1, false)), any::<(i8, u8, bool)>().prop_map(|(frame, fragment, other)| (frame, u16::from(fragment), other))], 255),
        scattered in vec(any::<(u32, u16, bool)>(), 8),
        catalogue in frames(),
        refused in frames(),
    ) -> Datagram {
        // In the order of arrival: mostly consecutive, some at random, some of sound.
        ages.sort_unstable_by(|a, b| b.cmp(a));
        let arrived_at = |age: u32| Timestamp::from_micros(sent_at.as_micros().saturating_sub(u64::from(age)));
        let (mut frame, mut fragment) = (connection, 0u16);
        let fragments = ages.into_iter().zip(places).enumerate()
            .map(|(at, (age, (step, ahead, other)))| {
                frame = frame.wrapping_add_signed(i32::from(step));
                fragment = if ahead == 7 { u16::MAX } else { fragment.wrapping_add(ahead) };
                let (frame, fragment, congestion_experienced) =
                    *scattered.get(at).filter(|_| other).unwrap_or(&(frame, fragment, step > 100));
                ReceivedFragment { frame, fragment, arrived_at: arrived_at(age), congestion_experienced }
            })
            .collect();
        let estimate = Estimate { inter_arrival, capacity };
        Datagram::Acknowledgement(Box::new(Acknowledgement {
            connection, sequence, sent_at, highest, echo, hold, received, estimate, fragments, catalogue, refused,
        }))
    }
}

fn small() -> impl Strategy<Value = Datagram> {
    let hello = (any::<u32>(), 1u16.., 1u16.., 1u32.., 1u32.., any::<u16>(), any::<u8>()).prop_map(
        |(connection, width, height, frames, frame_rate_denominator, estimator, codec)| {
            let frame_rate_numerator = frames.min(frame_rate_denominator.saturating_mul(MAX_FRAME_RATE));
            let format = VideoFormat { width, height, frame_rate_numerator, frame_rate_denominator };
            Datagram::Hello(Hello { connection, format, estimator, codec: CodecId(codec) })
        },
    );
    let reply = any::<(u32, u16)>()
        .prop_map(|(connection, retained_states)| Datagram::HelloReply(HelloReply { connection, retained_states }));
    prop_oneof![hello, reply]
}

fn datagram() -> impl Strategy<Value = Datagram> {
    prop_oneof![data(), sound(), acknowledgement(), small()]
}

fn encoded(datagram: &Datagram) -> Vec<u8> {
    let mut bytes = Vec::new();
    datagram.encode(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn decoding_inverts_encoding(datagram in datagram()) {
        prop_assert_eq!(Datagram::decode(&encoded(&datagram)), Ok(datagram));
    }

    #[test]
    fn size_equals_the_encoded_length(datagram in datagram()) {
        prop_assert_eq!(datagram.size().get(), encoded(&datagram).len() as u64);
        prop_assert_eq!(datagram.to_bytes(), encoded(&datagram));
    }

    #[test]
    fn truncated_datagram_is_refused(datagram in datagram()) {
        let bytes = encoded(&datagram);
        for length in 0..bytes.len() {
            let refused = matches!(Datagram::decode(&bytes[..length]), Err(WireError::Truncated { .. }));
            prop_assert!(refused, "the first {} of {} bytes", length, bytes.len());
        }
    }

    #[test]
    fn trailing_bytes_are_refused(datagram in datagram(), extra in vec(any::<u8>(), 1..50)) {
        let mut bytes = encoded(&datagram);
        bytes.extend(&extra);
        prop_assert_eq!(Datagram::decode(&bytes), Err(WireError::Trailing(extra.len())));
    }

    #[test]
    fn encoding_inverts_decoding(
        mut bytes in vec(any::<u8>(), 0..1500), kind in 0u8..16, flags in 0u8..32,
    ) {
        let _ = Datagram::decode(&bytes);
        if bytes.len() > 2 {
            bytes[0] = VERSION << 4 | kind;
            bytes[1] = flags;
        }
        if let Ok(datagram) = Datagram::decode(&bytes) {
            prop_assert_eq!(encoded(&datagram), bytes);
        }
    }

    #[test]
    fn changed_byte_changes_the_datagram_or_is_refused(
        datagram in datagram(), at in any::<prop::sample::Index>(), change in 1u8..,
    ) {
        let mut bytes = encoded(&datagram);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert_ne!(Datagram::decode(&bytes), Ok(datagram));
    }
}

#[test]
fn layout_of_data_is_as_documented() {
    let data = Datagram::Data(Data {
        connection: 0x0102_0304,
        sequence: 5,
        frame: 6,
        fragment: 7,
        fragments: 8,
        parity: None,
        source: StateId(9),
        target: StateId(10),
        sent_at: Timestamp::from_micros(11),
        captured: Timestamp::from_micros(12),
        idle: 13,
        keep_from: 14,
        feedback_doublings: 2,
        anchor: 15,
        key_frame: true,
        payload: vec![0xaa, 0xbb],
    });
    let bytes = encoded(&data);
    assert_eq!(bytes[..6], [0x41, 1 | 2 << 1, 1, 2, 3, 4]);
    let ends = [(10, 5), (14, 6), (16, 7), (18, 8), (26, 9), (34, 10), (42, 11), (50, 12), (54, 13), (58, 14)];
    for (end, value) in ends.into_iter().chain([(62, 15), (64, 2)]) {
        assert_eq!(bytes[end - 1], value);
    }
    assert_eq!(bytes[64..], [0xaa, 0xbb]);
}

#[test]
fn consecutive_fragments_take_few_bytes() {
    let at = |micros: u64| Timestamp::from_micros(micros);
    let arrival = |frame: u32, fragment: u16, micros: u64, congestion_experienced: bool| ReceivedFragment {
        frame,
        fragment,
        arrived_at: at(micros),
        congestion_experienced,
    };
    let acknowledgement = Acknowledgement {
        connection: 0x0102_0304,
        sequence: 300,
        sent_at: at(10_000),
        highest: 9,
        echo: at(100),
        hold: Duration::from_micros(200),
        received: 8,
        estimate: Estimate { inter_arrival: Some(Duration::from_micros(50)), capacity: None },
        fragments: vec![
            arrival(70, 0, 9_000, false),
            arrival(70, 1, 9_300, false),
            arrival(70, 2, 9_400, true),
            arrival(40, u16::MAX, 9_500, false),
            arrival(69, 5, 9_700, false),
            arrival(41, u16::MAX, 9_800, false),
        ],
        catalogue: vec![70, 69, 68, 60],
        refused: vec![64],
    };
    let bytes = encoded(&Datagram::Acknowledgement(Box::new(acknowledgement)));
    assert_eq!(bytes[..6], [0x42, 1, 1, 2, 3, 4]);
    // Number, times and highest sequence number. Then 2, the step from 8 to 10, since 9 of 10 arrived up to the
    // highest. Then the inter-arrival time.
    assert_eq!(bytes[6..18], [0xac, 2, 0x90, 0x4e, 9, 100, 0xc8, 1, 4, 50, 6, 4]);
    // Two fragments of frame 70, its third one marked, sound frame 40, a fragment of the frame before, sound again.
    assert_eq!(bytes[18..27], [0x8c, 1, 0, 0xe8, 7, 0xac, 2, 2, 0]);
    assert_eq!(bytes[27..29], [2, 100]);
    assert_eq!(bytes[29..32], [1, 80, 100]);
    assert_eq!(bytes[32..37], [0, 1, 5, 0xc8, 1]);
    assert_eq!(bytes[37..40], [1, 2, 100]);
    // Three consecutive states, and one that is eight older than the last of them. One refused frame.
    assert_eq!(bytes[40..], [4, 0x8c, 1, 2, 15, 0, 1, 0x80, 1, 0]);
}

#[test]
fn runs_longer_than_their_list_or_divisible_are_refused() {
    let begin = [0x42, 0, 0, 0, 0, 1, 0, 100, 0, 0, 0, 2];
    let decode = |rest: &[u8]| Datagram::decode(&[&begin[..], rest].concat());
    assert!(decode(&[2, 4, 0, 0, 9, 9, 0, 0]).is_ok());
    assert_eq!(decode(&[2, 8, 0, 0, 9, 9, 9, 0, 0]), Err(WireError::List(13)), "a run of three in a list of two");
    assert_eq!(decode(&[2, 0, 0, 0, 9, 0, 0, 1, 9, 0, 0]), Err(WireError::List(17)), "two runs that could be one");
    assert_eq!(decode(&[2, 4, 0, 0, 9, 19, 0, 0]), Err(WireError::Time(17)), "an arrival after the acknowledgement");
    assert_eq!(
        decode(&[1, 0, 0, 0xff, 0xff, 3, 9, 0, 0]),
        Err(WireError::List(13)),
        "the index of sound in a run of video"
    );
    assert_eq!(decode(&[0, 2, 4, 2, 0]), Err(WireError::List(14)), "a run of three states in a list of two");
    assert_eq!(decode(&[0, 2, 4, 0, 1, 0, 0]), Err(WireError::List(16)), "two runs of states that could be one");
    assert_eq!(decode(&[0x80, 2]), Err(WireError::Number(12)), "a list of 256");
}

#[test]
fn unknown_versions_kinds_flags_and_formats_are_refused() {
    assert_eq!(Datagram::decode(&[0x11, 0]), Err(WireError::Version(1)));
    assert_eq!(Datagram::decode(&[0x45, 0]), Err(WireError::Kind(5)), "the close of earlier versions");
    assert_eq!(Datagram::decode(&[0x4e, 0]), Err(WireError::Kind(14)));
    assert_eq!(Datagram::decode(&[0x44, 1]), Err(WireError::Flags(1)));
    assert_eq!(Datagram::decode(&[]), Err(WireError::Truncated { offset: 0, needed: 1 }));
    let format = VideoFormat { width: 1, height: 1, frame_rate_numerator: 1, frame_rate_denominator: 1 };
    let mut hello = encoded(&Datagram::Hello(Hello { connection: 1, format, estimator: 3, codec: CodecId::VP8 }));
    assert_eq!(hello[18..], [0, 3], "the estimator comes last");
    hello[17] = 0;
    assert_eq!(Datagram::decode(&hello), Err(WireError::Format));
    for (frames, seconds, refused) in
        [(1_000, 1, false), (1_001, 1, true), (u32::MAX, 1, true), (u32::MAX, 9_999_999, false)]
    {
        let format = VideoFormat { frame_rate_numerator: frames, frame_rate_denominator: seconds, ..format };
        let hello = encoded(&Datagram::Hello(Hello { connection: 1, format, estimator: 0, codec: CodecId::VP8 }));
        assert_eq!(Datagram::decode(&hello) == Err(WireError::Format), refused, "{frames}/{seconds}");
    }
}
