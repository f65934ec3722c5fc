//! Writes pictures of the generated clip to a y4m file, and prints how long they took. Usage:
//! `cargo run --release -p lockstep-media --example clip_pictures -- OUT.y4m 1280x720@30 SEED FIRST STEP COUNT [SCREEN]`

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::time::Instant;

use lockstep_media::{GeneratedClip, ScreenContent, VideoFormat, Y4mWriter, psnr, ssim};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, format, numbers @ ..] = &arguments[..] else { return Err("see the top of the example".into()) };
    let (size, rate) = format.split_once('@').ok_or("no rate")?;
    let (width, height) = size.split_once('x').ok_or("no size")?;
    let format = VideoFormat { width: width.parse()?, height: height.parse()?, frame_rate: rate.parse()? };
    let number = |at: usize, otherwise| numbers.get(at).map_or(Ok(otherwise), |text: &String| text.parse::<u64>());
    let (seed, first, step, count) = (number(0, 0)?, number(1, 0)?, number(2, 1)?, number(3, 30)?);

    let clip = match numbers.get(4) {
        Some(content) => GeneratedClip::screen(content.parse::<ScreenContent>()?, format, seed)?,
        None => GeneratedClip::new(format, seed)?,
    };
    let start = Instant::now();
    clip.prepare();
    println!("painting all scenes: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);

    let start = Instant::now();
    let pictures: Vec<_> = (0..count).map(|number| clip.picture(first + number * step)).collect();
    println!("a picture: {:.2} ms", start.elapsed().as_secs_f64() * 1e3 / count as f64);

    for (name, score) in [("ssim", ssim as fn(&_, &_) -> _), ("psnr", psnr)] {
        let start = Instant::now();
        let sum: f64 = pictures.windows(2).filter_map(|pair| score(&pair[0], &pair[1]).ok()).sum();
        let pairs = (count.max(2) - 1) as f64;
        println!("{name}: {:.2} ms, mean to the next {:.4}", start.elapsed().as_secs_f64() * 1e3 / pairs, sum / pairs);
    }

    let mut writer = Y4mWriter::new(BufWriter::new(File::create(path)?), format)?;
    pictures.iter().try_for_each(|picture| writer.write_picture(picture))?;
    writer.finish()?;
    Ok(())
}
