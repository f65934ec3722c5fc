//! Sources and sinks of sound in live calls.

use std::path::{Path, PathBuf};

use anyhow::Result;
#[cfg(not(feature = "audio"))]
use anyhow::bail;
use clap::{Args, ValueEnum};
use serde::Serialize;

use lockstep_configuration::{OptionValue, SoundName};
use lockstep_live::Loudspeaker;
use lockstep_media::records_sound;
use lockstep_runner::output_file::in_one_line;
use lockstep_sound::{DiscardSoundSink, ProcessingSettings, SoundSink, SoundSource, processed};

use crate::call_files::of_call;
use crate::reporter::StatusArgument;
#[cfg(feature = "audio")]
use crate::reporter::notice;
use crate::sound_file::SoundRecording;

const MICROPHONE: &str = "microphone";
const SPEAKER: &str = "speaker";
const NONE: &str = "none";
/// Sink of measured calls: sound is scored and not played.
const NOWHERE: &str = "nowhere";

/// Default sound of a call.
#[derive(Debug)]
pub enum LiveSound<'a> {
    /// No sound.
    Nothing,
    /// The machine's microphone and loudspeaker. Without them the call is silent, for the reasons collected here.
    Device(&'a mut MissingDevices),
}

/// Why a call does not use the machine's microphone or loudspeaker.
#[derive(Debug, Default)]
pub struct MissingDevices {
    microphone: Option<String>,
    loudspeaker: Option<String>,
}

impl MissingDevices {
    /// Message for the user: what is silent, and why.
    pub fn notice(&self) -> Option<String> {
        match (&self.microphone, &self.loudspeaker) {
            (None, None) => None,
            (Some(reason), None) => Some(format!("the other end hears nothing: {reason}")),
            (None, Some(reason)) => Some(format!("the call is silent at this end: {reason}")),
            (Some(reason), Some(other)) if reason == other => Some(format!("the call has no sound: {reason}")),
            (Some(reason), Some(other)) => Some(format!("the call has no sound: {reason}; {other}")),
        }
    }
}

/// Opened device, or `None` and the reason in `missing`.
fn device<T>(opened: Result<T>, missing: &mut Option<String>) -> Option<T> {
    opened.map_err(|error| *missing = Some(in_one_line(&error))).ok()
}

/// Whether the sound of a microphone is processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SoundProcessingArgument {
    /// Echo cancellation, noise suppression and automatic gain control.
    On,
    /// The sound of the device.
    Off,
}

/// Sound that a live call sends.
#[derive(Debug, Clone, Args)]
pub struct SoundSourceArguments {
    /// Sound of the call: `microphone`; `tone`, a synthetic voice with pauses; `silence`; a WAV file, repeated; or
    /// `none`. Without a value, it is `tone`. The default of `talk` is the microphone if there is one; that of `send`
    /// is `none`.
    #[arg(long, value_name = "SOUND", num_args = 0..=1, default_missing_value = "tone", value_parser = SoundName::from_word)]
    audio: Option<SoundName>,
    /// Microphone of the call: a name of `lockstep devices`, or a part of one name. The default is that of the system,
    /// and follows it.
    #[arg(long, value_name = "NAME", conflicts_with = "audio")]
    microphone: Option<String>,
    /// Echo cancellation, noise suppression and automatic gain control of the microphone, as in a browser. Other sound
    /// is never processed.
    #[arg(long, value_enum, default_value_t = SoundProcessingArgument::On)]
    sound_processing: SoundProcessingArgument,
}

impl SoundSourceArguments {
    fn is(&self, word: &str) -> bool {
        self.audio.as_ref().is_some_and(|sound| sound.as_str() == word)
    }

