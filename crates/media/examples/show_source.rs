//! Shows a source in a window, or writes it to a file. Usage:
//! `cargo run --release -p lockstep-media --example show_source -- SOURCE SINK COUNT`, such as `generated window 300`.

use std::error::Error;
use std::thread;
use std::time::Instant;

use lockstep_media::{SourceOptions, open_sink, open_source};
use lockstep_units::Timestamp;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, sink, count] = &arguments[..] else { return Err("usage: show_source SOURCE SINK COUNT".into()) };
    let mut source = open_source(source, &SourceOptions::default())?;
    let format = source.format();
    let mut sink = open_sink(sink, format)?;
    println!("{format}");
    let start = Instant::now();
    for index in 0..count.parse()? {
        let Some(picture) = source.next()? else { break };
        if !source.is_live() {
            thread::sleep(format.time_of(index).saturating_sub(start.elapsed()));
        }
        sink.show(&picture, Timestamp::ZERO + format.time_of(index))?;
    }
    Ok(sink.finish()?)
}
