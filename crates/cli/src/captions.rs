//! What a running call says to a person: a plain word for its quality, and a line of numbers on demand.

use std::time::Duration;

use lockstep_live::CallState;
use lockstep_runner::live_stats::{Inbound, Outbound, Sample};
use lockstep_units::{Bitrate, Timestamp};

/// Bit rate in one direction.
#[derive(Debug, Default)]
struct Rate {
    at: f64,
    bytes: u64,
    rate: Bitrate,
}

impl Rate {
    /// Bit rate at `timestamp` in milliseconds after `bytes`, over half a second or more.
    fn of(&mut self, timestamp: f64, bytes: u64) -> Bitrate {
        let seconds = (timestamp - self.at) * 1e-3;
        if seconds >= 0.5 {
            let bits = 8.0 * bytes.saturating_sub(self.bytes) as f64 / seconds;
            (self.at, self.bytes, self.rate) = (timestamp, bytes, Bitrate::from_bps(bits as u64));
        }
        self.rate
    }
}

/// Time within which a reachable rendezvous has answered.
const RENDEZVOUS_ANSWERS: Duration = Duration::from_secs(3);

/// Status while no peer has joined.
pub fn waiting(state: &CallState) -> &'static str {
    let late = state.now >= Timestamp::ZERO + RENDEZVOUS_ANSWERS;
    match state.rendezvous_answers {
        Some(false) if late => {
            "nobody is there yet, and the rendezvous does not answer: peers behind other routers cannot join"
        }
        _ => "nobody is there yet",
    }
}

/// Word for a call whose directions are not slow.
const GOOD: &str = "good";

/// Notice for a person whose pictures and voice the other end records.
pub const RECORDED: &str = "the other end records this call";

/// Text for a call that waits for an end from which nothing arrives.
pub fn waiting_since(silence: Duration) -> String {
    format!("waiting for the other end: nothing came for {} s", silence.as_secs())
}

/// Formats the status of a call.
#[derive(Debug, Default)]
pub struct Captions {
    sent: Rate,
    received: Rate,
    quality: Quality,
}

fn milliseconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{:.0} ms", 1e3 * seconds))
}

impl Captions {
    /// A few words about a sample: the quality, and what is switched off.
    pub fn words(&mut self, sample: &Sample) -> String {
        let mut parts = vec![self.quality.of(sample).to_owned()];
        if let Some(outbound) = &sample.first.outbound {
            parts.extend(outbound.muted.then(|| "muted".to_owned()));
            parts.extend(outbound.camera_off.then(|| "your camera is off".to_owned()));
            parts.extend(outbound.recording.then(|| "you record".to_owned()));
        }
        if let Some(inbound) = &sample.first.inbound {
            parts.extend(inbound.recording.then(|| RECORDED.to_owned()));
            parts.extend(inbound.muted.then(|| "the other end is muted".to_owned()));
            parts.extend(inbound.camera_off.then(|| "its camera is off".to_owned()));
        }
        parts.join("  ")
    }

    /// What is notable about one of several people: a slow network, and what is switched off there.
    pub fn of_person(&mut self, sample: &Sample) -> String {
        let quality = self.quality.of(sample);
        let mut parts = Vec::from_iter((quality != GOOD).then_some("slow network"));
        if let Some(inbound) = &sample.first.inbound {
            parts.extend(inbound.recording.then_some("records"));
            parts.extend(inbound.muted.then_some("muted"));
            parts.extend(inbound.camera_off.then_some("camera off"));
        }
        parts.join("  ")
    }

    /// The numbers of a sample.
    pub fn details(&mut self, sample: &Sample) -> String {
        let transport = sample.transport.clone().unwrap_or_default();
        let mut parts = Vec::new();
        if let Some(inbound) = &sample.first.inbound {
            parts.push(format!(
                "delay {}  {} frames/s  {}",
                milliseconds(inbound.video_delay),
                inbound.frames_per_second,
                self.received.of(sample.timestamp, transport.bytes_received)
            ));
        }
        if let Some(outbound) = &sample.first.outbound {
            let quantizer = outbound.quantizer.map_or_else(|| "-".to_owned(), |quantizer| quantizer.to_string());
            parts.push(format!(
                "sent {} of {}  q {quantizer}  round trip {}",
                self.sent.of(sample.timestamp, transport.bytes_sent),
                Bitrate::from_bps(outbound.target_bitrate),
                milliseconds(outbound.round_trip_time)
            ));
        }
        parts.extend(transport.relayed.then(|| "by the rendezvous".to_owned()));
        parts.join("  ")
    }
}

