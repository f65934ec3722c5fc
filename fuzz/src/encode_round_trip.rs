//! Encodes arbitrary small pictures with arbitrary parameters and source states. The decoder must get the encoder's
//! picture and state.

use arbitrary::{Result, Unstructured};
use lockstep_vp8::{
    Analysis, Arena, Content, DEFAULT_PIXEL_LIMIT, Effort, Encoded, FrameKind, GoldenPolicy, Parameters, Picture,
    State, decode_in,
};

use crate::memory::bounded;
use crate::pictures::picture;

/// Limit on frames per input.
const FRAMES: usize = 6;
/// Longest side of a picture, luma samples.
const SIDE: usize = 56;
/// Memory for seven states of 56x56 with borders, an analysis and its candidates.
const MEMORY: usize = 16 << 20;

/// Encodes a picture, decodes the frames, and compares. `arena` holds all memory.
pub fn checked(arena: &Arena, state: &State, picture: &Picture, parameters: &Parameters) -> Encoded {
    let before = state.id();
    let analysis = Analysis::new_in(arena, state, picture, parameters);
    assert!(analysis.predict_size(parameters.quantizer) < 1 << 24);
    let (encoded, decisions) = analysis.encode_first(parameters.quantizer);
    let beside = analysis.encode_reusing(parameters.quantizer ^ 8, &decisions);
    assert_eq!(state.id(), before, "encoding changed the source state");
    for encoded in [&encoded, &beside] {
        let (decoded, shown) =
            decode_in(arena, state, &encoded.frame, DEFAULT_PIXEL_LIMIT).expect("the encoder's frame decodes");
        assert_eq!((shown.width(), shown.height()), (picture.width(), picture.height()));
        assert!(shown == encoded.picture(), "decoder and encoder have different pictures");
        assert_eq!(decoded.id(), encoded.state.id(), "decoder and encoder have different states");
    }
    encoded
}

/// Encoding parameters from the input.
pub fn parameters(u: &mut Unstructured) -> Result<Parameters> {
    let (quantizer, choices): (u8, u8) = u.arbitrary()?;
    Ok(Parameters {
        quantizer,
        effort: Effort::new(choices % 10),
        frame_kind: if choices & 14 == 14 { FrameKind::Key } else { FrameKind::Auto },
        golden: [GoldenPolicy::Auto, GoldenPolicy::Refresh, GoldenPolicy::Keep][usize::from(choices >> 4) % 3],
        content: if choices & 128 == 0 { Content::Camera } else { Content::Screen },
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
        // Usually the newest state; otherwise an older or the empty one.
        let from = if source & 3 == 0 { usize::from(source >> 2) % states.len() } else { states.len() - 1 };
        let encoded = checked(&arena, &states[from], &picture, &parameters);
        states.push(encoded.state);
        last = Some(picture);
    }
    Ok(())
}

/// Input: one byte each for width and height, then source, parameters and picture of each frame.
pub fn run(data: &[u8]) {
    // An input that ends early gives a shorter call.
    let _ = bounded(MEMORY, || call(&mut Unstructured::new(data)));
}
