//! The same calls without pixels and bytes.

use std::sync::Arc;

use anyhow::Result;

use lockstep_alphartc::EstimatorHost;
use lockstep_call::{CallObserver, ClipCurves, CodecModel, EncodeWork, FullThrottle, Modelled, ModelledClip};
use lockstep_media::source_format;
use lockstep_sim::StopReason;
use lockstep_sim::modelled::{ModelledCodec, ModelledSource};

use crate::simulate::{Coding, run};
use crate::{CallSettings, CodecKind, ControlSettings, Simulated, SimulationStatus};

impl ControlSettings {
    /// What the model stands in for.
    pub(crate) fn modelled_codec(&self) -> ModelledCodec {
        match self.codec {
            CodecKind::Functional => ModelledCodec::Functional(self.menu),
            CodecKind::Conventional => ModelledCodec::Conventional,
        }
    }
}

impl CallSettings {
    /// Pictures of the clip of `model` that the seed draws, in the size and at the frame rate of the clip of these settings,
    /// and `model` in the place of the codec.
    fn modelled_coding(&self, model: &CodecModel) -> Result<Coding<Modelled>> {
        let format = source_format(self.clip.as_str(), &self.source_options())?;
        let interval = format.frame_interval();
        let seed = self.link.seed;
        let curves = Arc::new(ClipCurves::new(model.drawn(seed), format.width, format.height));
        let clip = ModelledClip::new(Arc::clone(&curves), interval, seed);
        let encoder = self.control.encoder(curves, interval);
        let source = Box::new(ModelledSource::new(clip, format.frame_rate));
        Ok(Coding { source, encoder, first_work: self.control.first_work() })
    }
}

/// Runs the call that `settings` describe with a model in the place of the codec: the clip of `model` that the seed
/// draws, in the size and at the frame rate of the clip of `settings`. As the real transport does, the receiver reports every
/// fragment.
///
/// # Errors
/// If clip, trace or link cannot be had, or if the estimator fails.
pub fn simulate_modelled(settings: &CallSettings, model: &CodecModel) -> Result<Simulated> {
    simulate_modelled_with(settings, model, None, None, |_| Ok(()))
}

/// The same with the estimator that lives at `host`, if one is given, instead of that which `settings` name; and heard by
/// `observer`. `progress` hears of the call twice a second of virtual time, and may end it.
///
/// # Errors
/// As [`simulate_modelled`]; if the estimator or `progress` fails, their error as [`SimulationError::Stopped`](lockstep_sim::SimulationError).
pub fn simulate_modelled_with(
    settings: &CallSettings,
    model: &CodecModel,
    host: Option<Box<dyn EstimatorHost>>,
    observer: Option<Box<dyn CallObserver>>,
    progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    run(settings, |settings| settings.modelled_coding(model), host, observer, progress)
}

/// The same with a source that always sends what the controller's target allows, instead of video. Its quality means
/// nothing.
///
/// # Errors
/// As [`simulate_modelled`].
pub fn simulate_full_throttle(settings: &CallSettings) -> Result<Simulated> {
    let model = CodecModel::built_in()?;
    let coding = |settings: &CallSettings| {
        let video = settings.modelled_coding(&model)?;
        let encoder = Box::new(FullThrottle::new(video.source.format().frame_interval()));
        Ok(Coding { encoder, first_work: EncodeWork::OneFrame, ..video })
    };
    run(settings, coding, None, None, |_| Ok(()))
}
