//! An unattended robot with two cameras: it joins with a standing ticket and resumes after every interruption.
//! `headless_robot operate ADDRESS KEY_FILE` prints the ticket; `headless_robot TICKET [FRONT [REAR]]` is the robot.
use std::env;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use lockstep::{Call, Event, Identity, Latency, Message, Stream};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["operate", address, key_file] => {
            let identity = Identity::standing(Path::new(key_file))?;
            let builder = Call::builder().open_sink("window").stale_after(Duration::from_millis(500)).reconnect();
            let (call, ticket) = builder.listen_as(identity, address.parse()?)?;
            println!("{ticket}");
            watch(&call)
        }
        [ticket] => watch(&robot(ticket, &["camera"])?),
        [ticket, sources @ ..] if sources.len() <= 2 => watch(&robot(ticket, sources)?),
        _ => Err("usage: headless_robot operate ADDRESS KEY_FILE | headless_robot TICKET [FRONT [REAR]]".into()),
    }
}

/// The robot's end. The front camera gets three times the budget of the rear one.
pub(crate) fn robot(ticket: &str, sources: &[&str]) -> Result<Call, Box<dyn Error>> {
    let mut builder = Call::builder().latency(Latency::Low).reconnect();
    for ((name, priority), source) in [("front", 3.0), ("rear", 1.0)].into_iter().zip(sources) {
        builder = builder.stream(Stream::open_source(name, source).priority(priority));
    }
    Ok(builder.join(ticket.parse()?)?)
}

/// Prints events, and answers messages, until the call ends.
pub(crate) fn watch(call: &Call) -> Result<(), Box<dyn Error>> {
    for event in call.events() {
        match event {
            Event::Message(message) => call.send_message(Message::reliable(message.payload))?,
            Event::Quality(_) => {}
            Event::Failed(error) => return Err(error.into()),
            other => println!("{other:?}"),
        }
    }
    Ok(())
}
