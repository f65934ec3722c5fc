//! Builds pictures from the bytes of an input.

use arbitrary::{Result, Unstructured};
use lockstep_vp8::Picture;

/// A picture of `width` by `height`. Kinds: flat, two alternating values, noise, a gradient, input bytes, or `before`
/// shifted. A few samples are then changed.
pub fn picture(u: &mut Unstructured, width: usize, height: usize, before: Option<&Picture>) -> Result<Picture> {
    let length = Picture::i420_length(width, height);
    let before = before.filter(|before| (before.width(), before.height()) == (width, height));
    let kind: u8 = u.arbitrary()?;
    let parameters: [u8; 3] = u.arbitrary()?;
    let [a, b, c] = parameters;
    let samples: Vec<u8> = match (kind % 6, before) {
        (0, _) => vec![a; length],
        (1, _) => (0..length).map(|at| if at / (1 + usize::from(c)) % 2 == 0 { a } else { b }).collect(),
        (2, _) => {
            let mut state = u32::from_le_bytes([a, b, c, 1]);
            let noise = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            });
            noise.take(length).collect()
        }
        (3, None) | (4, _) => (0..length)
            .map(|at| (at % width * usize::from(a) / 16 + at / width * usize::from(b) / 16 + usize::from(c)) as u8)
            .collect(),
        (3, Some(before)) => {
            let shift = usize::from(a) % width + usize::from(b) % 8 * width;
            let mut samples = before.to_i420();
            samples.rotate_right(shift % length);
            samples
        }
        _ => {
            let own = u.bytes(u.len().min(length).min(256))?;
            own.iter().copied().chain([a]).cycle().take(length).collect()
        }
    };
    Ok(touched(u, samples, width, height))
}

/// Changes a few samples if the input requests it.
fn touched(u: &mut Unstructured, mut samples: Vec<u8>, width: usize, height: usize) -> Picture {
    for _ in 0..u.arbitrary::<u8>().unwrap_or(0) % 8 {
        let Ok((at, length, value)) = u.arbitrary::<(u16, u8, u8)>() else { break };
        let at = usize::from(at) % samples.len();
        let end = (at + usize::from(length)).min(samples.len());
        samples[at..end].fill(value);
    }
    Picture::from_i420(width, height, samples).expect("the number of samples matches the size")
}
