//! Rate and distortion beside libvpx's real-time encoder, and speed. Not a pass or fail: run it to read it,
//! `cargo test --release -p lockstep-vp8 --test encoder_libvpx -- --ignored --nocapture`.

mod clips;

use clips::{Content, picture, psnr};
use lockstep_vp8::{Parameters, Picture, Preset, State};
use std::io::Write;
use std::process::Command;

/// Processor time of this thread, seconds: what else the machine does is not counted.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells a thread's processor time");
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Kilobits per second at 30 pictures a second, and mean luma PSNR.
type Point = (f64, f64);

fn ours(clip: &[Picture], quantizer: u8, preset: Preset) -> (Point, f64) {
    let mut state = State::default();
    let (mut bytes, mut quality) = (0, 0.0);
    let start = processor_time();
    for picture in clip {
        let encoded = lockstep_vp8::encode(&state, picture, &Parameters { quantizer, preset, ..Parameters::default() });
        bytes += encoded.frame.len();
        quality += psnr(picture, &encoded.picture());
        state = encoded.state;
    }
    let elapsed = processor_time() - start;
    let count = clip.len() as f64;
    ((bytes as f64 * 8.0 * 30.0 / count / 1000.0, quality / count), count / elapsed)
}

fn libvpx(clip: &[Picture], quantizer: u32, cpu_used: u32) -> Option<Point> {
    let directory = std::env::temp_dir().join(format!("lockstep-vp8-compare-{}", std::process::id()));
    std::fs::create_dir_all(&directory).ok()?;
    let (input, output, decoded) = (directory.join("in.y4m"), directory.join("out.ivf"), directory.join("out.i420"));
    let (width, height) = (clip[0].width(), clip[0].height());
    let mut file = std::io::BufWriter::new(std::fs::File::create(&input).ok()?);
    writeln!(file, "YUV4MPEG2 W{width} H{height} F30:1 Ip A1:1 C420jpeg").ok()?;
    for picture in clip {
        file.write_all(b"FRAME\n").ok()?;
        file.write_all(&picture.to_i420()).ok()?;
    }
    drop(file);
    let q = quantizer.to_string();
    let done = Command::new("vpxenc")
        .args([
            "--codec=vp8",
            "--rt",
            "--threads=1",
            "--ivf",
            "--lag-in-frames=0",
            "--end-usage=vbr",
            "--passes=1",
            "--disable-warning-prompt",
        ])
        .args([format!("--cpu-used={cpu_used}"), format!("--min-q={q}"), format!("--max-q={q}")])
        .args(["--target-bitrate=20000", "--kf-max-dist=9999", "--undershoot-pct=100", "-q", "-o"])
        .args([&output, &input])
        .stderr(std::process::Stdio::null())
        .status()
        .ok()?;
    assert!(done.success());
    assert!(Command::new("vpxdec").arg("--i420").arg("-o").args([&decoded, &output]).status().ok()?.success());
    let ivf = std::fs::read(&output).ok()?;
    let mut at = 32;
    let mut bytes = 0;
    while at + 12 <= ivf.len() {
        let size = u32::from_le_bytes(ivf[at..at + 4].try_into().unwrap()) as usize;
        bytes += size;
        at += 12 + size;
    }
    let frames = std::fs::read(&decoded).ok()?;
    let length = Picture::i420_length(width, height);
    let mut quality = 0.0;
    for (picture, frame) in clip.iter().zip(frames.chunks_exact(length)) {
        quality += psnr(picture, &Picture::from_i420(width, height, frame.to_vec()).unwrap());
    }
    std::fs::remove_dir_all(directory).ok()?;
    let count = clip.len() as f64;
    Some((bytes as f64 * 8.0 * 30.0 / count / 1000.0, quality / count))
}

/// Mean difference of log rate at equal PSNR of `ours` against `theirs`, piecewise linear, percent.
fn rate_difference(ours: &[Point], theirs: &[Point]) -> f64 {
    let at = |curve: &[Point], quality: f64| {
        let mut curve: Vec<Point> = curve.to_vec();
        curve.sort_by(|a, b| a.1.total_cmp(&b.1));
        let upper = curve.iter().position(|p| p.1 >= quality).unwrap_or(curve.len() - 1).max(1);
        let (a, b) = (curve[upper - 1], curve[upper]);
        let t = (quality - a.1) / (b.1 - a.1);
        a.0.ln() + t * (b.0.ln() - a.0.ln())
    };
    let low = |c: &[Point]| c.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let high = |c: &[Point]| c.iter().map(|p| p.1).fold(0.0, f64::max);
    let (from, to) = (low(ours).max(low(theirs)), high(ours).min(high(theirs)));
    let steps = 50;
    let mean = (0..=steps)
        .map(|i| from + (to - from) * f64::from(i) / f64::from(steps))
        .map(|quality| at(ours, quality) - at(theirs, quality))
        .sum::<f64>()
        / f64::from(steps + 1);
    (mean.exp() - 1.0) * 100.0
}

#[test]
#[ignore = "a report, and slow"]
fn rate_at_equal_quality() {
    let count = std::env::var("LOCKSTEP_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let cpu_used = std::env::var("LOCKSTEP_CPU_USED").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let mut total = [0.0; 2];
    let contents = [Content::Pan, Content::Zoom, Content::Objects, Content::Camera, Content::Noise];
    for content in contents {
        let clip: Vec<Picture> = (0..count).map(|i| picture(content, 640, 360, i, 1)).collect();
        let theirs: Option<Vec<Point>> = [8, 20, 32, 44, 56].iter().map(|&q| libvpx(&clip, q, cpu_used)).collect();
        for (index, preset) in [Preset::RealTime, Preset::Quality].into_iter().enumerate() {
            let results: Vec<(Point, f64)> = [12, 30, 50, 75, 100].iter().map(|&q| ours(&clip, q, preset)).collect();
            let speeds: Vec<f64> = results.iter().map(|r| r.1.round()).collect();
            let points: Vec<Point> = results.iter().map(|r| r.0).collect();
            println!("{content:?} {preset:?}: {points:.1?} at {speeds:?} frames/s");
            if let Some(theirs) = &theirs {
                let difference = rate_difference(&points, theirs);
                total[index] += difference;
                println!("    against libvpx {theirs:.1?}: {difference:+.1} %");
            }
        }
    }
    println!("mean: {:+.1?} %", total.map(|t| t / contents.len() as f64));
}

#[test]
#[ignore = "a report, and slow"]
fn speed() {
    for (width, height) in [(640, 360), (1280, 720)] {
        let clip: Vec<Picture> = (0..20).map(|i| picture(Content::Camera, width, height, i, 1)).collect();
        for (preset, quantizers) in [(Preset::RealTime, [20, 60, 100].as_slice()), (Preset::Quality, &[60])] {
            for &quantizer in quantizers {
                let (_, single) = ours(&clip, quantizer, preset);
                let mut state = State::default();
                let start = processor_time();
                for picture in &clip {
                    let parameters = Parameters { quantizer, preset, ..Parameters::default() };
                    let analysis = lockstep_vp8::Analysis::new(&state, picture, &parameters);
                    let _ = analysis.encode(quantizer + 10);
                    state = analysis.encode(quantizer).state;
                }
                let menu = clip.len() as f64 / (processor_time() - start);
                println!("{width}x{height} {preset:?} q {quantizer}: {single:.0} frames/s, menu of two {menu:.0}");
            }
        }
    }
}
