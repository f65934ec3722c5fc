//! Generates the seeds of all targets with our own code. `fuzz/run` uses the files in `fuzz/seeds`.
//!
//! After a change of a target's input format, write them again: `cargo run --manifest-path fuzz/Cargo.toml --example
//! seeds`

use arbitrary::Unstructured;
use lockstep_control::recording::{Answer, Event, Header, Kept, RecordedInput};
use lockstep_control::{Algorithm, ControllerSetup, InFlight, PathObserver};
use lockstep_link::Trace;
use lockstep_live::{ListenerKey, Ticket, fuzzing};
use lockstep_media::{FrameRate, IvfWriter, VideoFormat, Y4mWriter};
use lockstep_sound::{Frame, SoundEncoder, SoundSource, Tone, WavWriter};
use lockstep_transport::wire::{Acknowledgement, Data, Hello, HelloReply, ReceivedFragment, Sound};
use lockstep_transport::{AcknowledgedFragment, CodecId, Datagram, Estimate, Feedback, LostFragment, Parity, StateId};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use lockstep_vp8::{Effort, GoldenPolicy, Parameters, Picture, State, encode};
use std::io::Cursor;
use std::time::Duration;

use crate::pictures::picture;

fn pictures(width: usize, height: usize) -> Vec<Picture> {
    let mut pictures: Vec<Picture> = Vec::new();
    // A gradient; shifted; shifted and changed; noise; the gradient again.
    for how in [[4, 40, 25, 9, 0, 0], [3, 2, 1, 0, 0, 0], [3, 1, 0, 0, 2, 90], [2, 7, 7, 7, 0, 0], [4, 40, 25, 9, 0, 0]]
    {
        let mut bytes = how.to_vec();
        bytes.extend([1, 30, 200, 60, 2, 25, 10]);
        let next = picture(&mut Unstructured::new(&bytes), width, height, pictures.last()).expect("enough bytes");
        pictures.push(next);
    }
    pictures
}

fn frames(width: usize, height: usize, quantizer: u8, effort: Effort) -> Vec<(Vec<u8>, State)> {
    let mut state = State::default();
    let encoded = pictures(width, height).into_iter().enumerate().map(|(index, picture)| {
        let golden = if index == 2 { GoldenPolicy::Refresh } else { GoldenPolicy::Auto };
        let encoded = encode(&state, &picture, &Parameters { quantizer, effort, golden, ..Parameters::default() });
        state = encoded.state.clone();
        (encoded.frame, encoded.state)
    });
    encoded.collect()
}

/// Frames of a short stream.
#[must_use]
pub fn stream() -> Vec<Vec<u8>> {
    frames(48, 32, 40, Effort::QUALITY).into_iter().map(|(frame, _)| frame).collect()
}

fn lengths(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().flat_map(|frame| [&(frame.len() as u16).to_le_bytes(), &frame[..]].concat()).collect()
}

/// Bytes of the lowest bits of values, the first value in the highest bits. The last byte ends with zeros.
fn packed(fields: &[(u32, u32)]) -> Vec<u8> {
    let each = fields.iter().flat_map(|&(value, width)| (0..width).rev().map(move |bit| (value >> bit & 1) as u8));
    each.collect::<Vec<u8>>()
        .chunks(8)
        .map(|bits| bits.iter().zip((0..8).rev()).map(|(bit, at)| bit << at).sum())
        .collect()
}

/// An OBU of AV1 with its size.
fn obu(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind << 3 | 2, payload.len() as u8], payload].concat()
}

