//! Bytes, PSNR and encode time of AV1 frames with named slots, compared with the slots that libaom chooses.
//!
//! `cargo run --release -p lockstep-av1 --example measure -- clip.yuv 640 360 150` reads raw 4:2:0 pictures. It prints
//! one line per speed, quantizer and method of coding. Times are those of the thread on its core, so other work on the
//! machine hardly changes them (Linux only).

use std::error::Error;
use std::fs;
use std::time::Duration;

use lockstep_av1::{Coding, Encoder, EncoderLibrary, EncoderSettings, Tools};
use lockstep_vp8::Picture;

/// A method of coding a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// libaom chooses the slots.
    Plain,
    /// libaom chooses the slots, without order hints.
    PlainWithoutOrderHints,
    /// One candidate, from the frame before.
    Chain,
    /// One candidate, from the frame before and one that is 8 to 15 pictures old.
    TwoReferences,
    /// Two candidates; the second one, with a quantizer that is larger by 10, is thrown away.
    Menu,
    /// Two candidates; the first one, with a quantizer that is larger by 10, is thrown away.
    MenuThrowsFirst,
    /// Two candidates and two references.
    MenuTwoReferences,
    /// One candidate, from a frame that is 8 pictures old.
    Late,
    /// One candidate, from the frame before, with default probabilities.
    ErrorResilient,
}

const METHODS: [Method; 9] = [
    Method::Plain,
    Method::PlainWithoutOrderHints,
    Method::Chain,
    Method::TwoReferences,
    Method::Menu,
    Method::MenuThrowsFirst,
    Method::MenuTwoReferences,
    Method::Late,
    Method::ErrorResilient,
];

/// Time that this thread has spent on a core.
fn thread_time() -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(text.split(' ').next().unwrap_or_default().parse()?))
}

fn luma_error(one: &Picture, other: &Picture) -> f64 {
    let squares = one.luma().rows().zip(other.luma().rows()).map(|(one, other)| {
        let differences = one.iter().zip(other).map(|(&one, &other)| u64::from(one.abs_diff(other)).pow(2));
        differences.sum::<u64>()
    });
    squares.sum::<u64>() as f64 / (one.width() * one.height()) as f64
}

fn measure(
    library: &EncoderLibrary,
    pictures: &[Picture],
    speed: u8,
    quantizer: u8,
    method: Method,
) -> Result<String, Box<dyn Error>> {
    let tools = Tools {
        order_hints: method == Method::Plain,
        reference_vectors: method == Method::Plain,
        error_resilient: method == Method::ErrorResilient,
    };
    let named_slots = !matches!(method, Method::Plain | Method::PlainWithoutOrderHints);
    let (width, height) = (pictures[0].width(), pictures[0].height());
    let mut encoder = Encoder::new(library, &EncoderSettings { width, height, tools, named_slots })?;
    encoder.set_speed(speed)?;
    let (mut bytes, mut error, mut kept_time, mut other_time) = (0, 0.0, Duration::ZERO, Duration::ZERO);
    // Slots 0 and 1 alternate between the chain's head and the next one; 2 is for thrown-away candidates; 3 and 4 are
    // the long-term ones; `Late` rotates over eight.
    for (time, picture) in pictures.iter().enumerate() {
        let long_term = 3 + (time / 8 + 1) as u8 % 2;
        let (base, writes) = match method {
            Method::Late => ((time % 8) as u8, (time % 8) as u8),
            _ if time % 8 == 1 && time > 8 => (3 + (time / 8) as u8 % 2, 1),
            _ => (((time + 1) % 2) as u8, (time % 2) as u8),
        };
        // Every eighth frame stays for eight to fifteen pictures.
        let writes = if time % 8 == 0 && method != Method::Late { 3 + (time / 8) as u8 % 2 } else { writes };
        let second = matches!(method, Method::TwoReferences | Method::MenuTwoReferences).then_some(long_term);
        let second = second.filter(|&slot| slot != base && slot != writes);
        let kept = Coding { base, second, writes: Some(writes), quantizer };
        let other = Coding { writes: Some(2), quantizer: (quantizer + 10).min(63), ..kept };
        let mut throw = |encoder: &mut Encoder| -> Result<(), Box<dyn Error>> {
            let before = thread_time()?;
            encoder.encode(picture, &other)?;
            other_time += thread_time()? - before;
            Ok(())
        };
        if method == Method::MenuThrowsFirst && time > 0 {
            throw(&mut encoder)?;
        }
        let before = thread_time()?;
        let frame =
            if named_slots { encoder.encode(picture, &kept)? } else { encoder.encode_plainly(picture, quantizer)? };
        if time > 0 {
            kept_time += thread_time()? - before;
            bytes += frame.data.len();
            error += luma_error(picture, &encoder.reconstruction()?);
        }
        if matches!(method, Method::Menu | Method::MenuTwoReferences) && time > 0 {
            throw(&mut encoder)?;
        }
    }
    let count = (pictures.len() - 1) as f64;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3 / count;
    Ok(format!(
        "{speed:5} {quantizer:9} {:24} {:9.0} {:7.2} {:8.2} {:9.2}",
        format!("{method:?}"),
        bytes as f64 / count,
        10.0 * (255.0_f64.powi(2) * count / error).log10(),
        milliseconds(kept_time),
        milliseconds(other_time),
    ))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, width, height, count, speeds @ ..] = &arguments[..] else {
        return Err("usage: measure clip.yuv WIDTH HEIGHT PICTURES [SPEED...]".into());
    };
    let (width, height, count): (usize, usize, usize) = (width.parse()?, height.parse()?, count.parse()?);
    let data = fs::read(path).map_err(|error| format!("cannot read clip {path}: {error}"))?;
    let pictures = data.chunks_exact(Picture::i420_length(width, height)).take(count);
    let pictures = pictures.map(|samples| Picture::from_i420(width, height, samples.to_vec()));
    let pictures: Vec<Picture> = pictures.collect::<Result<_, _>>()?;
    let library = EncoderLibrary::open()?;
    println!("{library:?}, {path}, {} pictures", pictures.len());
    println!("speed quantizer {:24} bytes/pic PSNR,dB ms/frame ms/thrown", "method");
    let speeds: Vec<u8> = speeds.iter().map(|speed| speed.parse()).collect::<Result<_, _>>()?;
    for speed in if speeds.is_empty() { vec![8, 9, 10] } else { speeds } {
        for quantizer in [15, 30, 45] {
            for method in METHODS {
                println!("{}", measure(&library, &pictures, speed, quantizer, method)?);
            }
        }
    }
    Ok(())
}
