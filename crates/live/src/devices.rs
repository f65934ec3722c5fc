//! Microphones and loudspeakers of the system: their list, and sources and sinks that outlive them.
//!
//! A source or sink without a name is the system's default device, and follows it. A device that is unplugged leaves
//! silence in the call until it, or another default, is there. The sound of a device is resampled to the machine's
//! clock, so devices do not drift apart ([`lockstep_sound::CaptureResampler`]).

mod stream;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use cpal::traits::{DeviceTrait, HostTrait};
use cpal::{Device, Host};
use lockstep_media::chosen;
use lockstep_sound::{FRAME_SAMPLES, Frame, MAX_PLAYED_FRAMES, SoundFailure, SoundSink, SoundSource};

use crate::following::Following;
use stream::{Loudspeaker, Microphone};

/// Receives a line for the user about a device during a call.
pub type DeviceNotice = Arc<dyn Fn(&str) + Send + Sync>;

/// A microphone or a loudspeaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundDevice {
    /// Name for people. Two devices may have the same.
    pub name: String,
    /// Name of the system, unique.
    pub id: String,
    /// Whether calls use it without a choice.
    pub is_default: bool,
}

/// The microphones and loudspeakers of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundDevices {
    /// Devices that capture sound.
    pub microphones: Vec<SoundDevice>,
    /// Devices that play sound.
    pub loudspeakers: Vec<SoundDevice>,
}

/// Direction of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Microphone,
    Loudspeaker,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Microphone => "microphone",
            Self::Loudspeaker => "loudspeaker",
        }
    }

    fn default_of(self, host: &Host) -> Option<Device> {
        match self {
            Self::Microphone => host.default_input_device(),
            Self::Loudspeaker => host.default_output_device(),
        }
    }

    fn devices(self, host: &Host) -> Result<Vec<Device>, SoundFailure> {
        let devices: Result<Vec<Device>, cpal::Error> = match self {
            Self::Microphone => host.input_devices().map(Iterator::collect),
            Self::Loudspeaker => host.output_devices().map(Iterator::collect),
        };
        devices.map_err(|error| SoundFailure(format!("cannot list the {}s: {error}", self.name())))
    }

    fn list(self, host: &Host) -> Result<Vec<SoundDevice>, SoundFailure> {
        let default = self.default_of(host).map(|device| id_of(&device));
        let described = |device: Device| {
            let id = id_of(&device);
            SoundDevice { name: name_of(&device), is_default: default.as_ref() == Some(&id), id }
        };
        Ok(self.devices(host)?.into_iter().map(described).collect())
    }

    /// The device that `wanted` names, or the default.
    fn find(self, host: &Host, wanted: Option<&str>) -> Result<Device, SoundFailure> {
        let kind = self.name();
        let Some(wanted) = wanted else {
            return self
                .default_of(host)
                .ok_or_else(|| SoundFailure(format!("there is no {kind}; name a WAV file instead, or `none`")));
        };
        let mut devices = self.devices(host)?;
        let names: Vec<[String; 2]> = devices.iter().map(|device| [id_of(device), name_of(device)]).collect();
        match chosen(wanted, &names) {
            Some(number) => Ok(devices.swap_remove(number)),
            None => {
                let names: Vec<&str> = names.iter().map(|[_, name]| name.as_str()).collect();
                let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                Err(SoundFailure(format!("no single {kind} is named {wanted:?}; the {kind}s are: {there}")))
            }
        }
    }
}

fn id_of(device: &Device) -> String {
    device.id().map(|id| id.id().to_owned()).unwrap_or_default()
}

fn name_of(device: &Device) -> String {
    device.description().map_or_else(|_| id_of(device), |description| description.name().to_owned())
}

/// Lists the microphones and loudspeakers.
///
/// # Errors
/// If the sound system does not answer.
pub fn sound_devices() -> Result<SoundDevices, SoundFailure> {
    let host = cpal::default_host();
    Ok(SoundDevices { microphones: Kind::Microphone.list(&host)?, loudspeakers: Kind::Loudspeaker.list(&host)? })
}

/// Opens a microphone: the one named, or the system's default. `notice` receives its losses and changes.
///
/// # Errors
/// There is no such microphone, or it lacks a supported configuration.
pub fn open_microphone(name: Option<&str>, notice: DeviceNotice) -> Result<Box<dyn SoundSource>, SoundFailure> {
    let name = name.map(str::to_owned);
    let open = move || Microphone::open(name.as_deref());
    Ok(Box::new(PluggedMicrophone(Following::new(open, "the other end hears silence", notice)?)))
}

/// Opens a loudspeaker: the one named, or the system's default. `notice` receives its losses and changes.
///
/// # Errors
/// There is no such loudspeaker, or it lacks a supported configuration.
pub fn open_loudspeaker(name: Option<&str>, notice: DeviceNotice) -> Result<Box<dyn SoundSink>, SoundFailure> {
    let name = name.map(str::to_owned);
    let (play, played) = mpsc::sync_channel(MAX_PLAYED_FRAMES);
    let open = move || Loudspeaker::open(name.as_deref(), play.clone());
    let device = Following::new(open, "the call is silent at this end", notice)?;
    Ok(Box::new(PluggedLoudspeaker { device, played: Some(played) }))
}

struct PluggedMicrophone(Following<Microphone>);

impl SoundSource for PluggedMicrophone {
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        Ok(Some(self.0.during_frame(Microphone::next_frame).unwrap_or([0; FRAME_SAMPLES])))
    }

    fn is_live(&self) -> bool {
        true
    }
}

struct PluggedLoudspeaker {
    device: Following<Loudspeaker>,
    played: Option<Receiver<Frame>>,
}

impl SoundSink for PluggedLoudspeaker {
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        self.device.during_frame(|loudspeaker| loudspeaker.play(frame));
        Ok(())
    }

    fn take_played(&mut self) -> Option<Receiver<Frame>> {
        self.played.take()
    }

    fn is_live(&self) -> bool {
        true
    }
}
