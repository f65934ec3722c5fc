//! Compares our SSIM and PSNR with those of ffmpeg, if ffmpeg is installed.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::{Command, Stdio};

use lockstep_media::{FrameRate, GeneratedClip, VideoFormat, Y4mWriter, psnr, ssim};
use lockstep_vp8::Picture;

fn write(path: &Path, format: VideoFormat, picture: &Picture) {
    let mut writer = Y4mWriter::new(BufWriter::new(File::create(path).unwrap()), format).unwrap();
    writer.write_picture(picture).unwrap();
    writer.finish().unwrap();
}

/// The value after `name` in the output of ffmpeg's filter, None without ffmpeg. It uses the C code of ffmpeg: the
/// vector code of version 5.1 gives another value for chroma of 88x72.
fn ffmpeg_value(filter: &str, files: [&Path; 2], name: &str) -> Option<f64> {
    let output = Command::new("ffmpeg")
        .args(["-nostdin", "-hide_banner", "-cpuflags", "0", "-i"])
        .arg(files[0])
        .arg("-i")
        .arg(files[1])
        .args(["-lavfi", filter, "-f", "null", "-"])
        .stdout(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let start = text.rfind(name).unwrap_or_else(|| panic!("no {name} in {text}")) + name.len();
    Some(text[start..].split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn ssim_and_psnr_equal_those_of_ffmpeg() {
    let directory = tempfile::tempdir().unwrap();
    for (width, height, strength) in [(320, 180, 3), (322, 182, 20), (176, 144, 60), (101, 67, 8)] {
        let format = VideoFormat { width, height, frame_rate: FrameRate::default() };
        let clip = GeneratedClip::new(format, 1).unwrap();
        let first = clip.picture(0);
        let mut state = 1_u32;
        let samples = first.to_i420().into_iter().map(|sample| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            sample.saturating_add((state >> 24) as u8 % strength)
        });
        let second = Picture::from_i420(width, height, samples.collect()).unwrap();
        let paths = [directory.path().join("first.y4m"), directory.path().join("second.y4m")];
        let files = [paths[0].as_path(), paths[1].as_path()];
        write(files[0], format, &first);
        write(files[1], format, &second);
        let Some(theirs) = ffmpeg_value("ssim", files, "SSIM Y:") else {
            eprintln!("skipped: ffmpeg is not installed");
            return;
        };
        let ours = ssim(&first, &second).unwrap();
        assert!((ours - theirs).abs() < 1e-4, "{width}x{height}: ssim {ours}, ffmpeg {theirs}");
        let (ours, theirs) = (psnr(&first, &second).unwrap(), ffmpeg_value("psnr", files, "PSNR y:").unwrap());
        assert!((ours - theirs).abs() < 1e-4, "{width}x{height}: psnr {ours} dB, ffmpeg {theirs}");
    }
}
