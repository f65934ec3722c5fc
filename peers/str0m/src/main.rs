//! One end of a call by str0m, as a process: `lockstep-str0m-peer sender|receiver WORK CLIP ADDRESS OPTIONS`.
//!
//! `python/lockstep/testbed/two_ends.py` defines its input, output and files. The sender plays the clip as a camera. It
//! codes each picture from the previous one, with our VP8, at the rate of str0m's bandwidth estimate. The receiver
//! decodes complete frames in order, and requests a key frame after a missing one.
#![forbid(unsafe_code)]

mod camera;
mod screen;
mod signalling;

use std::error::Error;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use str0m::bwe::{Bitrate, BweKind};
use str0m::crypto::from_feature_flags;
use str0m::media::{Frequency, KeyframeRequestKind, MediaTime, Mid};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, IceConnectionState, Input, Output, Rtc};

use camera::{Camera, Frame};
use screen::Screen;
use signalling::{Arguments, Role, join, standard_input_end};

/// Initial bandwidth estimate, as in libwebrtc.
const FIRST_RATE: Bitrate = Bitrate::kbps(300);
/// Limit on the wait for the socket. Frames of the camera wait at most this long.
const MAX_SOCKET_WAIT: Duration = Duration::from_millis(2);
/// Interval of the rows in the series.
const SAMPLED: Duration = Duration::from_millis(500);
/// Interval between two requests for a key frame.
const ASKED_AGAIN: Duration = Duration::from_millis(300);

pub type Failure = Box<dyn Error + Send + Sync>;

/// Time of the machine's monotonic clock, seconds.
pub fn now() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// One end of a call with its socket and, depending on the role, camera or screen.
struct End {
    rtc: Rtc,
    socket: UdpSocket,
    input_end: Receiver<()>,
    series: File,
    mid: Option<Mid>,
    camera: Option<Camera>,
    screen: Option<Screen>,
    asked_at: Option<Instant>,
    sampled_at: Instant,
    round_trip: Option<Duration>,
    estimate: Option<Bitrate>,
    frames_sent: u64,
    media_bits: u64,
}

impl End {
    /// Runs the call until standard input ends.
    fn run(&mut self) -> Result<(), Failure> {
        let mut buffer = vec![0; 2_000];
        while self.input_end.try_recv().is_err() {
            self.send_frames()?;
            let timeout = match self.rtc.poll_output()? {
                Output::Timeout(at) => at,
                Output::Transmit(packet) => {
                    // Errors are ignored: a full queue of the kernel loses packets like any other queue.
                    let _ = self.socket.send_to(&packet.contents, packet.destination);
                    continue;
                }
                Output::Event(event) => {
                    self.handle(event)?;
                    continue;
                }
            };
            self.sample()?;
            let wait = timeout.saturating_duration_since(Instant::now()).min(MAX_SOCKET_WAIT);
            if wait.is_zero() {
                self.rtc.handle_input(Input::Timeout(Instant::now()))?;
                continue;
            }
            self.socket.set_read_timeout(Some(wait))?;
            match self.socket.recv_from(&mut buffer) {
                Ok((length, source)) => {
                    let destination = self.socket.local_addr()?;
                    let contents = buffer[..length].try_into()?;
                    let packet = Receive { proto: Protocol::Udp, source, destination, contents };
                    self.rtc.handle_input(Input::Receive(Instant::now(), packet))?;
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.rtc.handle_input(Input::Timeout(Instant::now()))?;
                }
                // ICMP reports that no process received a packet.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::MediaAdded(media) => self.mid = Some(media.mid),
            Event::Connected => {
                if let Some(camera) = &mut self.camera {
                    self.rtc.bwe().set_desired_bitrate(Bitrate::bps(camera.max_bps()));
                    camera.start()?;
                }
            }
            Event::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                return Err("the connection to the other end was lost".into());
            }
            Event::EgressBitrateEstimate(BweKind::Twcc { estimate, .. }) => {
                self.estimate = Some(estimate);
                if let Some(camera) = &self.camera {
                    camera.allow(estimate.as_u64());
                }
            }
            Event::KeyframeRequest(_) => self.camera.iter().for_each(Camera::request_key_frame),
            Event::MediaData(data) => {
                let needs_key = self.screen.as_mut().is_some_and(|screen| !screen.show(data.data, data.contiguous));
                let is_time = self.asked_at.is_none_or(|at| at.elapsed() >= ASKED_AGAIN);
                if let (true, true, Some(mut writer)) = (needs_key, is_time, self.rtc.writer(data.mid))
                    && writer.is_request_keyframe_possible(KeyframeRequestKind::Pli)
                {
                    writer.request_keyframe(None, KeyframeRequestKind::Pli)?;
                    self.asked_at = Some(Instant::now());
                }
            }
            Event::PeerStats(stats) => self.round_trip = stats.rtt.or(self.round_trip),
            _ => {}
        }
        Ok(())
    }

