//! The compared encoders. Each encodes a clip at one quantizer.

use std::hint::black_box;

use anyhow::{Context, Result, bail};

use lockstep_av1::{Av1, Av1Parameters};
use lockstep_call::{FunctionalCodec, PictureCodec, Vp8, mean};
use lockstep_configuration::OptionValue;
use lockstep_libvpx::{Effort, Encoder, EncoderSettings, Library, QUANTIZER_INDICES, RateControl};
use lockstep_media::{psnr, ssim, ssim_db};
use lockstep_transport::StateId;
use lockstep_vp8::{Analysis, Arena, DEFAULT_PIXEL_LIMIT, Encoded, Parameters, Picture, State};

use super::super::Stopwatch;
use super::super::clip::Clip;
use super::ffmpeg::{CodedFile, External, Ffmpeg};

/// An encoder and its effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coder {
    Ours(lockstep_vp8::Effort),
    /// AV1 over named slots.
    Av1(lockstep_vp8::Effort),
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
    /// Frames of AV1, each from the state of the one before.
    Av1(Vec<Vec<u8>>),
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
        Ok(match self {
            Self::Frames(frames) => Box::new(decoded::<Vp8>(frames)),
            Self::Av1(frames) => Box::new(decoded::<Av1>(frames)),
            Self::File(file) => Box::new(file.pictures()?),
        })
    }
}

/// The pictures of frames, each from the state of the one before.
fn decoded<C: PictureCodec>(frames: &[Vec<u8>]) -> impl Iterator<Item = Result<Picture>> {
    let (arena, mut state) = (C::Arena::default(), C::State::default());
    frames.iter().map(move |frame| {
        let decoded = C::decode(&arena, &state, frame, StateId::EMPTY, DEFAULT_PIXEL_LIMIT);
        let (next, shown) = decoded.context("a frame of the benchmark does not decode")?;
        state = next;
        Ok(shown)
    })
}

impl CodedClip {
    /// Size of all frames, bytes.
    pub(super) fn bytes(&self) -> usize {
        match &self.stream {
            Stream::Frames(frames) | Stream::Av1(frames) => frames.iter().map(Vec::len).sum(),
            Stream::File(file) => file.bytes,
        }
    }
}

impl Coder {
    pub(super) fn name(self) -> String {
        match self {
            Self::Ours(effort) => format!("lockstep {}", effort.to_word()),
            Self::Av1(effort) => format!("lockstep-av1 {}", effort.to_word()),
            Self::Libvpx(Effort::RealTime(speed)) => format!("libvpx --rt {speed}"),
            Self::Libvpx(Effort::Good(speed)) => format!("libvpx --good {speed}"),
            Self::External(external) => external.name(),
        }
    }

    /// Encodes the clip at a quantizer index. libvpx uses the matching index of its scale, an external encoder its own
    /// quantizer of similar quality.
    pub(super) fn code(self, libraries: &Libraries, clip: &Clip, index: u8) -> Result<CodedClip> {
        match self {
            Self::Ours(effort) => {
                let (frames, seconds) = coded::<Vp8>(clip, Parameters::default(), effort, index);
                Ok(CodedClip { stream: Stream::Frames(frames), seconds })
            }
            Self::Av1(effort) => {
                let parameters = Av1Parameters::default();
                let failure = parameters.failure.clone();
                let (frames, seconds) = coded::<Av1>(clip, parameters, effort, index);
                failure.check().map_err(anyhow::Error::from_boxed)?;
                Ok(CodedClip { stream: Stream::Av1(frames), seconds })
            }
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

/// Frames of the clip, each from the state of the one before, and the processor time, seconds.
fn coded<C: FunctionalCodec + PictureCodec>(
    clip: &Clip,
    mut parameters: C::Parameters,
    effort: lockstep_vp8::Effort,
    index: u8,
) -> (Vec<Vec<u8>>, f64) {
    C::set_effort(&mut parameters, effort);
    let watch = Stopwatch::start();
    let (arena, mut state) = (C::Arena::default(), C::State::default());
    let mut frames = Vec::with_capacity(clip.pictures.len());
    for picture in &clip.pictures {
        let candidate = C::encode(&C::analyse(&arena, &state, picture, &parameters), index);
        frames.push(candidate.frame);
        state = candidate.state;
    }
    // Completes the last state, which no later frame requests.
    black_box(C::last_shown(&state));
    (frames, watch.seconds())
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