/// One-way delay above which ITU-T G.114 calls a conversation unacceptable, seconds.
const MAX_DELAY: f64 = 0.4;
/// Frames per second below which a moving picture is a sequence of stills.
const MIN_FRAMES: u64 = 10;
/// Quantizer index above which block edges are visible (step 100 and more of VP8's 157; RFC 6386, section 14.1).
const MAX_QUANTIZER: u8 = 112;
/// Time for which a direction must be slow, or good again, before the words change, milliseconds.
const STEADY_MS: f64 = 2_000.0;

fn sends_slowly(outbound: &Outbound) -> bool {
    !outbound.camera_off
        && (outbound.round_trip_time.is_some_and(|time| time > 2.0 * MAX_DELAY)
            || outbound.frames_per_second < MIN_FRAMES
            || outbound.quantizer.is_some_and(|quantizer| quantizer > MAX_QUANTIZER))
}

fn receives_slowly(inbound: &Inbound) -> bool {
    !inbound.camera_off
        && (inbound.video_delay.is_some_and(|delay| delay > MAX_DELAY) || inbound.frames_per_second < MIN_FRAMES)
}

/// A plain word for the quality of a call. A direction is slow if its pictures are late, few or coarse. The first hop of
/// a sender is most often the narrow one. So the sent direction counts as the network at this end.
#[derive(Debug, Default)]
struct Quality {
    /// Whether the directions are slow: sent, received.
    shown: (bool, bool),
    /// Time since which another state lasts.
    changing: Option<((bool, bool), f64)>,
}

impl Quality {
    fn of(&mut self, sample: &Sample) -> &'static str {
        let outbound = sample.first.outbound.as_ref().is_some_and(sends_slowly);
        let inbound = sample.first.inbound.as_ref().is_some_and(receives_slowly);
        let now = (outbound, inbound);
        let since = match self.changing {
            _ if now == self.shown => None,
            Some((state, since)) if state == now => Some((now, since)),
            _ => Some((now, sample.timestamp)),
        };
        self.changing = since.filter(|(_, since)| sample.timestamp - since < STEADY_MS);
        if since.is_some() && self.changing.is_none() {
            self.shown = now;
        }
        match self.shown {
            (false, false) => GOOD,
            (true, false) => "slow network at your end",
            (false, true) => "slow network at their end",
            (true, true) => "slow network",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_runner::live_stats::StreamSample;

    fn sample(seconds: f64, quantizer: u8, frames_per_second: u64) -> Sample {
        let outbound = Outbound { frames_per_second: 30, quantizer: Some(quantizer), ..Outbound::default() };
        let inbound = Inbound { frames_per_second, video_delay: Some(0.08), ..Inbound::default() };
        let first = StreamSample { outbound: Some(outbound), inbound: Some(inbound) };
        Sample { timestamp: 1e3 * seconds, first, ..Sample::default() }
    }

    #[test]
    fn words_name_the_end_whose_network_is_slow() {
        for (quantizer, frames, words) in [
            (40, 30, "good"),
            (120, 30, "slow network at your end"),
            (40, 5, "slow network at their end"),
            (120, 5, "slow network"),
        ] {
            let mut captions = Captions::default();
            let mut said = String::new();
            for second in 0..=5 {
                said = captions.words(&sample(second.into(), quantizer, frames));
            }
            assert_eq!(said, words);
        }
    }

    #[test]
    fn words_stay_when_a_network_is_slow_for_a_moment() {
        let mut captions = Captions::default();
        for (second, quantizer) in [(0.0, 120), (1.0, 40), (2.0, 120), (3.5, 40)] {
            assert_eq!(captions.words(&sample(second, quantizer, 30)), "good");
        }
    }

    #[test]
    fn words_say_what_is_switched_off() {
        let mut sample = sample(0.0, 40, 30);
        sample.first.outbound.as_mut().unwrap().muted = true;
        sample.first.inbound.as_mut().unwrap().camera_off = true;
        assert_eq!(Captions::default().words(&sample), "good  muted  its camera is off");
        assert_eq!(Captions::default().of_person(&sample), "camera off");
    }
}
