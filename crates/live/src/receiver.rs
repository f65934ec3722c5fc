//! The receiving process of a live call.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::time::Duration;

use lockstep_call::{DecodeJob, DecodeOutcome, Display, DisplayRecord, ReceivingEnd};
use lockstep_media::{FrameRate, Sink, SinkError, VideoFormat};
use lockstep_transport::{CloseReason, Datagram};
use lockstep_units::Timestamp;

use crate::clock::Clock;
use crate::datagrams::{Incoming, Reader};
use crate::peers::is_loss;
use crate::threads::Thread;
use crate::{END_LIMIT, Ended, Finished, LiveError, Stop, end_limit};

const EVENT_QUEUE: usize = 1024;
/// Pictures that may wait for the sink; while more do, nothing is decoded.
const DISPLAY_QUEUE: usize = 4;
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// How soon a sink that had no room is asked again.
const SINK_INTERVAL: Duration = Duration::from_millis(5);

enum Event {
    Datagram(Incoming),
    Decoded(DecodeOutcome),
}

/// What a receiver tells its caller of each picture.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// The picture's place in the receiver's log.
    pub record: DisplayRecord,
    /// When the sender captured it.
    pub captured_at: Timestamp,
}

/// Shows what comes until the call is over or the person closes the window.
fn show(
    displays: &mpsc::Receiver<(Display, VideoFormat)>,
    open_sink: impl FnOnce(VideoFormat) -> Result<Box<dyn Sink>, SinkError>,
) -> Result<(), LiveError> {
    let shown = || {
        let Ok((first, format)) = displays.recv() else { return Ok(()) };
        let mut sink = open_sink(format)?;
        sink.show(&first.picture, &first.payload)?;
        for (display, _) in displays {
            sink.show(&display.picture, &display.payload)?;
        }
        sink.finish()
    };
    match shown() {
        Ok(()) | Err(SinkError::WindowClosed) => Ok(()),
        Err(error) => Err(LiveError::Sink(error.to_string())),
    }
}

/// What one live receiver is told.
pub struct ReceiverOptions {
    /// Give up when no sender called for this long; none means wait for ever.
    pub wait_limit: Option<Duration>,
    /// Give up when nothing came from the sender for this long; none means wait for ever.
    pub idle_limit: Option<Duration>,
    /// Asked whether the call shall end.
    pub stop: Stop,
}

/// The format of a picture that a call shows, with the frame rate that its sender announced.
fn format_of(display: &Display, announced: Option<lockstep_transport::VideoFormat>) -> VideoFormat {
    let frame_rate = announced
        .and_then(|format| FrameRate::new(format.frame_rate_numerator, format.frame_rate_denominator))
        .unwrap_or_default();
    VideoFormat { width: display.picture.width(), height: display.picture.height(), frame_rate }
}

/// A call while it runs.
struct Running<'a> {
    call: ReceivingEnd,
    clock: Clock,
    socket: &'a UdpSocket,
    incoming: mpsc::Receiver<Event>,
    reader: Reader,
    jobs: mpsc::Sender<DecodeJob>,
    decoder: Thread,
    pictures: SyncSender<(Display, VideoFormat)>,
    /// A picture for which the sink has no room yet.
    waiting: Option<(Display, VideoFormat)>,
    sink: Thread,
    peer: Option<SocketAddr>,
    last_heard: Timestamp,
    options: &'a ReceiverOptions,
}

