//! `lockstep devices`: the cameras, screens, microphones and loudspeakers of this machine.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use lockstep_media::{cameras, monitors};
use lockstep_runner::output_file::{self, in_one_line};
use lockstep_sound::{FRAME_DURATION, FRAME_SAMPLES, Frame, SoundSource, Tone};

use crate::commands::live_sound::{ListedSound, listed_sound, microphone, speaker};
use crate::reporter::StatusArgument;

/// Arguments of `lockstep devices`.
#[derive(Debug, Clone, Args)]
pub struct DevicesArguments {
    /// Play a synthetic voice for three seconds, and show the level of the microphone.
    #[arg(long)]
    test: bool,
    /// Microphone to test: a name of the list, or a part of one name.
    #[arg(long, value_name = "NAME", requires = "test")]
    microphone: Option<String>,
    /// Loudspeaker to test: a name of the list, or a part of one name.
    #[arg(long, value_name = "NAME", requires = "test")]
    speaker: Option<String>,
    /// JSON file for the list; `-` is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "test")]
    json: Option<PathBuf>,
}

/// All devices. Devices that cannot be listed are missing, for the reasons in `problems`.
#[derive(Debug, Serialize)]
struct Devices {
    cameras: Vec<Camera>,
    screens: Vec<Screen>,
    microphones: Vec<ListedSound>,
    loudspeakers: Vec<ListedSound>,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Camera {
    path: PathBuf,
    name: String,
    formats: Vec<CameraFormat>,
}

#[derive(Debug, Serialize)]
struct CameraFormat {
    coding: String,
    supported: bool,
    sizes: Vec<String>,
}

/// A monitor.
#[derive(Debug, Serialize)]
struct Screen {
    /// Value of `--source`.
    source: String,
    name: String,
    size: String,
    /// Pixels to the right and down.
    position: (i32, i32),
    primary: bool,
}

impl Devices {
    fn list() -> Self {
        let mut problems = Vec::new();
        let mut problem = |error: anyhow::Error| problems.push(in_one_line(&error));
        let cameras = cameras().unwrap_or_else(|error| {
            problem(error.into());
            Vec::new()
        });
        let monitors = monitors().unwrap_or_else(|error| {
            problem(error.into());
            Vec::new()
        });
        let (microphones, loudspeakers) = listed_sound().unwrap_or_else(|error| {
            problem(error);
            Default::default()
        });
        let format = |format: lockstep_media::CameraFormat| CameraFormat {
            coding: format.coding,
            supported: format.is_supported,
            sizes: format.sizes.iter().map(|(width, height)| format!("{width}x{height}")).collect(),
        };
        let camera = |camera: lockstep_media::Camera| Camera {
            path: camera.path,
            name: camera.name,
            formats: camera.formats.into_iter().map(format).collect(),
        };
        let screen = |(number, monitor): (usize, lockstep_media::Monitor)| Screen {
            source: format!("screen:{number}"),
            name: monitor.name,
            size: format!("{}x{}", monitor.size.0, monitor.size.1),
            position: monitor.position,
            primary: monitor.is_primary,
        };
        Self {
            cameras: cameras.into_iter().map(camera).collect(),
            screens: (1..).zip(monitors).map(screen).collect(),
            microphones,
            loudspeakers,
            problems,
        }
    }

    fn print(&self) {
        print_line!("cameras (--camera NAME)");
        for Camera { path, name, formats } in &self.cameras {
            print_line!("  {name}  {}", path.display());
            for CameraFormat { coding, supported, sizes } in formats {
                let unsupported = if *supported { "" } else { " (not supported)" };
                print_line!("    {coding}{unsupported}: {}", sizes.join(", "));
            }
        }
        print_line!("screens (--source screen:N)");
        for Screen { source, name, size, position: (x, y), primary } in &self.screens {
            let primary = if *primary { "  (primary)" } else { "" };
            print_line!("  {name}  {source}  {size} at {x},{y}{primary}");
        }
        let sound = [
            ("microphones (--microphone NAME)", &self.microphones),
            ("loudspeakers (--speaker NAME)", &self.loudspeakers),
        ];
        for (title, devices) in sound {
            print_line!("{title}");
            for ListedSound { name, id, default } in devices {
                let default = if *default { "  (default)" } else { "" };
                print_line!("  {name}  {id}{default}");
            }
        }
        for problem in &self.problems {
            print_line!("not listed: {problem}");
        }
    }
}

/// Length of the test.
const TEST_FRAMES: usize = 150;
/// Frames for each printed level: 200 ms.
const LEVEL_FRAMES: usize = 10;
/// Lowest level of the bar, dB of full scale.
const QUIETEST: f64 = -60.0;

/// Level of `frames`, dB of full scale.
fn level(frames: &[Frame]) -> f64 {
    let energy: f64 = frames.iter().flatten().map(|&sample| (f64::from(sample) / 32_768.0).powi(2)).sum();
    10.0 * (energy / (FRAME_SAMPLES * frames.len().max(1)) as f64).max(1e-10).log10()
}

/// Plays a voice and shows the level of the microphone. Each works without the other.
fn test(arguments: &DevicesArguments) -> Result<()> {
    let loudspeaker = speaker(arguments.speaker.as_deref(), StatusArgument::Line);
    let microphone = microphone(arguments.microphone.as_deref(), StatusArgument::Line);
    let mut failed = None;
    let player = match loudspeaker {
        Ok(mut loudspeaker) => Some(thread::spawn(move || {
            let mut tone = Tone::default();
            for _ in 0..TEST_FRAMES {
                if let Some(frame) = tone.next_frame()? {
                    loudspeaker.play(&frame)?;
                }
            }
            // The device still plays the last frames.
            thread::sleep(Duration::from_millis(200));
            loudspeaker.finish()
        })),
        Err(error) => {
            print_line!("loudspeaker: {}", in_one_line(&error));
            failed = Some(error);
            None
        }
    };
    match microphone {
        Ok(mut microphone) => {
            let mut frames = Vec::new();
            for _ in 0..TEST_FRAMES {
                frames.extend(microphone.next_frame()?);
                if frames.len() == LEVEL_FRAMES {
                    let level = level(&frames);
                    let bar = "#".repeat(((level - QUIETEST) / 2.0).max(0.0) as usize);
                    print_line!("microphone {level:>6.1} dB {bar}");
                    frames.clear();
                }
            }
        }
        Err(error) => {
            print_line!("microphone: {}", in_one_line(&error));
            failed = failed.or(Some(error));
            if player.is_some() {
                thread::sleep(FRAME_DURATION * TEST_FRAMES as u32);
            }
        }
    }
    if let Some(player) = player {
        player.join().map_err(|_| anyhow::anyhow!("the test of the loudspeaker failed"))??;
        print_line!("played a voice for {} s", (FRAME_DURATION * TEST_FRAMES as u32).as_secs());
    }
    failed.map_or(Ok(()), Err)
}

/// `lockstep devices`.
pub fn run(arguments: &DevicesArguments) -> Result<()> {
    if arguments.test {
        return test(arguments);
    }
    let devices = Devices::list();
    match &arguments.json {
        Some(path) => output_file::write_json(path, &devices),
        None => {
            devices.print();
            Ok(())
        }
    }
}
