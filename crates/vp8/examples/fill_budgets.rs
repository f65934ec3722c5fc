//! Measures how well frames fill budgets and how long that takes.
//!
//! It compares `encode_to_fit` with a menu of three candidates, and with plain quantizers of the same size.

#[path = "../tests/clips/mod.rs"]
mod clips;

use std::time::{Duration, Instant};

use clips::{CONTENTS, Content, picture, psnr};
use lockstep_vp8::{Analysis, Parameters, State};

/// Budgets in bits per luma sample.
const BUDGETS: [f64; 6] = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

fn main() {
    let (width, height) = (640, 360);
    println!("content    bits/sample  fill p10  median   over  time/menu  PSNR-plain dB");
    for content in CONTENTS {
        let count = if content == Content::Static { 4 } else { 12 };
        let clip: Vec<_> = (0..count).map(|index| picture(content, width, height, index, 5)).collect();
        for rate in BUDGETS {
            let budget = (rate * (width * height) as f64 / 8.0) as usize;
            let mut state = State::default();
            let (mut fills, mut gains, mut over) = (Vec::new(), Vec::new(), 0);
            let (mut fitting, mut menu) = (Duration::ZERO, Duration::ZERO);
            for picture in &clip {
                let analysis = Analysis::new(&state, picture, &Parameters::default());
                let start = Instant::now();
                let encoded = analysis.encode_to_fit(budget);
                fitting += start.elapsed();
                let plain = |quantizer: u8| analysis.encode(quantizer.min(127));
                let start = Instant::now();
                for quantizer in [encoded.quantizer.saturating_sub(2), encoded.quantizer, encoded.quantizer + 2] {
                    std::hint::black_box(plain(quantizer));
                }
                menu += start.elapsed();
                fills.push(encoded.frame.len() as f64 / budget as f64);
                over += usize::from(encoded.frame.len() > budget);
                // PSNR at the same size, interpolated between the neighbouring plain frames.
                let size = encoded.frame.len();
                let mut finer = encoded.quantizer;
                while finer > 0 && plain(finer).frame.len() < size {
                    finer -= 1;
                }
                while finer < 126 && plain(finer + 1).frame.len() >= size {
                    finer += 1;
                }
                let (a, b) = (plain(finer), plain(finer + 1));
                let share = (a.frame.len() - size.min(a.frame.len())) as f64
                    / (a.frame.len() - b.frame.len().min(a.frame.len() - 1)) as f64;
                let [pa, pb, fitted] = [&a, &b, &encoded].map(|encoded| psnr(picture, &encoded.picture()));
                let between = pa + share.clamp(0.0, 1.0) * (pb - pa);
                gains.push(fitted - between);
                state = encoded.state;
            }
            fills.sort_by(f64::total_cmp);
            println!(
                "{content:<10?} {rate:>11.2} {:>9.3} {:>7.3} {over:>6} {:>10.2} {:>14.2}",
                fills[fills.len() / 10],
                fills[fills.len() / 2],
                fitting.as_secs_f64() / menu.as_secs_f64(),
                gains.iter().sum::<f64>() / gains.len() as f64,
            );
        }
    }
}