/// Receives one call on `socket` and shows it, on the sink that `open_sink` opens once the first picture tells its size,
/// until the sender closes it or is silent for too long, the user stops it or closes the window. `shown` hears of each
/// picture as it is displayed; a picture counts as displayed when it is handed to the sink. Gives the end back, however
/// it ended.
pub fn receive(
    call: ReceivingEnd,
    socket: &UdpSocket,
    open_sink: impl FnOnce(VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send + 'static,
    options: &ReceiverOptions,
    mut shown: impl FnMut(&Shown),
) -> Finished<ReceivingEnd> {
    let mut running = match Running::start(call, socket, open_sink, options) {
        Ok(running) => running,
        Err((end, error)) => return Finished { end: *end, result: Err(error) },
    };
    let result = running.run(&mut shown);
    let Running { call, pictures, mut sink, .. } = running;
    drop(pictures);
    // However the call ended, what was shown is written whole.
    let shown = sink.finish(END_LIMIT);
    let result = result.and_then(|ended| shown.map(|()| ended));
    Finished { end: call, result }
}

impl<'a> Running<'a> {
    fn start(
        call: ReceivingEnd,
        socket: &'a UdpSocket,
        open_sink: impl FnOnce(VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send + 'static,
        options: &'a ReceiverOptions,
    ) -> Result<Self, (Box<ReceivingEnd>, LiveError)> {
        let clock = Clock::start();
        let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
        let (jobs, to_decode) = mpsc::channel::<DecodeJob>();
        let (pictures, to_show) = mpsc::sync_channel(DISPLAY_QUEUE);
        let threads = || {
            let reader = Reader::spawn(socket, clock, events.clone(), Event::Datagram)?;
            let decoder = Thread::spawn("decoder", move || {
                for job in to_decode {
                    if events.send(Event::Decoded(job.run())).is_err() {
                        break;
                    }
                }
                Ok(())
            })?;
            Ok((reader, decoder, Thread::spawn("sink", move || show(&to_show, open_sink))?))
        };
        let (reader, decoder, sink) = match threads() {
            Ok(threads) => threads,
            Err(error) => return Err((Box::new(call), error)),
        };
        let last_heard = clock.now();
        let (waiting, peer) = (None, None);
        Ok(Self {
            call,
            clock,
            socket,
            incoming,
            reader,
            jobs,
            decoder,
            pictures,
            waiting,
            sink,
            peer,
            last_heard,
            options,
        })
    }

    fn run(&mut self, shown: &mut impl FnMut(&Shown)) -> Result<Ended, LiveError> {
        let mut ending: Option<(Timestamp, Result<Ended, LiveError>)> = None;
        loop {
            let now = self.clock.now();
            if ending.is_none()
                && let Some(result) = self.reason_to_end(now).transpose()
            {
                self.call.close(now, if result.is_ok() { CloseReason::Done } else { CloseReason::Failed });
                ending = Some((now, result));
            }
            if self.call.poll_timeout().is_some_and(|at| at <= now) {
                self.call.handle_timeout(now);
            }
            self.offer_to_sink();
            while self.waiting.is_none()
                && let Some(job) = self.call.poll_decode()
            {
                let _ = self.jobs.send(job); // that the decoder is gone is noticed above
            }
            if let Err(error) = self.transmit()
                && ending.is_none()
            {
                self.call.close(now, CloseReason::Failed);
                ending = Some((now, Err(error)));
            }
            if let Some((since, result)) = ending.take_if(|(since, result)| self.is_over(*since, result)) {
                let late = now.saturating_since(since) >= END_LIMIT;
                return if late && result.is_ok() && self.waiting.is_some() {
                    Err(LiveError::Stuck { name: "sink", seconds: END_LIMIT.as_secs() })
                } else {
                    result
                };
            }
            self.wait_for_event(now, shown);
        }
    }

    /// Whether the call is over, and why.
    fn reason_to_end(&mut self, now: Timestamp) -> Result<Option<Ended>, LiveError> {
        if let Some(number) = self.call.refused_estimator() {
            return Err(LiveError::UnknownEstimator { number });
        }
        if let Some((format, limit)) = self.call.format_beyond_limit() {
            return Err(LiveError::TooManyPixels { width: format.width, height: format.height, limit });
        }
        match self.call.peer_closed() {
            None => {}
            Some(CloseReason::Failed) => return Err(LiveError::PeerFailed { peer: "sender" }),
            Some(_) => return Ok(Some(Ended::ByPeer)),
        }
        if (self.options.stop)() {
            return Ok(Some(Ended::Stopped));
        }
        self.reader.check()?;
        self.decoder.check()?;
        if self.sink.is_over() {
            return self.sink.check().map(|()| Some(Ended::WindowClosed));
        }
        let silence = now.saturating_since(self.last_heard);
        match (self.peer, self.options.wait_limit, self.options.idle_limit) {
            (None, Some(limit), _) if silence >= limit => Err(LiveError::NotCalled { waited: limit }),
            (Some(_), _, Some(limit)) if silence >= limit => Err(LiveError::Silent { peer: "sender", silence: limit }),
            _ => Ok(None),
        }
    }

    /// Whether nothing is left to be done for a call that has been ending since `since`: after a failure, nothing but to
    /// tell the sender.
    fn is_over(&self, since: Timestamp, result: &Result<Ended, LiveError>) -> bool {
        let shown = self.sink.is_over() || (self.waiting.is_none() && !self.call.is_decoding());
        let late = self.clock.now().saturating_since(since) >= end_limit(result);
        late || (self.call.is_finished() && (shown || result.is_err() || self.decoder.is_over()))
    }

    /// Hands the picture that waits to the sink, if that has room.
    fn offer_to_sink(&mut self) {
        if let Some(display) = self.waiting.take()
            && let Err(TrySendError::Full(display)) = self.pictures.try_send(display)
        {
            self.waiting = Some(display);
        }
    }

    fn transmit(&mut self) -> Result<(), LiveError> {
        while let Some(transmit) = self.call.poll_transmit(self.clock.now()) {
            let Some(peer) = self.peer else { continue };
            match self.socket.send_to(&transmit.to_bytes(), peer) {
                Err(error) if !is_loss(&error) => return Err(LiveError::Socket(error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn wait_for_event(&mut self, now: Timestamp, shown: &mut impl FnMut(&Shown)) {
        let longest = if self.waiting.is_some() { SINK_INTERVAL } else { LONGEST_WAIT };
        let wake = self.call.poll_timeout().unwrap_or(Timestamp::MAX);
        match self.incoming.recv_timeout(self.clock.until(wake).min(longest)) {
            Ok(Event::Datagram(Incoming { at, from, datagram })) => {
                // Only a sender whose datagrams make sense is answered, wherever it now sends from.
                if self.call.handle_datagram(at.max(now), Datagram::decode(&datagram), false) {
                    self.peer = Some(from);
                    self.last_heard = now;
                }
            }
            Ok(Event::Decoded(outcome)) => {
                self.call.decoded(self.clock.now(), outcome);
                if let Some(display) = self.call.poll_display() {
                    shown(&Shown {
                        record: DisplayRecord {
                            frame: display.frame,
                            completed_at: display.completed_at,
                            displayed_at: display.displayed_at,
                        },
                        captured_at: display.captured_at,
                    });
                    let format = format_of(&display, self.call.format());
                    self.waiting = Some((display, format));
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}