/// Headers of a key frame of 320x180, and of an interframe. That one writes slot 2 and reads slots 0 to 6.
fn av1_units() -> Vec<Vec<u8>> {
    let delimiter = obu(2, &[]);
    // Profile 0, one operating point, ten bits for each side, order hints of seven bits.
    let sequence = packed(&[
        (0, 7),
        (0, 5),
        (0, 12),
        (0, 5),
        (9, 4),
        (9, 4),
        (319, 10),
        (179, 10),
        (0, 1),
        (0, 7),
        (1, 1),
        (0, 1),
        (1, 1),
        (1, 1),
        (1, 1),
        (6, 3),
        (0, 1),
    ]);
    // Shown, with adapted probabilities, without tools for screens, order hint 0.
    let key = packed(&[(0, 1), (0, 2), (1, 1), (0, 1), (0, 1), (0, 1), (0, 7), (0, 8)]);
    let references = (0..7).map(|slot| (slot, 3));
    let inter = [(0, 1), (1, 2), (1, 1), (0, 3), (0, 1), (1, 7), (0, 3), (4, 8), (0, 1)];
    let end = [(0, 1), (1, 1), (1, 1), (0, 1), (0, 1), (0, 1), (0, 8)];
    let inter = packed(&inter.into_iter().chain(references).chain(end).collect::<Vec<_>>());
    vec![[delimiter.clone(), obu(1, &sequence), obu(6, &key)].concat(), [delimiter, obu(6, &inter)].concat()]
}

fn video() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (index, frame) in stream().into_iter().enumerate() {
        seeds.push(("decode", format!("frame{index}"), [&[index as u8], &frame[..]].concat()));
    }
    for (width, height, quantizer) in [(16, 16, 20), (33, 17, 90), (48, 32, 110)] {
        let coded = frames(width, height, quantizer, Effort::REAL_TIME);
        let stream: Vec<_> = coded.iter().map(|(frame, _)| frame.clone()).collect();
        seeds.push(("decode_sequence", format!("{width}x{height}"), lengths(&stream)));
    }
    let coded = frames(16, 16, 100, Effort::REAL_TIME);
    let empty = State::default();
    let states = std::iter::once(&empty).chain(coded.iter().map(|(_, state)| state));
    for (index, state) in states.enumerate().take(3) {
        let frame = &coded[index].0;
        let bytes = [&(frame.len() as u16).to_le_bytes(), &frame[..], &state.to_bytes()].concat();
        seeds.push(("state_restore", format!("state{index}"), bytes));
    }
    for (name, first, second) in [("small", 15, 16), ("wide", 70, 3), ("square", 40, 47)] {
        let mut bytes = vec![first, second];
        for (kind, quantizer) in [(4u8, 30u8), (3, 60), (3, 127), (5, 0)] {
            // Source, size, quantizer, choices, kind with three parameters, changes.
            bytes.extend([kind.wrapping_mul(61), 0, quantizer, quantizer / 3, kind, 35, 20, 7, 1, 40, 0, 30, 200]);
        }
        seeds.push(("encode_round_trip", name.to_owned(), bytes));
    }
    seeds
}

fn datagrams() -> Vec<(&'static str, Datagram)> {
    let at = Timestamp::from_millis(40);
    let format = lockstep_transport::VideoFormat {
        width: 640,
        height: 360,
        frame_rate_numerator: 30,
        frame_rate_denominator: 1,
    };
    let data = Data {
        connection: 7,
        sequence: 5,
        frame: 3,
        fragment: 1,
        fragments: 2,
        parity: None,
        source: StateId(9),
        target: StateId(10),
        sent_at: at,
        captured: at,
        idle: 13,
        keep_from: 1,
        feedback_doublings: 1,
        anchor: 2,
        key_frame: false,
        payload: vec![1, 2, 3, 4],
    };
    let acknowledgement = Acknowledgement {
        connection: 7,
        sequence: 2,
        sent_at: at,
        highest: 5,
        echo: at,
        hold: Duration::from_millis(2),
        received: 6,
        estimate: Estimate { inter_arrival: Some(Duration::from_micros(900)), capacity: Some(Bitrate::from_kbps(900)) },
        fragments: vec![ReceivedFragment { frame: 3, fragment: 0, arrived_at: at, congestion_experienced: false }],
        catalogue: vec![2, 1],
        refused: vec![0],
    };
    let sound = Sound {
        connection: 7,
        sequence: 6,
        frame: 2,
        sent_at: at,
        age: Duration::from_millis(20),
        idle: 9,
        payload: vec![8, 64, 1],
        further: vec![vec![8, 1], Vec::new()],
    };
    let parity = Some(Parity { count: 2, last: 4 });
    let parity = Data { sequence: 6, fragment: 2, parity, ..data.clone() };
    vec![
        ("data", Datagram::Data(data)),
        ("parity", Datagram::Data(parity)),
        ("sound", Datagram::Sound(sound)),
        ("acknowledgement", Datagram::Acknowledgement(Box::new(acknowledgement))),
        ("hello", Datagram::Hello(Hello { connection: 7, format, estimator: 1, codec: CodecId::VP8 })),
        ("hello_reply", Datagram::HelloReply(HelloReply { connection: 7, retained_states: 32 })),
    ]
}