    /// Opens the source of sound, if there is one.
    pub fn open(&self, usual: LiveSound<'_>, status: StatusArgument) -> Result<Option<Box<dyn SoundSource>>> {
        let microphone = || microphone(self.microphone.as_deref(), status);
        match &self.audio {
            _ if self.is(NONE) => Ok(None),
            _ if self.is(MICROPHONE) || self.microphone.is_some() => microphone().map(Some),
            Some(sound) => Ok(Some(sound.open()?)),
            None => Ok(match usual {
                // A call without a microphone can still receive sound.
                LiveSound::Device(missing) => device(microphone(), &mut missing.microphone),
                LiveSound::Nothing => None,
            }),
        }
    }

    /// Processes the sound of a microphone. The loudspeaker, if there is one, is the reference for its echo.
    pub fn process(
        &self,
        source: Option<Box<dyn SoundSource>>,
        loudspeaker: Option<Loudspeaker>,
    ) -> (Option<Box<dyn SoundSource>>, Option<Loudspeaker>) {
        let source = match source {
            Some(source) if self.sound_processing == SoundProcessingArgument::On => source,
            source => return (source, loudspeaker),
        };
        let (sink, lip_sync) = loudspeaker.map(|Loudspeaker { sink, lip_sync }| (sink, lip_sync)).unzip();
        let (source, sink) = processed(source, sink, ProcessingSettings::default());
        let loudspeaker = sink.zip(lip_sync).map(|(sink, lip_sync)| Loudspeaker { sink, lip_sync });
        (Some(source), loudspeaker)
    }

    /// File that the source reads, if any.
    pub fn file(&self) -> Option<&Path> {
        let file = self.audio.as_ref().and_then(SoundName::file);
        file.filter(|_| !self.is(NONE) && !self.is(MICROPHONE))
    }
}

/// Sink of the sound that a live call receives.
#[derive(Debug, Clone, Args)]
pub struct SoundSinkArguments {
    /// Where the peer's sound goes: `speaker`, a WAV file, `nowhere` (scored and recorded, not played), or `none` (not
    /// even recorded). The default of `talk` is the loudspeaker if there is one. A .webm or .mkv sink records sound by
    /// default.
    #[arg(long, value_name = "SPEAKER|FILE")]
    audio_output: Option<PathBuf>,
    /// Loudspeaker of the call: a name of `lockstep devices`, or a part of one name. The default is that of the system,
    /// and follows it.
    #[arg(long, value_name = "NAME", conflicts_with = "audio_output")]
    speaker: Option<String>,
}

impl SoundSinkArguments {
    fn file(&self) -> Option<&Path> {
        let words = [SPEAKER, NONE, NOWHERE];
        self.audio_output.as_deref().filter(|&path| !words.iter().any(|word| path == Path::new(word)))
    }

    /// Whether the user wants to hear nothing.
    pub fn is_refused(&self) -> bool {
        self.audio_output.as_deref() == Some(Path::new(NONE))
    }

    /// The same arguments with the file of call `number` ([`of_call`]).
    pub fn of_call(&self, number: u32) -> Self {
        let file = self.file().map(|path| of_call(path, number));
        Self { audio_output: file.or_else(|| self.audio_output.clone()), ..self.clone() }
    }

    /// The option and its file, for the check of outputs.
    pub fn output(&self) -> (&'static str, Option<&Path>) {
        ("--audio-output", self.file())
    }

    /// Opens the sink of sound. Pictures wait for their sound if `lip_sync`.
    ///
    /// A picture sink that records sound requires a sound sink, even one that plays nothing.
    pub fn open(
        &self,
        usual: LiveSound<'_>,
        lip_sync: bool,
        sink: &str,
        status: StatusArgument,
    ) -> Result<Option<Loudspeaker>> {
        let speaker = || speaker(self.speaker.as_deref(), status);
        let recorded = || records_sound(sink).then(|| Box::new(DiscardSoundSink) as Box<dyn SoundSink>);
        let sink: Option<Box<dyn SoundSink>> = match (self.file(), self.audio_output.as_deref()) {
            (Some(path), _) => Some(Box::new(SoundRecording::create(path)?)),
            (None, Some(word)) if word == Path::new(SPEAKER) => Some(speaker()?),
            (None, Some(word)) if word == Path::new(NOWHERE) => Some(Box::new(DiscardSoundSink)),
            (None, Some(_)) => None,
            (None, None) if self.speaker.is_some() => Some(speaker()?),
            (None, None) => match usual {
                LiveSound::Device(missing) => device(speaker(), &mut missing.loudspeaker),
                LiveSound::Nothing => None,
            }
            .or_else(recorded),
        };
        Ok(sink.map(|sink| Loudspeaker { sink, lip_sync }))
    }
}

