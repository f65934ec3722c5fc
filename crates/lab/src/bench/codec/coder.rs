//! The compared encoders. Each encodes a clip at one quantizer.

use std::hint::black_box;

use anyhow::{Context, Result, bail};

use lockstep_call::mean;
use lockstep_configuration::OptionValue;
use lockstep_libvpx::{Effort, Encoder, EncoderSettings, Library, QUANTIZER_INDICES, RateControl};
use lockstep_media::{psnr, ssim, ssim_db};
use lockstep_vp8::{Analysis, Arena, DEFAULT_PIXEL_LIMIT, Encoded, Parameters, Picture, State, decode_in};

use super::super::Stopwatch;
use super::super::clip::Clip;
use super::ffmpeg::{CodedFile, External, Ffmpeg};

/// An encoder and its effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coder {
    Ours(lockstep_vp8::Effort),
    Libvpx(Effort),
    External(External),
}

/// The encoders of this machine besides our own.
#[derive(Default)]
pub(super) struct Libraries {
    pub libvpx: Option<Library>,
    /// None unless a comparison requires it.
    pub ffmpeg: Option<Ffmpeg>,
}

/// A coded clip.
pub(super) enum Stream {
    /// Frames of VP8.
    Frames(Vec<Vec<u8>>),
    File(CodedFile),
}

/// Output of an encoder for a clip.
pub(super) struct CodedClip {
    pub stream: Stream,
    /// Processor time of the encoder, seconds.
    pub seconds: f64,
}

impl Stream {
    /// The decoded pictures.
    fn pictures(&self) -> Result<Box<dyn Iterator<Item = Result<Picture>> + '_>> {
        let frames = match self {
            Self::Frames(frames) => frames,
            Self::File(file) => return Ok(Box::new(file.pictures()?)),
        };
        let (arena, mut state) = (Arena::default(), State::default());
        Ok(Box::new(frames.iter().map(move |frame| {
            let decoded = decode_in(&arena, &state, frame, DEFAULT_PIXEL_LIMIT);
            let (next, shown) = decoded.context("a frame of the benchmark does not decode")?;
            state = next;
            Ok(shown)
        })))
    }
}

impl CodedClip {
    /// Size of all frames, bytes.
    pub(super) fn bytes(&self) -> usize {
        match &self.stream {
            Stream::Frames(frames) => frames.iter().map(Vec::len).sum(),
            Stream::File(file) => file.bytes,
        }
    }
}

impl Coder {
    pub(super) fn name(self) -> String {
        match self {
            Self::Ours(effort) => format!("lockstep {}", effort.to_word()),
            Self::Libvpx(Effort::RealTime(speed)) => format!("libvpx --rt {speed}"),
            Self::Libvpx(Effort::Good(speed)) => format!("libvpx --good {speed}"),
            Self::External(external) => external.name(),
        }
    }

    /// Encodes the clip at a quantizer index. libvpx uses the matching index of its scale, an external encoder its own
    /// quantizer of similar quality.
    pub(super) fn code(self, libraries: &Libraries, clip: &Clip, index: u8) -> Result<CodedClip> {
        match self {
            Self::Ours(effort) => Ok(ours(clip, &Parameters { quantizer: index, effort, ..Parameters::default() })),
            Self::Libvpx(effort) => {
                let quantizer = QUANTIZER_INDICES.iter().position(|&known| known == index);
                let quantizer = quantizer.with_context(|| format!("libvpx has no quantizer of index {index}"))? as u8;
                libvpx(libraries.libvpx.as_ref().context("libvpx is not there")?, clip, effort, quantizer)
            }
            Self::External(external) => {
                let ffmpeg = libraries.ffmpeg.as_ref().context("ffmpeg is not there")?;
                let (file, seconds) = ffmpeg.encode(external, clip, index)?;
                Ok(CodedClip { stream: Stream::File(file), seconds })
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
    CodedClip { stream: Stream::Frames(frames), seconds: watch.seconds() }
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
    Ok(CodedClip { stream: Stream::Frames(frames), seconds: watch.seconds() })
}

/// Luma PSNR of each decoded picture, dB, and the SSIM of all, dB.
pub(super) fn quality(clip: &Clip, stream: &Stream) -> Result<(Vec<f64>, f64)> {
    let (mut psnrs, mut ssims) = (Vec::new(), Vec::new());
    for shown in stream.pictures()? {
        let (number, shown) = (psnrs.len(), shown?);
        let original = clip.pictures.get(number).context("a coded clip has more pictures than the original")?;
        psnrs.push(psnr(original, &shown)?);
        ssims.push(ssim(original, &shown)?);
    }
    if psnrs.len() < clip.pictures.len() {
        bail!("a coded clip has {} of {} pictures", psnrs.len(), clip.pictures.len());
    }
    let ssim = ssim_db(mean(&ssims).context("no frame decoded")?);
    Ok((psnrs, ssim))
}
