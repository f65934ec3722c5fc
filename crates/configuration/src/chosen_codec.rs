//! The codec that the settings of a call choose.

use anyhow::{Context, Result, bail};

use lockstep_av1::{Av1, Av1Parameters, OneOf, Vp8OrAv1};
use lockstep_call::{FunctionalCodec, PictureCodec, Vp8};
use lockstep_vp8::{FrameKind, Parameters};

use crate::ControlSettings;
use crate::options::CodecKind;

/// A codec of pictures whose parameters the settings of a call choose.
pub trait ChosenCodec: FunctionalCodec + PictureCodec {
    /// Parameters of the codec that `settings` name.
    ///
    /// # Errors
    /// If this codec is another one, or its library is missing.
    fn parameters(settings: &ControlSettings) -> Result<Self::Parameters>;
}

impl ChosenCodec for Vp8 {
    fn parameters(settings: &ControlSettings) -> Result<Parameters> {
        Ok(match settings.codec {
            // A key frame would discard scenes that may return, and this codec can start without one.
            CodecKind::Functional => Parameters { frame_kind: FrameKind::Inter, ..Parameters::default() },
            CodecKind::Conventional => Parameters::default(),
            CodecKind::Av1 => bail!("codec av1: calls of a scenario have VP8 only; use `functional`"),
        })
    }
}

impl ChosenCodec for Vp8OrAv1 {
    fn parameters(settings: &ControlSettings) -> Result<Self::Parameters> {
        Ok(match settings.codec {
            CodecKind::Functional | CodecKind::Conventional => OneOf::Vp8(<Vp8 as ChosenCodec>::parameters(settings)?),
            CodecKind::Av1 => {
                Av1::check_libraries().context("codec av1")?;
                OneOf::Av1(Av1Parameters::default())
            }
        })
    }
}
