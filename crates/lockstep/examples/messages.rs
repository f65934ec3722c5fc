//! Remote operation: commands are latest messages, telemetry is reliable, and stale video stops the robot.
use std::error::Error;
use std::time::{Duration, Instant};

use lockstep::{Call, Event, Latency, Message, Picture, VideoFormat};

/// Channel of the steering commands; messages of different channels do not overtake each other.
const STEERING: u8 = 1;
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let operator = Call::builder().receive_frames().stale_after(Duration::from_millis(300));
    let (operator, ticket) = operator.listen("127.0.0.1:0".parse()?)?;
    let robot = Call::builder().send_frames(VideoFormat::new(320, 240)).latency(Latency::Low).join(ticket)?;
    while robot.next_event(LIMIT).ok_or("nobody joined")? != Event::Joined {}
    robot.send_message(Message::reliable("battery 87 %"))?;

    // The robot films for two seconds, and then its camera fails.
    let mut is_stale = false;
    let mut commands = 0;
    for tick in 0..100u8 {
        if tick < 60 {
            robot.send_frame(Picture::from_i420(320, 240, vec![tick; 320 * 240 * 3 / 2])?, Instant::now());
        }
        let command = if is_stale { "stop".to_owned() } else { format!("steer {tick}") };
        operator.send_message(Message::latest(STEERING, command))?;
        while let Some(event) = robot.next_event(Duration::ZERO) {
            if let Event::Message(message) = event {
                commands += 1;
                println!("robot: {} after {:.1?}", String::from_utf8_lossy(&message.payload), message.delay);
            }
        }
        let tick_end = Instant::now() + Duration::from_millis(33);
        while let Some(event) = operator.next_event(tick_end.saturating_duration_since(Instant::now())) {
            match event {
                Event::Message(message) => println!("operator: {}", String::from_utf8_lossy(&message.payload)),
                Event::Stale { age, .. } => {
                    println!("operator: video is {age:.1?} old, stop");
                    is_stale = true;
                }
                _ => {}
            }
        }
        while operator.next_frame(Duration::ZERO).is_some() {}
    }
    if is_stale && commands > 50 { Ok(()) } else { Err(format!("stale: {is_stale}, {commands} commands").into()) }
}
