//! A custom controller in a live call: it slows down while packets queue, and speeds up otherwise.
use std::error::Error;
use std::time::{Duration, Instant};

use lockstep::control::{Allowance, Controller, ControllerSetup, InFlight, Input, PathView, TokenBucket, Traits};
use lockstep::{Bitrate, Call, Event, Picture, VideoFormat};

struct Cautious {
    rate: Bitrate,
    bucket: TokenBucket,
}

impl Controller for Cautious {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.bucket.on_transmit(path.now, size, self.rate),
            Input::Feedback(_) => {
                let base = path.base_round_trip.unwrap_or_default();
                let queue = path.last_round_trip.unwrap_or_default().saturating_sub(base);
                let factor = if queue > Duration::from_millis(50) { 0.85 } else { 1.02 };
                self.rate = self.rate.mul_f64(factor).clamp(Bitrate::from_kbps(50), Bitrate::from_kbps(5_000));
            }
            _ => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        self.bucket.allowance(path.now, in_flight, self.rate, self.rate.mul_f64(2.0))
    }

    fn pacing_interval(&self, _: &PathView<'_>, _: InFlight) -> Duration {
        self.bucket.pacing_interval(self.rate.mul_f64(2.0))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (receiver, ticket) = Call::builder().receive_frames().listen("127.0.0.1:0".parse()?)?;
    let sender = Call::builder().send_frames(VideoFormat::new(320, 240)).controller(|setup: &ControllerSetup| {
        let bucket = TokenBucket::new(setup.payload, setup.frame_interval);
        Box::new(Cautious { rate: Bitrate::from_kbps(300), bucket })
    });
    let sender = sender.join(ticket)?;
    while sender.next_event(Duration::from_secs(10)).ok_or("nobody joined")? != Event::Joined {}
    let mut received = 0;
    for luma in 0..60u8 {
        sender.send_frame(Picture::from_i420(320, 240, vec![luma; 320 * 240 * 3 / 2])?, Instant::now());
        received += u32::from(receiver.next_frame(Duration::from_millis(33)).is_some());
    }
    if received < 30 { Err(format!("{received} of 60 frames came").into()) } else { Ok(()) }
}
