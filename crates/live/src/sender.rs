//! The sending process of a live call.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use lockstep_call::{Committed, EncodeJob, FrameRecord, Menu, MenuRunner, SendingEnd, SendingStatus};
use lockstep_media::{Source, psnr, ssim};
use lockstep_units::Timestamp;

use crate::LiveError;
use crate::capture::{self, Captured};
use crate::clock::Clock;
use crate::datagrams::{Incoming, Reader};
use crate::measuring::{Measuring, Quality};

/// Events that may wait for the call; more is a machine that cannot keep up, and then the threads wait.
const EVENT_QUEUE: usize = 1024;
/// The longest time without looking at the clock.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// How often the caller hears of the call's state.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);
/// How long after the last picture late feedback is still taken.
const LINGER: Duration = Duration::from_millis(500);

enum Event {
    Datagram(Incoming),
    Captured(Captured),
    Encoded(Menu),
    Measured { capture: u64, quality: Option<Quality> },
}

enum Work {
    Encode(EncodeJob),
    Measure(Box<Committed>),
}

/// Codes and measures on a thread of its own, so that datagrams never wait for pixels.
fn worker(work: mpsc::Receiver<Work>, events: &SyncSender<Event>, runner: &dyn MenuRunner) {
    for item in work {
        let event = match item {
            Work::Encode(job) => Event::Encoded(job.run(runner)),
            Work::Measure(committed) => {
                let Committed { capture, original, reconstruction } = *committed;
                // Sizes always agree: both come from one encoder.
                let quality = ssim(&original, &reconstruction).ok().zip(psnr(&original, &reconstruction).ok());
                Event::Measured { capture, quality }
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// What one live sender is told.
pub struct SenderOptions {
    /// Where the datagrams go: the receiver or a relay.
    pub peer: SocketAddr,
    /// How long pictures are sent; none means until the source ends.
    pub length: Option<Duration>,
    /// Runs the candidates of a menu.
    pub runner: Box<dyn MenuRunner + Send>,
}

/// Sends `source` to the peer until the time is up, the source ends or the receiver closes the call. `status` is told
/// of the call's state a few times a second, and `log` gets the record of every captured picture, in order, as soon as
/// this end knows all of it.
///
/// # Errors
/// If the socket or the source fails.
pub fn send(
    mut call: SendingEnd,
    source: Box<dyn Source>,
    options: SenderOptions,
    mut status: impl FnMut(Timestamp, &SendingStatus, &SendingEnd),
    mut log: impl FnMut(FrameRecord),
) -> Result<SendingEnd, LiveError> {
    let clock = Clock::start();
    let local: SocketAddr = if options.peer.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(local).map_err(|error| LiveError::Bind { address: local, error })?;
    socket.connect(options.peer).map_err(|error| LiveError::Connect { address: options.peer, error })?;

    let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
    let (work, jobs) = mpsc::channel();
    let frame_interval = source.format().frame_interval();
    let _reader = Reader::spawn(&socket, clock, events.clone(), Event::Datagram).map_err(LiveError::Socket)?;
    let runner = options.runner;
    let from_worker = events.clone();
    let _worker = thread::spawn(move || worker(jobs, &from_worker, &*runner));
    let _capture = capture::spawn(source, frame_interval, events, Event::Captured);

    let started = clock.now();
    let end = options.length.map_or(Timestamp::MAX, |length| started + length);
    let mut finish = None;
    let mut next_status = started;
    let mut measuring = Measuring::default();
    loop {
        let now = clock.now();
        if finish.is_none() && (now >= end || call.is_closed()) {
            finish = Some(now + LINGER);
        }
        if finish.is_some_and(|moment| now >= moment) {
            break;
        }
        if call.poll_timeout().is_some_and(|at| at <= now) {
            call.handle_timeout(now);
        }
        if let Some(job) = call.poll_encode(now) {
            let _ = work.send(Work::Encode(job)); // a worker that is gone panicked; nothing is coded any more
        }
        while let Some(datagram) = call.poll_transmit(clock.now()) {
            transmit(&socket, &datagram)?;
        }
        while let Some(record) = call.poll_record() {
            measuring.push(record);
        }
        while let Some(record) = measuring.pop() {
            log(record);
        }
        if now >= next_status {
            next_status = now + STATUS_INTERVAL;
            status(now, &call.status(now), &call);
        }
        let wake = call.poll_timeout().unwrap_or(Timestamp::MAX).min(next_status).min(finish.unwrap_or(end));
        match incoming.recv_timeout(clock.until(wake).min(LONGEST_WAIT)) {
            Ok(Event::Datagram(Incoming { at, datagram, .. })) => call.handle_datagram(at.max(now), &datagram),
            Ok(Event::Captured(Captured::Picture(picture))) => {
                if finish.is_none() {
                    call.capture(clock.now(), picture);
                }
            }
            Ok(Event::Captured(Captured::Ended)) => finish = finish.or(Some(clock.now() + LINGER)),
            Ok(Event::Captured(Captured::Failed(reason))) => return Err(LiveError::Source(reason)),
            Ok(Event::Encoded(menu)) => {
                call.encoded(clock.now(), menu);
                if let Some(committed) = call.poll_committed().filter(|_| measuring.has_room()) {
                    measuring.begin(committed.capture);
                    let _ = work.send(Work::Measure(Box::new(committed)));
                }
            }
            Ok(Event::Measured { capture, quality }) => measuring.measured(capture, quality),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    while let Some(record) = call.poll_last_record() {
        measuring.push(record);
    }
    while let Some(record) = measuring.pop_any() {
        log(record);
    }
    call.close(clock.now());
    for _ in 0..CLOSE_DATAGRAMS {
        while let Some(datagram) = call.poll_transmit(clock.now()) {
            transmit(&socket, &datagram)?;
        }
        thread::sleep(CLOSE_INTERVAL);
        call.handle_timeout(clock.now());
    }
    Ok(call)
}

/// The close datagram may be lost as any other; it is offered this often, this far apart.
const CLOSE_DATAGRAMS: usize = 3;
const CLOSE_INTERVAL: Duration = Duration::from_millis(30);

/// Sends one datagram. A peer that is not there yet, or a full buffer, loses it, as a network would.
pub(crate) fn transmit(socket: &UdpSocket, datagram: &[u8]) -> Result<(), LiveError> {
    match socket.send(datagram) {
        Ok(_) => Ok(()),
        Err(error) if is_loss(&error) => Ok(()),
        Err(error) => Err(LiveError::Socket(error)),
    }
}

/// Whether a failed send is what a network does to datagrams, and no fault of this process.
pub(crate) fn is_loss(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, WouldBlock};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | Interrupted | NetworkUnreachable | WouldBlock)
}
