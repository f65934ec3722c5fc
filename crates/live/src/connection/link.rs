//! QUIC link to the other end of the call, or to a peer that may become it, and its streams.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockstep_units::Timestamp;
use quinn_proto::{Connection, Dir, FrameStats, StreamId, VarInt};

use crate::http3::Session;
use lockstep_session::control::{Message, Messages};
use lockstep_session::messages::{MAX_UNSENT_BYTES, Malformed, ReliableReader};

/// Bytes that may wait for room in the stream.
const MAX_UNWRITTEN_BYTES: usize = 16 << 10;
/// How long a page may take to close its connection after its session was closed. Chromium hides the session's code if
/// QUIC closes within a millisecond of it.
const CLOSE_WAIT: Duration = Duration::from_secs(3);

/// Result of reading the stream.
#[derive(Debug)]
pub(super) enum StreamRead {
    Message(Message),
    Malformed,
    /// A page closed its session with this code.
    Closed(u32),
    Nothing,
}

/// QUIC link to one peer.
pub(super) struct Link {
    pub(super) quic: Connection,
    /// When the link started.
    pub(super) since: Timestamp,
    stream: Option<StreamId>,
    messages: Messages,
    unwritten: Vec<u8>,
    finishing: bool,
    /// Outgoing stream of the application's reliable messages.
    outgoing: Option<StreamId>,
    unsent: VecDeque<u8>,
    /// Incoming stream of the application's reliable messages.
    incoming: Option<StreamId>,
    reader: ReliableReader,
    /// Since when the peer sends although too many packets to it are unacknowledged.
    pub(super) unacknowledging: Option<Timestamp>,
    /// Number of QUIC frames at the last call of [`Self::has_received`].
    frames: u64,
    /// Session of a page in a browser; `None` for a native peer.
    web: Option<Session>,
    /// Whether a datagram was queued since the last call of [`Self::note_datagram`], and when that last was so.
    has_queued: bool,
    datagram_at: Timestamp,
    /// Whether a page acknowledged that its session is closed.
    pub(super) is_acknowledged: bool,
    /// When QUIC closes, and the code, after the page's session was closed.
    closing: Option<(Timestamp, VarInt)>,
}

/// Number of received frames of the kinds that a peer sends in a call. A browser acknowledges packets even if its page
/// no longer runs, so only data of the page counts.
fn count(frames: &FrameStats, is_page: bool) -> u64 {
    let below = if is_page { 0 } else { frames.acks + frames.ping + frames.crypto };
    frames.datagram + frames.stream + below
}

impl Link {
    pub(super) fn new(quic: Connection, since: Timestamp) -> Self {
        Self {
            quic,
            since,
            stream: None,
            messages: Messages::default(),
            unwritten: Vec::new(),
            finishing: false,
            outgoing: None,
            unsent: VecDeque::new(),
            incoming: None,
            reader: ReliableReader::default(),
            unacknowledging: None,
            frames: 0,
            web: None,
            has_queued: false,
            datagram_at: since,
            is_acknowledged: false,
            closing: None,
        }
    }

    /// Starts HTTP/3 if the handshake chose it, at the listener.
    pub(super) fn on_handshake(&mut self) {
        self.web = Session::of(&self.quic);
    }

    /// Whether the peer is a page in a browser.
    pub(super) fn is_page(&self) -> bool {
        self.web.is_some()
    }

    /// Largest datagram that the path is known to carry.
    pub(super) fn largest_datagram(&mut self) -> Option<usize> {
        let largest = self.quic.datagrams().max_size()?;
        Some(largest.saturating_sub(self.web.as_ref().map_or(0, Session::overhead)))
    }

    /// Queues a datagram; the path loses it if it is too large.
    pub(super) fn send_datagram(&mut self, datagram: Vec<u8>) {
        self.has_queued = true;
        let datagram = self.web.as_ref().map_or_else(|| datagram.clone(), |web| web.datagram(&datagram));
        let _ = self.quic.datagrams().send(datagram.into(), true);
    }

    /// The next datagram that arrived.
    pub(super) fn next_datagram(&mut self) -> Option<Bytes> {
        loop {
            let datagram = self.quic.datagrams().recv()?;
            match &self.web {
                None => return Some(datagram),
                Some(web) => {
                    if let Some(payload) = web.payload(datagram) {
                        return Some(payload);
                    }
                }
            }
        }
    }