/// A microphone or loudspeaker in a list.
#[derive(Debug, Serialize)]
pub struct ListedSound {
    /// Name for people.
    pub name: String,
    /// Name of the system, unique.
    pub id: String,
    /// Whether calls use it without a choice.
    pub default: bool,
}

/// Lists the microphones and the loudspeakers.
#[cfg(feature = "audio")]
pub fn listed_sound() -> Result<(Vec<ListedSound>, Vec<ListedSound>)> {
    use lockstep_live::{SoundDevice, SoundDevices, sound_devices};

    let listed = |SoundDevice { name, id, is_default }| ListedSound { name, id, default: is_default };
    let SoundDevices { microphones, loudspeakers } = sound_devices()?;
    Ok((microphones.into_iter().map(listed).collect(), loudspeakers.into_iter().map(listed).collect()))
}

/// Prints notices of devices during a call, on separate threads, because a terminal may block.
#[cfg(feature = "audio")]
fn device_notice(status: StatusArgument) -> lockstep_live::DeviceNotice {
    std::sync::Arc::new(move |text| {
        let text = text.to_owned();
        std::thread::spawn(move || notice(status, &text));
    })
}

/// Opens a microphone: the one named, or that of the system.
#[cfg(feature = "audio")]
pub fn microphone(name: Option<&str>, status: StatusArgument) -> Result<Box<dyn SoundSource>> {
    Ok(lockstep_live::open_microphone(name, device_notice(status))?)
}

/// Opens a loudspeaker: the one named, or that of the system.
#[cfg(feature = "audio")]
pub fn speaker(name: Option<&str>, status: StatusArgument) -> Result<Box<dyn SoundSink>> {
    Ok(lockstep_live::open_loudspeaker(name, device_notice(status))?)
}

/// Error of a build without the headers of the system's sound.
#[cfg(not(feature = "audio"))]
const WITHOUT_DEVICES: &str = "this program was built without microphone and loudspeaker; install libasound2-dev and \
                               build it again with `make build`, or name a WAV file";

/// Refuses to list, because this program has no devices.
#[cfg(not(feature = "audio"))]
pub fn listed_sound() -> Result<(Vec<ListedSound>, Vec<ListedSound>)> {
    bail!("{WITHOUT_DEVICES}")
}

/// Refuses to open, because this program has no devices.
#[cfg(not(feature = "audio"))]
pub fn microphone(_: Option<&str>, _: StatusArgument) -> Result<Box<dyn SoundSource>> {
    bail!("{WITHOUT_DEVICES}")
}

/// Refuses to open, because this program has no devices.
#[cfg(not(feature = "audio"))]
pub fn speaker(_: Option<&str>, _: StatusArgument) -> Result<Box<dyn SoundSink>> {
    bail!("{WITHOUT_DEVICES}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_names_each_missing_device_once() {
        let notice = |microphone: Option<&str>, loudspeaker: Option<&str>| {
            let [microphone, loudspeaker] = [microphone, loudspeaker].map(|reason| reason.map(str::to_owned));
            MissingDevices { microphone, loudspeaker }.notice()
        };
        assert_eq!(notice(None, None), None);
        assert_eq!(notice(Some("no microphone"), None).as_deref(), Some("the other end hears nothing: no microphone"));
        assert_eq!(notice(None, Some("none")).as_deref(), Some("the call is silent at this end: none"));
        assert_eq!(notice(Some("none"), Some("none")).as_deref(), Some("the call has no sound: none"));
        assert_eq!(notice(Some("a"), Some("b")).as_deref(), Some("the call has no sound: a; b"));
    }
}
