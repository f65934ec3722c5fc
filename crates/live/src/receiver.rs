//! The receiving process of a live call.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use lockstep_call::{DecodeJob, DecodeOutcome, Display, DisplayRecord, ReceivingEnd};
use lockstep_media::{FrameRate, Sink, SinkError, VideoFormat};
use lockstep_units::Timestamp;

use crate::LiveError;
use crate::clock::Clock;
use crate::datagrams::{Incoming, Reader};
use crate::sender::is_loss;

const EVENT_QUEUE: usize = 1024;
const LONGEST_WAIT: Duration = Duration::from_millis(100);

enum Event {
    Datagram(Incoming),
    Decoded(DecodeOutcome),
    SinkFailed(String),
}

/// What a receiver tells its caller of each picture.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// The picture's place in the receiver's log.
    pub record: DisplayRecord,
    /// When the sender captured it.
    pub captured_at: Timestamp,
}

/// Shows what comes until the call is over.
fn show(
    displays: &mpsc::Receiver<(Display, VideoFormat)>,
    open_sink: impl FnOnce(VideoFormat) -> Result<Box<dyn Sink>, SinkError>,
) -> Result<(), SinkError> {
    let Ok((first, format)) = displays.recv() else { return Ok(()) };
    let mut sink = open_sink(format)?;
    sink.show(&first.picture, &first.payload)?;
    for (display, _) in displays {
        sink.show(&display.picture, &display.payload)?;
    }
    sink.finish()
}

/// What one live receiver is told.
pub struct ReceiverOptions {
    /// Give up when nothing at all came for this long; none means wait for ever.
    pub idle_limit: Option<Duration>,
}

/// The format of a picture that a call shows, with the frame rate that its sender announced.
fn format_of(display: &Display, announced: Option<lockstep_transport::VideoFormat>) -> VideoFormat {
    let frame_rate = announced
        .and_then(|format| FrameRate::new(format.frame_rate_numerator, format.frame_rate_denominator))
        .unwrap_or_default();
    VideoFormat { width: display.picture.width(), height: display.picture.height(), frame_rate }
}

/// Receives one call on `socket` and shows it until the sender closes it, on the sink that `open_sink` opens once the
/// first picture tells its size. `shown` hears of each picture as it
/// is displayed; a picture counts as displayed when it is handed to the sink.
///
/// # Errors
/// If the socket or the sink fails, or nothing came within the idle limit.
pub fn receive(
    mut call: ReceivingEnd,
    socket: &UdpSocket,
    open_sink: impl FnOnce(VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send + 'static,
    options: &ReceiverOptions,
    mut shown: impl FnMut(&Shown),
) -> Result<ReceivingEnd, LiveError> {
    let clock = Clock::start();
    let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
    let (jobs, to_decode) = mpsc::channel::<DecodeJob>();
    let (pictures, to_show) = mpsc::sync_channel::<(Display, VideoFormat)>(4);
    let _reader = Reader::spawn(socket, clock, events.clone(), Event::Datagram).map_err(LiveError::Socket)?;
    let from_decoder = events.clone();
    let _decoder = thread::spawn(move || {
        for job in to_decode {
            if from_decoder.send(Event::Decoded(job.run())).is_err() {
                return;
            }
        }
    });
    let from_sink = events;
    let sink_thread = thread::spawn(move || {
        if let Err(error) = show(&to_show, open_sink) {
            let _ = from_sink.try_send(Event::SinkFailed(error.to_string()));
        }
    });

    let mut peer: Option<SocketAddr> = None;
    let mut last_heard = clock.now();
    let result = loop {
        let now = clock.now();
        if call.poll_timeout().is_some_and(|at| at <= now) {
            call.handle_timeout(now);
        }
        while let Some(job) = call.poll_decode() {
            let _ = jobs.send(job); // a decoder that is gone panicked; nothing is shown any more
        }
        while let Some(datagram) = call.poll_transmit(clock.now()) {
            let Some(peer) = peer else { continue };
            match socket.send_to(&datagram, peer) {
                Err(error) if !is_loss(&error) => return Err(LiveError::Socket(error)),
                _ => {}
            }
        }
        if call.is_closed() {
            break Ok(());
        }
        if options.idle_limit.is_some_and(|limit| now.saturating_since(last_heard) > limit) {
            break Err(LiveError::Silent { seconds: options.idle_limit.unwrap_or_default().as_secs() });
        }
        let wake = call.poll_timeout().unwrap_or(Timestamp::MAX);
        match incoming.recv_timeout(clock.until(wake).min(LONGEST_WAIT)) {
            Ok(Event::Datagram(Incoming { at, from, datagram })) => {
                let accepted = call.accepted_datagrams();
                call.handle_datagram(at.max(now), &datagram);
                // Only a sender whose datagrams make sense is answered, wherever it now sends from.
                if call.accepted_datagrams() > accepted {
                    peer = Some(from);
                    last_heard = now;
                }
                if let Some((format, limit)) = call.format_beyond_limit() {
                    break Err(LiveError::TooManyPixels { width: format.width, height: format.height, limit });
                }
            }
            Ok(Event::Decoded(outcome)) => {
                call.decoded(clock.now(), outcome);
                if let Some(display) = call.poll_display() {
                    shown(&Shown {
                        record: DisplayRecord {
                            frame: display.frame,
                            completed_at: display.completed_at,
                            displayed_at: display.displayed_at,
                        },
                        captured_at: display.captured_at,
                    });
                    let format = format_of(&display, call.format());
                    let _ = pictures.send((display, format)); // a sink that is gone has said why
                }
            }
            Ok(Event::SinkFailed(reason)) => break Err(LiveError::Sink(reason)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
        }
    };
    drop(pictures);
    let _ = sink_thread.join();
    result.map(|()| call)
}
