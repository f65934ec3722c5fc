//! Any small pictures, settings and sources: what a decoder makes of a frame is what the encoder says it makes.

use arbitrary::{Result, Unstructured};
use lockstep_vp8::{
    Analysis, Arena, DEFAULT_PIXEL_LIMIT, Encoded, FrameKind, GoldenPolicy, Parameters, Picture, Preset, State,
    decode_in,
};

use crate::memory::bounded;
use crate::pictures::picture;

/// The most frames of one input.
const FRAMES: usize = 6;
/// The longest side, luma samples.
const SIDE: usize = 56;
/// Seven states of 56x56 with borders, an analysis and its candidates.
const MEMORY: usize = 16 << 20;

/// Encodes and decodes again, both in the memory of `arena`, and compares.
pub fn checked(arena: &Arena, state: &State, picture: &Picture, parameters: &Parameters) -> Encoded {
    let before = state.hash();
    let analysis = Analysis::new_in(arena, state, picture, parameters);
    assert!(analysis.predict_size(parameters.quantizer) < 1 << 24);
    let (encoded, decisions) = analysis.encode_first(parameters.quantizer);
    let beside = analysis.encode_beside(parameters.quantizer ^ 8, &decisions);
    assert_eq!(state.hash(), before, "encoding changed the state it began from");
    for encoded in [&encoded, &beside] {
        let (decoded, shown) =
            decode_in(arena, state, &encoded.frame, DEFAULT_PIXEL_LIMIT).expect("the encoder's frame does not decode");
        assert_eq!((shown.width(), shown.height()), (picture.width(), picture.height()));
        assert!(shown == encoded.picture(), "the decoder sees another picture than the encoder");
        assert_eq!(decoded.hash(), encoded.state.hash(), "the decoder is in another state than the encoder");
    }
    encoded
}

/// How to encode, from the input.
pub fn parameters(u: &mut Unstructured) -> Result<Parameters> {
    let (quantizer, choices): (u8, u8) = u.arbitrary()?;
    Ok(Parameters {
        quantizer,
        preset: if choices & 1 == 0 { Preset::RealTime } else { Preset::Quality },
        frame_kind: if choices & 14 == 14 { FrameKind::Key } else { FrameKind::Auto },
        golden: [GoldenPolicy::Auto, GoldenPolicy::Refresh, GoldenPolicy::Keep][usize::from(choices >> 4) % 3],
    })
}

fn side(u: &mut Unstructured) -> Result<usize> {
    Ok(1 + usize::from(u.arbitrary::<u8>()?) % SIDE)
}

fn call(u: &mut Unstructured) -> Result<()> {
    let (mut width, mut height) = (side(u)?, side(u)?);
    let (arena, mut states) = (Arena::default(), vec![State::default()]);
    let mut last: Option<Picture> = None;
    for _ in 0..FRAMES {
        let (source, resize): (u8, u8) = u.arbitrary()?;
        if resize > 250 {
            (width, height) = (side(u)?, side(u)?);
        }
        let parameters = parameters(u)?;
        let picture = picture(u, width, height, last.as_ref())?;
        // Mostly the newest, else an older one or the empty one.
        let from = if source & 3 == 0 { usize::from(source >> 2) % states.len() } else { states.len() - 1 };
        let encoded = checked(&arena, &states[from], &picture, &parameters);
        states.push(encoded.state);
        last = Some(picture);
    }
    Ok(())
}

/// One byte of width and height, then frame by frame the source, the parameters and the picture.
pub fn run(data: &[u8]) {
    // An input that ends early is a shorter call.
    let _ = bounded(MEMORY, || call(&mut Unstructured::new(data)));
}
