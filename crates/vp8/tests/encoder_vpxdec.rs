//! Our frames in other decoders: those of libvpx and ffmpeg, where they are installed.

mod clips;

use clips::{CONTENTS, picture};
use lockstep_vp8::{Effort, Parameters, Picture, State, encode};
use std::path::Path;
use std::process::{Command, Stdio};

/// An IVF file with these frames.
fn ivf(width: usize, height: usize, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(b"DKIF\0\0\x20\0VP80");
    file.extend((width as u16).to_le_bytes());
    file.extend((height as u16).to_le_bytes());
    file.extend(30u32.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    file.extend((frames.len() as u32).to_le_bytes());
    file.extend([0; 4]);
    for (index, frame) in frames.iter().enumerate() {
        file.extend((frame.len() as u32).to_le_bytes());
        file.extend((index as u64).to_le_bytes());
        file.extend(frame);
    }
    file
}

/// Runs a command and reads the file `output`; `None` if the command is not installed.
fn run(command: &mut Command, output: &Path) -> Option<Vec<u8>> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    assert!(status.success(), "{command:?} failed");
    Some(std::fs::read(output).unwrap())
}

#[test]
#[ignore = "slow"]
fn other_decoders_match_the_encoders_reconstruction() {
    let directory = std::env::temp_dir().join(format!("lockstep-vp8-other-decoders-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (input, output) = (directory.join("in.ivf"), directory.join("out.i420"));
    for (width, height) in [(16, 16), (17, 33), (175, 143), (176, 144), (320, 180)] {
        for content in CONTENTS {
            for (quantizer, effort) in
                [(0, Effort::REAL_TIME), (30, Effort::QUALITY), (70, Effort::REAL_TIME), (127, Effort::QUALITY)]
            {
                let mut state = State::default();
                let (mut frames, mut expected) = (Vec::new(), Vec::new());
                for index in 0..6 {
                    let picture: Picture = picture(content, width, height, index, 5);
                    let encoded = encode(&state, &picture, &Parameters { quantizer, effort, ..Parameters::default() });
                    expected.extend(encoded.picture().to_i420());
                    frames.push(encoded.frame);
                    state = encoded.state;
                }
                std::fs::write(&input, ivf(width, height, &frames)).unwrap();
                let vpxdec = run(Command::new("vpxdec").arg("--i420").arg("-o").args([&output, &input]), &output);
                let ffmpeg = run(
                    Command::new("ffmpeg")
                        .args(["-v", "error", "-y", "-i"])
                        .arg(&input)
                        .args(["-f", "rawvideo"])
                        .arg(&output),
                    &output,
                );
                for (name, decoded) in [("vpxdec", vpxdec), ("ffmpeg", ffmpeg)] {
                    match decoded {
                        Some(decoded) => assert!(
                            decoded == expected,
                            "{name} differs: {width}x{height}, {content:?}, quantizer {quantizer}, {effort:?}: {} of {} bytes, the first at {:?}",
                            decoded.len(),
                            expected.len(),
                            decoded.iter().zip(&expected).position(|(a, b)| a != b)
                        ),
                        None => eprintln!("note: skipped: {name} is not installed"),
                    }
                }
            }
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}
