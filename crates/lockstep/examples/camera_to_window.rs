//! Sends a camera to a window: `camera_to_window receive` prints a ticket, `camera_to_window TICKET` sends.
//! Other sinks and sources: `camera_to_window receive none`, `camera_to_window TICKET generated:640x360`.
use std::env;
use std::error::Error;
use std::time::Duration;

use lockstep::{Call, Event, Latency};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    run(&arguments, Duration::MAX)
}

pub(crate) fn run(arguments: &[String], length: Duration) -> Result<(), Box<dyn Error>> {
    let second = arguments.get(1).map(String::as_str);
    let call = match arguments.first().map(String::as_str) {
        None => return Err("usage: camera_to_window receive [SINK] | camera_to_window TICKET [SOURCE]".into()),
        Some("receive") => {
            let builder = Call::builder().open_sink(second.unwrap_or("window"));
            let (call, ticket) = builder.listen("0.0.0.0:0".parse()?)?;
            println!("{ticket}");
            call
        }
        Some(ticket) => {
            let builder = Call::builder().open_source(second.unwrap_or("camera")).latency(Latency::Low);
            builder.join(ticket.parse()?)?
        }
    };
    while let Some(event) = call.next_event(length) {
        match event {
            Event::Quality(quality) => println!("{quality:?}"),
            Event::Failed(error) => return Err(error.into()),
            other => println!("{other:?}"),
        }
    }
    Ok(())
}