    /// Records that queued datagrams leave at `now`.
    pub(super) fn note_datagram(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.has_queued) {
            self.datagram_at = now;
        }
    }

    /// When a datagram last left.
    pub(super) fn datagram_at(&self) -> Timestamp {
        self.datagram_at
    }

    /// Closes the link with `code`. A page first gets it in its session, since browsers hide QUIC's code.
    pub(super) fn close(&mut self, at: Timestamp, now: Instant, code: VarInt) {
        if !self.close_session(code) {
            self.quic.close(now, code, Bytes::new());
        } else {
            self.closing.get_or_insert((at + CLOSE_WAIT, code));
        }
    }

    /// Closes the session of a page with `code`; `false` for other peers.
    pub(super) fn close_session(&mut self, code: VarInt) -> bool {
        let code = u32::try_from(code.into_inner()).unwrap_or(u32::MAX);
        self.web.as_mut().is_some_and(|web| web.close(&mut self.quic, code))
    }

    /// Whether the end of `stream`, which the peer acknowledged, shows that the peer knows of the end of the call.
    pub(super) fn is_last(&self, stream: StreamId) -> bool {
        self.web.as_ref().is_none_or(|web| web.is_request(stream))
    }

    /// When [`Self::close_if_due`] must be called.
    pub(super) fn closes_at(&self) -> Option<Timestamp> {
        self.closing.map(|(until, _)| until).filter(|_| !self.quic.is_closed())
    }

    /// Closes QUIC some time after the page's session, unless the page has done so.
    pub(super) fn close_if_due(&mut self, at: Timestamp, now: Instant) {
        if let Some((_, code)) = self.closing.filter(|(until, _)| *until <= at && !self.quic.is_closed()) {
            self.quic.close(now, code, Bytes::new());
        }
    }

    /// Whether an authentic and new packet arrived since the last call. Replayed and forged packets do not count.
    pub(super) fn has_received(&mut self) -> bool {
        let frames = count(&self.quic.stats().frame_rx, self.is_page());
        std::mem::replace(&mut self.frames, frames) != frames
    }

    /// Opens the stream, at the joiner.
    pub(super) fn open(&mut self) {
        self.stream = self.quic.streams().open(Dir::Bi);
    }

    /// Queues a message for the stream. A peer that never reads gets no further messages once the queue is full.
    pub(super) fn send(&mut self, message: &Message) {
        if self.unwritten.len() < MAX_UNWRITTEN_BYTES {
            self.unwritten.extend(message.to_bytes());
        }
        self.write();
    }

    /// Closes the stream after the queued messages.
    pub(super) fn finish(&mut self) {
        self.finishing = true;
        self.write();
    }

    /// Writes as much as the stream has room for.
    pub(super) fn write(&mut self) {
        if let Some(web) = &mut self.web {
            web.write(&mut self.quic);
        }
        let Some(stream) = self.stream else { return };
        while !self.unwritten.is_empty() {
            match self.quic.send_stream(stream).write(&self.unwritten) {
                Ok(written) if written > 0 => drop(self.unwritten.drain(..written)),
                _ => return,
            }
        }
        if std::mem::take(&mut self.finishing) {
            let _ = self.quic.send_stream(stream).finish();
        }
    }

    /// Queues an encoded reliable message.
    ///
    /// # Errors
    /// The number of bytes that already wait, if there is no room.
    pub(super) fn send_reliable(&mut self, message: &[u8]) -> Result<(), usize> {
        if self.unsent.len() + message.len() > MAX_UNSENT_BYTES {
            return Err(self.unsent.len());
        }
        self.unsent.extend(message);
        self.write_reliable();
        Ok(())
    }

    /// Writes the reliable messages that the stream has room for.
    pub(super) fn write_reliable(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        // A page opens the stream of both directions.
        if self.outgoing.is_none() && !self.is_page() {
            self.outgoing = self.quic.streams().open(Dir::Uni);
        }
        let Some(stream) = self.outgoing else { return };
        while !self.unsent.is_empty() {
            let (front, _) = self.unsent.as_slices();
            match self.quic.send_stream(stream).write(front) {
                Ok(written) if written > 0 => drop(self.unsent.drain(..written)),
                _ => return,
            }
        }
    }

    /// The next reliable message that arrived.
    pub(super) fn next_reliable(&mut self) -> Result<Option<(Timestamp, Vec<u8>)>, Malformed> {
        if self.incoming.is_none() && !self.is_page() {
            self.incoming = self.quic.streams().accept(Dir::Uni);
        }
        // Unread bytes stay in the stream, whose flow-control window bounds them.
        if let Some(message) = self.reader.poll()? {
            return Ok(Some(message));
        }
        let Some(stream) = self.incoming else { return Ok(None) };
        let mut receiving = self.quic.recv_stream(stream);
        if let Ok(mut chunks) = receiving.read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.reader.extend(&chunk.bytes);
            }
            let _ = chunks.finalize().should_transmit();
        }
        self.reader.poll()
    }

    /// The next message.
    pub(super) fn next(&mut self) -> StreamRead {
        if self.closing.is_some() {
            return StreamRead::Nothing;
        }
        if let Some(web) = &mut self.web {
            match web.advance(&mut self.quic) {
                Ok(None) => {}
                Ok(Some(code)) => return StreamRead::Closed(code),
                Err(_) => return StreamRead::Malformed,
            }
            let (stream, messages) = web.data_streams();
            if self.stream.is_none() && stream.is_some() {
                self.stream = stream;
                self.write();
            }
            if self.incoming.is_none() && messages.is_some() {
                (self.incoming, self.outgoing) = (messages, messages);
                self.write_reliable();
            }
        } else if self.stream.is_none() {
            self.stream = self.quic.streams().accept(Dir::Bi);
            self.write();
        }
        let Some(stream) = self.stream else { return StreamRead::Nothing };
        let mut receiving = self.quic.recv_stream(stream);
        if let Ok(mut chunks) = receiving.read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.messages.extend(&chunk.bytes);
            }
            // The next packet carries the flow-control update.
            let _ = chunks.finalize().should_transmit();
        }
        match self.messages.poll() {
            Ok(Some(message)) => StreamRead::Message(message),
            Ok(None) => StreamRead::Nothing,
            Err(_) => StreamRead::Malformed,
        }
    }
}
