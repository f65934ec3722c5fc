//! The compared encoders. Each encodes a clip at one quantizer.

use std::hint::black_box;

use anyhow::{Context, Result};

use lockstep_call::mean;
use lockstep_libvpx::{Effort, Encoder, EncoderSettings, Library, QUANTIZER_INDICES, RateControl};
use lockstep_media::{psnr, ssim, ssim_db};
use lockstep_vp8::{Analysis, Arena, DEFAULT_PIXEL_LIMIT, Encoded, Parameters, Picture, Preset, State, decode_in};

use super::super::Stopwatch;
use super::super::clip::Clip;

/// An encoder and its effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coder {
    Ours(Preset),
    Libvpx(Effort),
}

/// Output of an encoder for a clip.
pub(super) struct CodedClip {
    pub frames: Vec<Vec<u8>>,
    /// Processor time of the encoder, seconds.
    pub seconds: f64,
}

impl Coder {
    pub(super) fn name(self) -> String {
        match self {
            Self::Ours(Preset::RealTime) => "lockstep real-time".to_owned(),
            Self::Ours(Preset::Quality) => "lockstep quality".to_owned(),
            Self::Libvpx(Effort::RealTime(speed)) => format!("libvpx --rt {speed}"),
            Self::Libvpx(Effort::Good(speed)) => format!("libvpx --good {speed}"),
        }
    }

    /// Encodes the clip at a quantizer index. libvpx uses the matching index of its scale.
    pub(super) fn code(self, library: Option<&Library>, clip: &Clip, index: u8) -> Result<CodedClip> {
        match self {
            Self::Ours(preset) => Ok(ours(clip, &Parameters { quantizer: index, preset, ..Parameters::default() })),
            Self::Libvpx(effort) => {
                let quantizer = QUANTIZER_INDICES.iter().position(|&known| known == index);
                let quantizer = quantizer.with_context(|| format!("libvpx has no quantizer of index {index}"))? as u8;
                libvpx(library.context("libvpx is not there")?, clip, effort, quantizer)
            }
        }
    }
}

/// Encodes one of several pictures with a shared arena.
pub(super) fn encode(arena: &Arena, state: &State, picture: &Picture, parameters: &Parameters) -> Encoded {
    Analysis::new_in(arena, state, picture, parameters).encode(parameters.quantizer)
}

fn ours(clip: &Clip, parameters: &Parameters) -> CodedClip {
    let watch = Stopwatch::start();
    let (arena, mut state) = (Arena::default(), State::default());
    let mut frames = Vec::with_capacity(clip.pictures.len());
    for picture in &clip.pictures {
        let encoded = encode(&arena, &state, picture, parameters);
        frames.push(encoded.frame);
        state = encoded.state;
    }
    // Completes the last state, which no later frame requests.
    black_box(state.last_picture());
    CodedClip { frames, seconds: watch.seconds() }
}

fn libvpx(library: &Library, clip: &Clip, effort: Effort, quantizer: u8) -> Result<CodedClip> {
    let rate = clip.format.frame_rate;
    let settings = EncoderSettings {
        width: clip.format.width,
        height: clip.format.height,
        frame_rate: (rate.numerator(), rate.denominator()),
        effort,
        rate_control: RateControl::Quantizer(quantizer),
    };
    let mut encoder = Encoder::new(library, &settings)?;
    let watch = Stopwatch::start();
    let mut frames = Vec::with_capacity(clip.pictures.len());
    for (time, picture) in clip.pictures.iter().enumerate() {
        let frame = encoder.encode(picture, time as u64, false)?;
        frames.push(frame.context("libvpx dropped a picture at a fixed quantizer")?.data);
    }
    Ok(CodedClip { frames, seconds: watch.seconds() })
}

/// Luma PSNR of each decoded picture, dB, and the SSIM of all, dB.
pub(super) fn quality(clip: &Clip, frames: &[Vec<u8>]) -> Result<(Vec<f64>, f64)> {
    let (arena, mut state) = (Arena::default(), State::default());
    let (mut psnrs, mut ssims) = (Vec::new(), Vec::new());
    for (original, frame) in clip.pictures.iter().zip(frames) {
        let decoded = decode_in(&arena, &state, frame, DEFAULT_PIXEL_LIMIT);
        let (next, shown) = decoded.context("a frame of the benchmark does not decode")?;
        psnrs.push(psnr(original, &shown)?);
        ssims.push(ssim(original, &shown)?);
        state = next;
    }
    let ssim = ssim_db(mean(&ssims).context("no frame decoded")?);
    Ok((psnrs, ssim))
}
