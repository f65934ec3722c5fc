//! The sending process of a live call.

use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::Duration;

use lockstep_call::{Committed, EncodeJob, FrameRecord, Menu, MenuRunner, SendingEnd, SendingStatus};
use lockstep_media::{Source, psnr, ssim};
use lockstep_transport::{CloseReason, Datagram};
use lockstep_units::Timestamp;

use crate::capture::{self, Captured};
use crate::clock::Clock;
use crate::datagrams::Incoming;
use crate::measuring::{Measuring, Quality};
use crate::peers::Peers;
use crate::threads::Thread;
use crate::{Ended, Finished, LiveError, REFUSED_LIMIT, Stop, end_limit};

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
                let Committed { capture, original, reconstruction, .. } = *committed;
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
    /// Where the datagrams go, the receiver or a relay: every address that its name stands for. All are tried until one
    /// answers.
    pub peers: Vec<SocketAddr>,
    /// How long pictures are sent; none means until the source ends.
    pub length: Option<Duration>,
    /// How long the receiver may take to answer the first time; none means that it need not.
    pub wait_limit: Option<Duration>,
    /// How long the receiver may be silent later; none means for ever.
    pub idle_limit: Option<Duration>,
    /// Asked whether the call shall end.
    pub stop: Stop,
    /// Runs the candidates of a menu.
    pub runner: Box<dyn MenuRunner + Send>,
    /// Whether the quality of what is sent is measured, for the log; it takes about half as long as coding does.
    pub measures_quality: bool,
}

/// A call while it runs.
struct Running {
    call: SendingEnd,
    clock: Clock,
    peers: Peers,
    incoming: mpsc::Receiver<Event>,
    work: mpsc::Sender<Work>,
    measuring: Measuring,
    measures_quality: bool,
    worker: Thread,
    source: Thread,
    started: Timestamp,
    length: Option<Duration>,
    wait_limit: Option<Duration>,
    idle_limit: Option<Duration>,
    stop: Stop,
    /// Since when datagrams leave and none comes.
    unanswered_since: Option<Timestamp>,
    /// When the last picture is no longer waited for, once there is a last one.
    last_feedback_at: Option<Timestamp>,
}

/// Sends `source` to the peer until the time is up, the source ends, the receiver closes the call or is gone, or the
/// user stops it; then tells the receiver, and waits for its answer. `status` is told of the call's state a few times a
/// second, and `log` gets the record of every captured picture, in order, as soon as this end knows all of it. Gives the
/// end back, however it ended.
pub fn send(
    call: SendingEnd,
    mut source: Box<dyn Source>,
    options: SenderOptions,
    mut status: impl FnMut(Timestamp, &SendingStatus, &SendingEnd),
    mut log: impl FnMut(FrameRecord),
) -> Finished<SendingEnd> {
    // Before the clock starts.
    source.prepare();
    match Running::start(call, source, options) {
        Ok(mut running) => {
            let result = running.run(&mut status, &mut log);
            running.log_the_rest(&mut log);
            running.close(&result);
            Finished { end: running.call, result }
        }
        Err((end, error)) => Finished { end: *end, result: Err(error) },
    }
}

impl Running {
    fn start(
        call: SendingEnd,
        source: Box<dyn Source>,
        options: SenderOptions,
    ) -> Result<Self, (Box<SendingEnd>, LiveError)> {
        let SenderOptions { peers, length, wait_limit, idle_limit, stop, runner, measures_quality } = options;
        let clock = Clock::start();
        let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
        let (work, jobs) = mpsc::channel();
        let frame_interval = source.format().frame_interval();
        let from_worker = events.clone();
        let threads = || {
            let peers = Peers::connect(&peers, clock, &events, Event::Datagram)?;
            let worker = Thread::spawn("encoder", move || {
                worker(jobs, &from_worker, &*runner);
                Ok(())
            })?;
            let source = capture::spawn(source, frame_interval, events, Event::Captured)?;
            Ok((peers, worker, source))
        };
        let (peers, worker, source) = match threads() {
            Ok(threads) => threads,
            Err(error) => return Err((Box::new(call), error)),
        };
        Ok(Self {
            call,
            clock,
            peers,
            incoming,
            work,
            measuring: Measuring::default(),
            measures_quality,
            worker,
            source,
            started: clock.now(),
            length,
            wait_limit,
            idle_limit,
            stop,
            unanswered_since: None,
            last_feedback_at: None,
        })
    }

