//! Two ends of a call in one process: frames from the application travel over loopback.
use std::error::Error;
use std::time::{Duration, Instant};

use lockstep::{Call, Event, Picture, VideoFormat};

const LIMIT: Duration = Duration::from_secs(10);

/// A grey picture with a moving bar.
fn picture(number: usize) -> Result<Picture, Box<dyn Error>> {
    let (width, height) = (320, 240);
    let mut samples = vec![128; width * height * 3 / 2];
    for row in samples[..width * height].chunks_mut(width) {
        row[number * 4 % width..][..1].fill(235);
    }
    Ok(Picture::from_i420(width, height, samples)?)
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (receiver, ticket) = Call::builder().receive_frames().listen("127.0.0.1:0".parse()?)?;
    let sender = Call::builder().send_frames(VideoFormat::new(320, 240)).join(ticket)?;
    while sender.next_event(LIMIT).ok_or("nobody joined")? != Event::Joined {}

    let mut received = 0;
    for number in 0..60 {
        sender.send_frame(picture(number)?, Instant::now());
        while let Some(frame) = receiver.next_frame(Duration::from_millis(33)) {
            received += 1;
            println!("frame {received}: age {:.1?}", frame.age.unwrap_or_default());
        }
    }
    sender.leave()?;
    if received < 30 {
        return Err(format!("{received} of 60 frames came").into());
    }
    Ok(())
}
