//! Tests against libvpx, where it is installed.

use std::sync::mpsc;
use std::time::Duration;

use lockstep_call::{FrameEncoder, FrameRequest, SerialMenu};
use lockstep_libvpx::{
    Decoder, Effort, Encoder, EncoderSettings, Library, LibvpxEncoder, QUANTIZER_INDICES, RateControl,
};
use lockstep_transport::StateId;
use lockstep_units::{Bitrate, Timestamp};
use lockstep_vp8::{Parameters, Picture, State, decode, encode};

fn library() -> Option<Library> {
    Library::open().inspect_err(|error| eprintln!("skipped: {error}")).ok()
}

/// A pattern that moves by `time` samples.
fn picture(width: usize, height: usize, time: usize) -> Picture {
    let luma = (0..width * height).map(|i| {
        let (x, y) = (i % width + time, i / width);
        (128 + (x * 5 % 64) + (y * 3 % 32) + ((x / 8) ^ (y / 8)) % 2 * 20) as u8
    });
    let chroma = std::iter::repeat_n(120, 2 * width.div_ceil(2) * height.div_ceil(2));
    Picture::from_i420(width, height, luma.chain(chroma).collect()).unwrap()
}

/// Noise that differs in every picture: it consumes all bits that the encoder has.
fn noise(width: usize, height: usize, time: usize) -> Picture {
    let sample = |i: usize| ((i as u32 ^ (time as u32) << 20).wrapping_mul(2_654_435_761) >> 26) as u8 + 96;
    Picture::from_i420(width, height, (0..Picture::i420_length(width, height)).map(sample).collect()).unwrap()
}

fn settings(width: usize, height: usize, rate_control: RateControl) -> EncoderSettings {
    EncoderSettings { width, height, frame_rate: (30, 1), effort: Effort::RealTime(-6), rate_control }
}

#[test]
fn both_decoders_agree_on_frames_of_libvpx() {
    let Some(library) = library() else { return };
    for (width, height) in [(64, 48), (63, 47), (16, 16), (1, 1), (176, 144)] {
        let mut encoder = Encoder::new(&library, &settings(width, height, RateControl::Quantizer(24))).unwrap();
        let (mut decoder, mut state) = (Decoder::new(&library).unwrap(), State::default());
        for time in 0..6 {
            let frame = encoder.encode(&picture(width, height, time), time as u64, time == 4).unwrap().unwrap();
            assert_eq!(frame.key_frame, time % 4 == 0);
            assert_eq!(encoder.last_quantizer().unwrap(), QUANTIZER_INDICES[24]);
            let (next, ours) = decode(&state, &frame.data).unwrap();
            state = next;
            assert_eq!(decoder.picture(&frame.data).unwrap().as_ref(), Some(&ours), "{width}x{height}, picture {time}");
        }
    }
}

#[test]
fn libvpx_decodes_our_frames_to_our_pictures() {
    let Some(library) = library() else { return };
    let (mut decoder, mut state) = (Decoder::new(&library).unwrap(), State::default());
    for time in 0..6 {
        let parameters = Parameters { quantizer: 30, ..Parameters::default() };
        let encoded = encode(&state, &picture(80, 60, time), &parameters);
        state = encoded.state;
        assert_eq!(decoder.picture(&encoded.frame).unwrap(), state.last_picture());
    }
}

#[test]
fn damaged_frame_or_wrong_picture_size_is_an_error() {
    let Some(library) = library() else { return };
    assert!(Decoder::new(&library).unwrap().decode(&[1, 2, 3]).is_err());
    let mut encoder = Encoder::new(&library, &settings(64, 48, RateControl::Quantizer(24))).unwrap();
    assert!(encoder.encode(&picture(64, 64, 0), 0, false).is_err());
    assert!(Encoder::new(&library, &settings(0, 48, RateControl::Quantizer(24))).is_err());
}

fn request(picture: &Picture, time: usize, source: StateId, kbps: u64) -> FrameRequest<'_> {
    let now = Timestamp::ZERO + Duration::from_millis(33) * time as u32;
    FrameRequest::at_rate(now, picture, source, Bitrate::from_kbps(kbps))
}

#[test]
fn encoder_follows_target_and_codes_only_from_its_last_state() {
    let Some(library) = library() else { return };
    let (refusals, refused) = mpsc::channel();
    let mut encoder = LibvpxEncoder::new(&library, (176, 144), (30, 1), Effort::RealTime(-6), refusals).unwrap();
    let mut send = |time: usize, source: StateId, kbps: u64| {
        let picture = noise(176, 144, time);
        let request = request(&picture, time, source, kbps);
        let menu = encoder.begin(&request)?.job.run(&SerialMenu);
        let choice = encoder.choose(&menu, request.budget, false);
        encoder.commit(menu, choice)
    };
    let (mut name, first) = send(0, StateId::EMPTY, 500).unwrap();
    assert!(first.key_frame);
    let mut sizes = [0; 2];
    for (part, kbps) in [(0, 500), (1, 60)] {
        for time in 1 + part * 90..1 + part * 90 + 90 {
            let Some((next, frame)) = send(time, name, kbps) else { continue };
            assert!(!frame.key_frame);
            name = next;
            // The encoder takes up to a second to apply a new target.
            if time > part * 90 + 35 {
                sizes[part] += frame.frame.len();
            }
        }
    }
    assert!(sizes[1] * 2 < sizes[0], "{sizes:?}");
    let elsewhere = StateId(!name.0);
    assert!(send(200, elsewhere, 60).unwrap().1.key_frame);
    assert!(send(201, elsewhere, 60).is_none(), "33 ms after a key frame");
    assert!(refused.try_recv().is_err(), "a dropped picture is not a refused one");
}

#[test]
fn refused_picture_is_skipped_and_its_error_reported() {
    let Some(library) = library() else { return };
    let (refusals, refused) = mpsc::channel();
    let mut encoder = LibvpxEncoder::new(&library, (176, 144), (30, 1), Effort::RealTime(-6), refusals).unwrap();
    let picture = noise(64, 48, 0);
    let menu = encoder.begin(&request(&picture, 0, StateId::EMPTY, 500)).unwrap().job.run(&SerialMenu);
    assert!(menu.candidates.is_empty());
    assert_eq!(refused.try_recv().unwrap().to_string(), "picture size 64x48 is invalid or differs from the encoder's");
}
