//! Decodes an IVF file, prints the speed, and optionally writes the shown frames as I420.
//!
//! Usage: `cargo run --release -p lockstep-vp8 --example decode_ivf -- IN.ivf [REPETITIONS [OUT.i420]]`.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use lockstep_vp8::{State, decode};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, options @ ..] = &arguments[..] else {
        return Err("usage: decode_ivf IN.ivf [REPETITIONS [OUT.i420]]".into());
    };
    let repetitions: u32 = options.first().map_or(Ok(1), |text| text.parse())?;
    let file = std::fs::read(path)?;
    let mut frames = Vec::new();
    let mut rest = file.get(32..).ok_or("the IVF header is missing")?;
    while let Some((header, behind)) = rest.split_first_chunk::<12>() {
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let (frame, behind) = behind.split_at_checked(length).ok_or("a frame is truncated")?;
        frames.push(frame);
        rest = behind;
    }

    let mut hashing = Duration::ZERO;
    let start = Instant::now();
    for _ in 0..repetitions {
        let mut state = State::default();
        for frame in &frames {
            (state, _) = decode(&state, frame)?;
            let start = Instant::now();
            black_box(state.id());
            hashing += start.elapsed();
        }
    }
    let decoding = (start.elapsed() - hashing).as_secs_f64();
    println!(
        "{:.1} frames/s, hashing adds {:.2} %",
        frames.len() as f64 * f64::from(repetitions) / decoding,
        100.0 * hashing.as_secs_f64() / decoding,
    );

    if let Some(path) = options.get(1) {
        let mut output = std::io::BufWriter::new(std::fs::File::create(path)?);
        let mut state = State::default();
        for frame in &frames {
            let (next, picture) = decode(&state, frame)?;
            if next.is_shown() {
                output.write_all(&picture.to_i420())?;
            }
            state = next;
        }
    }
    Ok(())
}
