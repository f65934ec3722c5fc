//! The decoder on arbitrary input: it returns an error or a picture and uses bounded memory.

mod clips;
#[allow(dead_code)]
mod streams;

use clips::{Content, picture};
use lockstep_vp8::{DEFAULT_PIXEL_LIMIT, DecodeError, Parameters, State, decode, decode_within, encode, is_shown};
use proptest::prelude::*;
use std::sync::OnceLock;
use streams::{ivf_frames, vectors};

/// Some valid streams: one of our encoder, and those of the test vectors where they are available.
fn real_frames() -> &'static [Vec<Vec<u8>>] {
    static FRAMES: OnceLock<Vec<Vec<Vec<u8>>>> = OnceLock::new();
    FRAMES.get_or_init(|| {
        let mut state = State::default();
        let ours = (0..4)
            .map(|index| {
                let picture = picture(Content::Objects, 52, 37, index, 1);
                let encoded = encode(&state, &picture, &Parameters::default());
                state = encoded.state;
                encoded.frame
            })
            .collect();
        let small = |path: &std::path::PathBuf| std::fs::metadata(path).is_ok_and(|file| file.len() < 40_000);
        let shared = vectors().into_iter().filter(small);
        let shared = shared.map(|path| ivf_frames(&std::fs::read(path).unwrap()).into_iter().take(5).collect());
        std::iter::once(ours).chain(shared).collect()
    })
}