    /// Sends the frames that the camera's encoder has finished.
    fn send_frames(&mut self) -> Result<(), Failure> {
        let (Some(camera), Some(mid)) = (&self.camera, self.mid) else { return Ok(()) };
        while let Some(Frame { captured, elapsed, data }) = camera.next_frame() {
            let Some(writer) = self.rtc.writer(mid) else { break };
            let Some(payload) = writer.payload_params().next().map(|parameters| parameters.pt()) else { break };
            self.frames_sent += 1;
            self.media_bits += 8 * data.len() as u64;
            let ticks = (elapsed.as_secs_f64() * 90_000.0).round() as u64;
            writer.write(payload, captured, MediaTime::new(ticks, Frequency::NINETY_KHZ), data)?;
        }
        Ok(())
    }

    fn sample(&mut self) -> Result<(), Failure> {
        if self.sampled_at.elapsed() < SAMPLED {
            return Ok(());
        }
        self.sampled_at = Instant::now();
        let estimate = self.estimate.map(|rate| rate.as_u64());
        let row = serde_json::json!({
            "at": now(),
            "estimate_bps": estimate,
            "target_bps": self.camera.as_ref().map(Camera::target_bps),
            "round_trip_us": self.round_trip.map(|time| time.as_micros() as u64),
            "frames_sent": self.frames_sent,
            "media_bits": self.media_bits,
        });
        writeln!(self.series, "{row}")?;
        Ok(())
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    from_feature_flags().install_process_default();
    let mut rtc = Rtc::builder()
        .clear_codecs()
        .enable_vp8(true)
        .enable_bwe(Some(FIRST_RATE))
        .set_stats_interval(Some(SAMPLED))
        .build(Instant::now());
    let socket = UdpSocket::bind((arguments.address, 0))?;
    rtc.add_local_candidate(Candidate::host(socket.local_addr()?, "udp")?);
    let mid = join(&mut rtc, arguments.role)?;
    let file = |name: &str| File::create(arguments.work.join(name));
    let is_sender = arguments.role == Role::Sender;
    let camera = if is_sender { Some(Camera::new(arguments, file("sender.times")?)?) } else { None };
    let screen = if is_sender { None } else { Some(Screen::new(file("shown.i420")?, file("receiver.times")?)) };
    let series = file(if is_sender { "sender.series" } else { "receiver.series" })?;
    let mut end = End {
        rtc,
        socket,
        input_end: standard_input_end(),
        series,
        mid,
        camera,
        screen,
        asked_at: None,
        sampled_at: Instant::now(),
        round_trip: None,
        estimate: None,
        frames_sent: 0,
        media_bits: 0,
    };
    end.run()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [role, work, clip, address, options] => {
            Arguments::read(role, PathBuf::from(work), PathBuf::from(clip), address, options)
                .and_then(|arguments| run(&arguments))
        }
        _ => {
            Err("usage: lockstep-str0m-peer sender|receiver WORK CLIP ADDRESS OPTIONS (started by `lockstep testbed`)"
                .into())
        }
    };
    if let Err(error) = outcome {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