/// A call of a few frames: hello, then rounds of sending, transmitting, delivering, deciding and acknowledging. Every
/// third round loses a datagram. With `made_up`, every round adds a forged one.
fn exchange(made_up: bool) -> Vec<u8> {
    let mut bytes = vec![32, 32, 0xb0, 4, 64, 1, 0, 5, 6, 5, 6];
    for round in 0..8u8 {
        bytes.extend([2, 4, 100 * (round % 3), round, round + 1, 5, 5, 0, 20]);
        if round % 3 == 2 {
            bytes.push(9);
        }
        if made_up {
            bytes.extend([10, 3, 1, 33, 33, 0, 0, 9, 0, 0, round, round + 20, 0, 0, 0, 0, 30, 31]);
            bytes.extend([11, 0, round, 2, 1, 0, 0, 5, 1, 5, 0, 0, 0, 33]);
        }
        bytes.extend([6, 14, 17, 0, 5, 0, 20, 6, 16]);
    }
    bytes
}

fn traces() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds: Vec<(&'static str, u8, String)> = vec![
        ("mahimahi", 0, "0\n0\n3\n7\n20\n".to_owned()),
        ("profile", 0, "rate 500\ndelay 20\nloss 0.01\nwait 2000\nrate 100\nwait 1000\n".to_owned()),
        ("columns", 0, "time_s,duration_s,rate_mbps,loss,delay_ms,jitter_ms\n0,1.5,2.5,0,10,1\n1.5,1,0,0.02,20,0\n".to_owned()),
        ("bare", 4, "0 100\n1.5 200\n2.25 50\n".to_owned()),
        (
            "downlink",
            3,
            r#"{"uplink":{"trace_pattern":[{"duration":100,"capacity":300}]},"downlink":{"trace_pattern":[{"duration":60,"capacity":9.5,"loss":0.1,"rtt":20,"jitter":3,"time":0}]}}"#.to_owned(),
        ),
        ("stored", 7, r#"{"opportunities_ms":[1,5],"period_ms":9,"conditions":[[5000000,{"loss":0.5,"delay_ms":1}]]}"#.to_owned()),
    ];
    for (name, words) in [
        ("constant", "constant:500kbps,duration=20s,outage=10s+1s,loss=1%,delay=20ms,jitter=5ms"),
        ("steps", "steps:1mbps@40s/2.5mbps@20s,end=hold"),
        ("ramp", "ramp:100kbps-5mbps,duration=60s,step=100ms"),
        ("onoff", "onoff:500kbps,on=1s,off=5s,loss=100%,duration=60s,seed=1"),
        ("poisson", "poisson:570kbps,duration=6s,seed=1"),
        ("cellular", "cellular:mean=3mbps,deviation=50%,states=8,dwell=1s,step=100ms,duration=9s,seed=1"),
    ] {
        seeds.push((name, 2, words.to_owned()));
    }
    let trace = Trace::from_bytes(b"rate 1000kbit\nwait 2s\nrate 250kbit\nloss 2%\nwait 1s\n").expect("a profile");
    seeds.push(("segments", 7, serde_json::to_string(&trace).expect("a trace")));
    let bytes = |choice: u8, text: &str| [&[choice, 9, 8, 7, 6, 5, 0, 0, 0], text.as_bytes()].concat();
    seeds.iter().map(|(name, choice, text)| (*name, bytes(*choice, text))).collect()
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    let frame_rate = FrameRate::new(30_000, 1_001).expect("a rate");
    let format = VideoFormat { width: 5, height: 3, frame_rate };
    let mut y4m = Y4mWriter::new(vec![40], format).expect("memory");
    let mut ivf = IvfWriter::new(vec![3], format).expect("memory");
    for (time, picture) in pictures(5, 3).iter().take(2).enumerate() {
        y4m.write_picture(picture).expect("memory");
        ivf.write_frame(time as u64, &[7; 20]).expect("memory");
    }
    vec![("y4m", y4m.finish().expect("memory")), ("ivf", ivf.into_inner().expect("memory"))]
}