/// Decodes a stream and keeps the last good state after an error, as a receiver does.
fn decode_all<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> State {
    let mut state = State::default();
    for frame in frames {
        if let Ok((next, picture)) = decode(&state, frame) {
            assert_eq!(Some((picture.width(), picture.height())), next.size());
            state = next;
        }
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_decode_or_are_refused(mut frame in proptest::collection::vec(any::<u8>(), 0..400), key: bool) {
        let first = &real_frames()[0][0];
        decode_all([&frame[..], first, &frame]);
        if key && frame.len() > 10 {
            // Random bytes after a valid key frame header.
            frame[0] &= 0xee;
            frame[1..3].fill(0);
            frame[3..10].copy_from_slice(&[0x9d, 1, 0x2a, 40, 0, 30, 0]);
            decode_all([&frame[..], &real_frames()[0][1], &real_frames()[0][2]]);
        }
    }

    #[test]
    fn changed_frames_decode_or_are_refused(
        stream: prop::sample::Index,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut frames = real_frames()[stream.index(real_frames().len())].clone();
        for (frame, at, value) in changes {
            let index = frame.index(frames.len());
            let frame = &mut frames[index];
            // Mostly the header and the modes, which control decoding.
            let at = at.index(frame.len().min(200));
            frame[at] = value;
        }
        let state = decode_all(frames.iter().map(Vec::as_slice));
        prop_assert_eq!(State::from_bytes(&state.to_bytes()).map(|state| state.id()), Ok(state.id()));
    }

    #[test]
    fn truncated_frames_decode_or_are_refused(stream: prop::sample::Index, which: prop::sample::Index, length: prop::sample::Index) {
        let frames = &real_frames()[stream.index(real_frames().len())];
        let cut = which.index(frames.len());
        let length = length.index(frames[cut].len());
        let cut_at = |(index, frame): (usize, &'static Vec<u8>)| if index == cut { &frame[..length] } else { &frame[..] };
        decode_all(frames.iter().enumerate().map(cut_at));
    }

    #[test]
    fn changed_states_restore_or_are_refused(at: prop::sample::Index, value: u8, length: prop::sample::Index) {
        static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
        let bytes = BYTES.get_or_init(|| decode_all(real_frames()[0].iter().map(Vec::as_slice)).to_bytes());
        let mut changed = bytes.clone();
        let at = at.index(bytes.len());
        changed[at] = value;
        // The flag "is shown" and the frame's quantizer are not part of a state's id.
        prop_assert!(changed == *bytes || at == 5 || at == 7 || State::from_bytes(&changed).is_err());
        prop_assert!(State::from_bytes(&bytes[..length.index(bytes.len())]).is_err());
    }
}

/// A key frame of this size with a first partition of `first` zero bytes, then `behind` zero bytes.
fn key_frame(width: u16, height: u16, first: usize, behind: usize) -> Vec<u8> {
    let tag = (first as u32) << 5 | 1 << 4;
    let mut frame = tag.to_le_bytes()[..3].to_vec();
    frame.extend([0x9d, 1, 0x2a]);
    frame.extend(width.to_le_bytes());
    frame.extend(height.to_le_bytes());
    frame.resize(frame.len() + first + behind, 0);
    frame
}

#[test]
fn short_key_frame_of_largest_size_is_refused() {
    for length in [0, 10, 1_000, 60_000] {
        assert_eq!(
            decode(&State::default(), &key_frame(16_383, 16_383, length, 0)).map(|_| ()),
            Err(DecodeError::ImplausibleSize { bytes: 10 + length, macroblocks: 1_024 * 1_024 })
        );
    }
    let mut bytes = State::default().to_bytes();
    // Byte 6: references present. Byte 7: quantizer. Bytes 8 to 11: width and height.
    bytes[6] = 1;
    bytes[8..12].copy_from_slice(&[0xff, 0x3f, 0xff, 0x3f]);
    assert!(State::from_bytes(&bytes).is_err());
}

#[test]
fn invalid_headers_have_specific_errors() {
    let decoded = |frame: &[u8]| decode(&State::default(), frame).map(|_| ());
    assert_eq!(decoded(&[]), Err(DecodeError::NoReference));
    assert_eq!(decoded(&[0x10, 0]), Err(DecodeError::Truncated { expected: 3, actual: 2 }));
    assert_eq!(decoded(&[0x10, 0, 0, 0x9d]), Err(DecodeError::Truncated { expected: 10, actual: 4 }));
    assert_eq!(decoded(&[0x11, 0, 0, 0, 0]), Err(DecodeError::NoReference));
    assert_eq!(decoded(&key_frame(0, 16, 8, 0)), Err(DecodeError::EmptySize { width: 0, height: 16 }));
    let mut frame = key_frame(16, 16, 8, 0);
    assert_eq!(decoded(&frame), Ok(()));
    frame[3] = 0;
    assert_eq!(decoded(&frame), Err(DecodeError::StartCode([0, 1, 0x2a])));
    let frame = key_frame(16, 16, 8, 0);
    assert_eq!(decoded(&frame[..17]), Err(DecodeError::Partition { expected: 8, actual: 7 }));
}

#[test]
fn empty_frame_repeats_the_picture_and_keeps_the_state() {
    let (state, picture) = decode(&State::default(), &real_frames()[0][0]).unwrap();
    let (same, again) = decode(&state, &[]).unwrap();
    assert_eq!((same.id(), again), (state.id(), picture));
}

#[test]
fn key_frame_can_change_size_and_scaling() {
    let (state, _) = decode(&State::default(), &key_frame(40, 20, 30, 0)).unwrap();
    assert_eq!((state.size(), state.scaling()), (Some((40, 20)), (0, 0)));
    let (state, picture) = decode(&state, &key_frame(1 << 14 | 17, 2 << 14 | 33, 30, 0)).unwrap();
    assert_eq!((state.size(), state.scaling()), (Some((17, 33)), (1, 2)));
    assert_eq!((picture.width(), picture.height()), (17, 33));
}

#[test]
fn hidden_frame_decodes_and_is_marked_as_hidden() {
    let mut frame = real_frames()[0][0].clone();
    let (shown, picture) = decode(&State::default(), &frame).unwrap();
    assert!(shown.is_shown() && is_shown(&frame));
    frame[0] &= !0x10;
    let (hidden, same) = decode(&State::default(), &frame).unwrap();
    assert!(!hidden.is_shown() && !is_shown(&frame));
    assert_eq!((hidden.id(), same), (shown.id(), picture));
}

#[test]
fn key_frame_above_the_pixel_limit_is_refused() {
    // A header for 16383x16383 in a frame that is long enough for this size.
    let mut frame = vec![0; 303_000];
    frame[0] = 0x10;
    frame[3..10].copy_from_slice(&[0x9d, 1, 0x2a, 0xff, 0x3f, 0xff, 0x3f]);
    let refused = DecodeError::TooManyPixels { width: 16_383, height: 16_383, limit: DEFAULT_PIXEL_LIMIT };
    assert_eq!(decode(&State::default(), &frame).unwrap_err(), refused);

    let key = &real_frames()[0][0];
    let refused = DecodeError::TooManyPixels { width: 52, height: 37, limit: 52 * 37 - 1 };
    assert_eq!(decode_within(&State::default(), key, 52 * 37 - 1).unwrap_err(), refused);
    assert!(decode_within(&State::default(), key, 52 * 37).is_ok());
}