    fn run(
        &mut self,
        status: &mut impl FnMut(Timestamp, &SendingStatus, &SendingEnd),
        log: &mut impl FnMut(FrameRecord),
    ) -> Result<Ended, LiveError> {
        let end = self.length.map_or(Timestamp::MAX, |length| self.started + length);
        let mut next_status = self.started;
        loop {
            let now = self.clock.now();
            if self.last_feedback_at.is_none() && now >= end {
                self.last_feedback_at = Some(now + LINGER);
            }
            if let Some(ended) = self.reason_to_end(now)? {
                return Ok(ended);
            }
            self.timeout_and_transmit(now)?;
            if let Some(job) = self.call.poll_encode(now) {
                let _ = self.work.send(Work::Encode(job)); // that the worker is gone is noticed above
            }
            while let Some(record) = self.call.poll_record() {
                self.measuring.push(record);
            }
            while let Some(record) = self.measuring.pop() {
                log(record);
            }
            if now >= next_status {
                next_status = now + STATUS_INTERVAL;
                status(now, &self.call.status(now), &self.call);
            }
            self.wait_for_event(now, next_status.min(self.last_feedback_at.unwrap_or(end)));
        }
    }

    /// Logs what is decided on or not, and measured or not, at the end.
    fn log_the_rest(&mut self, log: &mut impl FnMut(FrameRecord)) {
        while let Some(record) = self.call.poll_last_record() {
            self.measuring.push(record);
        }
        while let Some(record) = self.measuring.pop_any() {
            log(record);
        }
    }

    /// Whether the call is over, and why.
    fn reason_to_end(&mut self, now: Timestamp) -> Result<Option<Ended>, LiveError> {
        match self.call.peer_closed() {
            None => {}
            Some(CloseReason::Failed) => return Err(LiveError::PeerFailed { peer: "receiver" }),
            Some(CloseReason::Unsupported) => return Err(LiveError::Refused),
            Some(CloseReason::Done | CloseReason::Other(_)) => return Ok(Some(Ended::ByPeer)),
        }
        if (self.stop)() {
            return Ok(Some(Ended::Stopped));
        }
        self.worker.check()?;
        self.source.check()?;
        self.peers.check()?;
        let done = self.last_feedback_at.is_some_and(|moment| now >= moment);
        if !self.call.is_connected() {
            let waited = now.saturating_since(self.started);
            if self.wait_limit.is_some_and(|limit| done || waited >= limit) {
                return Err(LiveError::Unanswered { waited, tried: self.peers.tried() });
            }
        } else if let Some(since) = self.unanswered_since {
            let silence = now.saturating_since(since);
            if self.idle_limit.is_some() && silence >= REFUSED_LIMIT && self.peers.refuses() {
                return Err(LiveError::Gone { tried: self.peers.tried() });
            }
            if let Some(limit) = self.idle_limit.filter(|&limit| silence >= limit) {
                return Err(LiveError::Silent { peer: "receiver", silence: limit });
            }
        }
        Ok(done.then_some(Ended::Done))
    }

    fn timeout_and_transmit(&mut self, now: Timestamp) -> Result<(), LiveError> {
        if self.call.poll_timeout().is_some_and(|at| at <= now) {
            self.call.handle_timeout(now);
        }
        while let Some(transmit) = self.call.poll_transmit(self.clock.now()) {
            self.unanswered_since.get_or_insert(now);
            self.peers.transmit(&transmit.to_bytes())?;
        }
        Ok(())
    }

    /// Waits for something to happen, at most until `wake` or until the call wants to be asked.
    fn wait_for_event(&mut self, now: Timestamp, wake: Timestamp) {
        let wake = self.call.poll_timeout().unwrap_or(Timestamp::MAX).min(wake);
        match self.incoming.recv_timeout(self.clock.until(wake).min(LONGEST_WAIT)) {
            Ok(Event::Datagram(Incoming { at, from, datagram })) => {
                if self.peers.includes(from) && self.call.handle_datagram(at.max(now), Datagram::decode(&datagram)) {
                    self.peers.choose(from);
                    self.unanswered_since = None;
                }
            }
            Ok(Event::Captured(Captured::Picture(picture))) => {
                if self.last_feedback_at.is_none() {
                    self.call.capture(self.clock.now(), picture);
                }
            }
            Ok(Event::Captured(Captured::Ended)) => {
                self.last_feedback_at.get_or_insert(self.clock.now() + LINGER);
            }
            Ok(Event::Encoded(menu)) => {
                self.call.encoded(self.clock.now(), menu);
                if let Some(committed) =
                    self.call.poll_committed().filter(|_| self.measures_quality && self.measuring.has_room())
                {
                    self.measuring.begin(committed.capture);
                    let _ = self.work.send(Work::Measure(Box::new(committed)));
                }
            }
            Ok(Event::Measured { capture, quality }) => self.measuring.measured(capture, quality),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Tells the receiver that the call is over, until it has answered or will not any more.
    fn close(&mut self, result: &Result<Ended, LiveError>) {
        let began = self.clock.now();
        self.last_feedback_at = Some(began);
        self.call.close(began, if result.is_ok() { CloseReason::Done } else { CloseReason::Failed });
        while !self.call.is_finished() {
            let now = self.clock.now();
            if now.saturating_since(began) >= end_limit(result) || self.timeout_and_transmit(now).is_err() {
                return;
            }
            self.wait_for_event(now, Timestamp::MAX);
        }
    }
}