/// All seeds: target, name, bytes.
#[must_use]
pub fn all() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut seeds = video();
    for (name, datagram) in datagrams() {
        let mut bytes = Vec::new();
        datagram.encode(&mut bytes);
        seeds.push(("wire", name.to_owned(), bytes));
    }
    seeds.push(("transport_ends", "call".to_owned(), exchange(false)));
    seeds.push(("transport_ends", "made_up".to_owned(), exchange(true)));
    seeds.extend(traces().into_iter().map(|(name, bytes)| ("trace", name.to_owned(), bytes)));
    seeds.extend(files().into_iter().map(|(name, bytes)| ("media", name.to_owned(), bytes)));
    seeds.extend(sound().into_iter().map(|(name, bytes)| ("sound", name.to_owned(), bytes)));
    seeds.extend(models().into_iter().map(|(name, bytes)| ("model", name.to_owned(), bytes)));
    seeds.push(("av1_headers", "key_and_inter".to_owned(), lengths(&av1_units())));
    seeds.extend(recordings().map(|(name, bytes)| ("recording", name, bytes)));
    seeds.extend(calls().into_iter().map(|(target, name, bytes)| (target, name.to_owned(), bytes)));
    seeds
}

/// Recordings of every controller that can be recorded: a few packets sent, acknowledged and lost, with queries after
/// each.
fn recordings() -> impl Iterator<Item = (String, Vec<u8>)> {
    Algorithm::all().filter(|algorithm| !algorithm.knows_path()).map(|algorithm| {
        let setup = ControllerSetup::new(ByteCount::new(1_200), Duration::from_millis(33));
        let header = Header::new(algorithm.clone(), &setup, None).expect("it needs no path");
        let mut controller = algorithm.controller(&setup).expect("it needs no path");
        let mut path = PathObserver::new(setup.payload, &setup.tuning);
        let mut events = Vec::new();
        for number in 0..4 {
            let at = Timestamp::from_millis(100 + 40 * u64::from(number));
            let size = ByteCount::new(1_200);
            let fragment = AcknowledgedFragment {
                frame: number,
                fragment: 0,
                size,
                sent_at: at,
                arrived_at: at + Duration::from_millis(20),
                acknowledged_at: at + Duration::from_millis(40),
                congestion_experienced: false,
            };
            let feedback = Feedback {
                acknowledged: vec![fragment],
                estimate: Estimate { inter_arrival: Some(Duration::from_millis(9)), capacity: None },
                round_trip_time: Some(Duration::from_millis(40)),
                highest_sequence: number.into(),
                found: 0,
                received: u64::from(number) + 1,
            };
            let lost = LostFragment { frame: number, fragment: 1, size, sent_at: at };
            let received_at = at + Duration::from_millis(40);
            let inputs = [
                (at, RecordedInput::Time),
                (at, RecordedInput::Sent(size)),
                (received_at, RecordedInput::Feedback(feedback)),
                (received_at, RecordedInput::Lost(vec![lost])),
                (received_at, RecordedInput::PictureSkipped),
            ];
            for (at, input) in inputs {
                path.pass(at, input.input(), controller.as_mut());
                events.push(Event::Input(at, input));
            }
            let in_flight = InFlight { fragments: 1, bytes: size, queued: ByteCount::ZERO };
            let allowance = controller.allowance(&path.view(received_at), in_flight);
            let pacing = controller.pacing_interval(&path.view(received_at), in_flight);
            events.push(Event::Answer(Answer::Allowance(received_at, in_flight, allowance)));
            events.push(Event::Answer(Answer::Pacing(received_at, in_flight, pacing)));
            events.push(Event::Answer(Answer::Traits(controller.traits())));
        }
        let text = Kept { header: Some(header), events }.text();
        (algorithm.to_string().replace(':', "_"), text.into_bytes())
    })
}

/// Seeds of tickets, call streams and rendezvous messages.
fn calls() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let addresses = ["192.0.2.7:4600", "[2001:db8::7]:4600"].map(|text| text.parse().expect("an address"));
    let plain = Ticket {
        key: ListenerKey::PublicKey([7; 32]),
        secret: [9; 16],
        addresses: addresses.into(),
        rendezvous: Vec::new(),
        is_room: false,
    };
    let met = Ticket { rendezvous: addresses.into(), ..plain.clone() };
    let web = Ticket { key: ListenerKey::CertificateHash([7; 32]), ..plain.clone() };
    let said = [&[2, 7, 192, 0][..], &[9; 16]].concat();
    // Join, welcome, presence and close, in parts of five bytes.
    let join = [&[0, 19, 1, 2, 2][..], &[3; 16]].concat();
    let stream = [&[5][..], &join, &[0, 2, 2, 2], &[0, 2, 5, 1], &[0, 3, 4, 0, 0]].concat();
    // A CONNECT request, and the capsule that closes its session; settings.
    let fields = [
        &[0, 0, 0xcf, 0xd7, 0x50, 9][..],
        b"192.0.2.7",
        &[0x51, 9],
        b"/lockstep",
        &[0x27, 2],
        b":protocol",
        &[12],
        b"webtransport",
    ]
    .concat();
    let request = [&[40, 1, fields.len() as u8][..], &fields, &[0, 7, 0x68, 0x43, 4, 0, 0, 0, 0]].concat();
    let mut seeds = vec![
        ("web", "request", request),
        ("web", "settings", vec![3, 4, 4, 0x33, 1, 8, 1]),
        ("ticket", "plain", plain.to_string().into_bytes()),
        ("ticket", "met", met.to_string().into_bytes()),
        ("ticket", "web", format!("http://127.0.0.1:4680/#{web}").into_bytes()),
        ("ticket", "said", said),
        ("control", "call", stream),
    ];
    // One message each: no datagram of the target is longer.
    let whole = |datagram: Vec<u8>| [&[u8::MAX][..], &datagram].concat();
    seeds.extend(fuzzing::messages().into_iter().map(|(name, datagram)| ("rendezvous", name, whole(datagram))));
    seeds
}

/// Seeds of sound: packets and files.
fn sound() -> Vec<(&'static str, Vec<u8>)> {
    let mut encoder = SoundEncoder::new(Bitrate::from_kbps(24)).expect("memory");
    encoder.set_loss(0.2).expect("a share");
    let mut tone = Tone::default();
    let frames: Vec<Frame> = (0..8).filter_map(|_| tone.next_frame().expect("a tone never fails")).collect();
    let packets: Vec<Vec<u8>> = frames.iter().filter_map(|frame| encoder.encode(frame).expect("memory")).collect();
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut bytes).expect("memory");
    writer.write(&frames[0]).expect("memory");
    writer.finish().expect("memory");
    let plain = bytes.into_inner();
    // The same samples as eight-bit stereo at another rate: format, channels, rate, bytes per second and per sample.
    let mut other = plain.clone();
    other[22..36].copy_from_slice(&[2, 0, 0x44, 0xac, 0, 0, 0x88, 0x58, 1, 0, 2, 0, 8, 0]);
    vec![("packets", lengths(&packets)), ("wav", plain), ("resampled", other)]
}

/// A length-delimited field of an ONNX message.
fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    assert!(tag < 16 && content.len() < 1 << 14, "a field of a small message");
    let length = content.len() as u16;
    let length = if length < 128 { vec![length as u8] } else { vec![length as u8 | 128, (length >> 7) as u8] };
    [&[tag << 3 | 2][..], &length, content].concat()
}

fn number(tag: u8, value: u8) -> Vec<u8> {
    vec![tag << 3, value]
}

/// A tensor whose weights are all 1/16.
fn weights(name: &str, dims: &[u8]) -> Vec<u8> {
    let count = dims.iter().map(|&length| usize::from(length)).product();
    let dims: Vec<u8> = dims.iter().flat_map(|&length| number(1, length)).collect();
    let raw: Vec<u8> = std::iter::repeat_n(0.0625f32.to_le_bytes(), count).flatten().collect();
    [dims, number(2, 1), field(8, name.as_bytes()), field(9, &raw)].concat()
}

fn integers(name: &str, values: &[u8]) -> Vec<u8> {
    let words: Vec<u8> = values.iter().flat_map(|&value| i64::from(value).to_le_bytes()).collect();
    [number(1, values.len() as u8), number(2, 7), field(8, name.as_bytes()), field(9, &words)].concat()
}

/// An operator with integer attributes.
fn operator(kind: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, u8)]) -> Vec<u8> {
    let attribute = |&(name, value): &(&str, u8)| field(5, &[field(1, name.as_bytes()), number(3, value)].concat());
    let inputs = inputs.iter().flat_map(|name| field(1, name.as_bytes()));
    let outputs = outputs.iter().flat_map(|name| field(2, name.as_bytes()));
    let mut bytes: Vec<u8> = inputs.chain(outputs).collect();
    bytes.extend(field(4, kind.as_bytes()));
    bytes.extend(attributes.iter().flat_map(attribute));
    bytes
}

fn port(name: &str, dims: &[u8]) -> Vec<u8> {
    let shape: Vec<u8> = dims.iter().flat_map(|&length| field(1, &number(1, length))).collect();
    let tensor = [number(1, 1), field(2, &shape)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
}

/// A model file: operators, tensors, inputs and names of the outputs.
fn model(operators: &[Vec<u8>], tensors: &[Vec<u8>], inputs: &[Vec<u8>], outputs: &[&str]) -> Vec<u8> {
    let part =
        |tag: u8, messages: &[Vec<u8>]| messages.iter().flat_map(|message| field(tag, message)).collect::<Vec<u8>>();
    let outputs: Vec<Vec<u8>> = outputs.iter().map(|name| field(1, name.as_bytes())).collect();
    let graph = [part(1, operators), part(5, tensors), part(11, inputs), part(12, &outputs)].concat();
    [field(7, &graph), field(8, &number(2, 17))].concat()
}

fn models() -> Vec<(&'static str, Vec<u8>)> {
    let dense = model(
        &[
            operator("Gemm", &["seen", "w", "b"], &["scores"], &[("transB", 1)]),
            operator("Softmax", &["scores"], &["said"], &[]),
        ],
        &[weights("w", &[4, 11]), weights("b", &[4])],
        &[port("seen", &[1, 11])],
        &["said"],
    );
    let challenge = model(
        &[
            operator("LSTM", &["obs", "w", "r", "", "", "h", "c"], &["y", "hn", "cn"], &[("hidden_size", 2)]),
            operator("Squeeze", &["hn", "axis"], &["state"], &[]),
            operator("Squeeze", &["cn", "axis"], &["cell"], &[]),
            operator("Unsqueeze", &["hidden_states", "axis"], &["h"], &[]),
            operator("Unsqueeze", &["cell_states", "axis"], &["c"], &[]),
        ],
        &[weights("w", &[1, 8, 1]), weights("r", &[1, 8, 2]), integers("axis", &[0])],
        &[port("obs", &[1, 1, 1]), port("hidden_states", &[1, 2]), port("cell_states", &[1, 2])],
        &["y", "state", "cell"],
    );
    let convolution = model(
        &[operator("Conv", &["seen", "k"], &["c"], &[]), operator("Flatten", &["c"], &["said"], &[("axis", 1)])],
        &[weights("k", &[2, 6, 4])],
        &[port("seen", &[1, 6, 10])],
        &["said"],
    );
    vec![("dense", dense), ("challenge", challenge), ("convolution", convolution)]
}
