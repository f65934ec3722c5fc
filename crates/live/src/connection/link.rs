//! QUIC link to the other end of the call, or to a peer that may become it, and its streams.

use std::collections::VecDeque;

use lockstep_units::Timestamp;
use quinn_proto::{Connection, Dir, FrameStats, StreamId};

use lockstep_session::control::{Message, Messages};
use lockstep_session::messages::{MAX_UNSENT_BYTES, Malformed, ReliableReader};

/// Bytes that may wait for room in the stream.
const MAX_UNWRITTEN_BYTES: usize = 16 << 10;

/// Result of reading the stream.
#[derive(Debug)]
pub(super) enum StreamRead {
    Message(Message),
    Malformed,
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
    /// Number of QUIC frames at the last call of [`Self::has_received`].
    frames: u64,
}

/// Number of received frames of the kinds that a peer sends in a call.
fn count(frames: &FrameStats) -> u64 {
    frames.datagram + frames.acks + frames.ping + frames.stream + frames.crypto
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
            frames: 0,
        }
    }

    /// Whether an authentic and new packet arrived since the last call. Replayed and forged packets do not count.
    pub(super) fn has_received(&mut self) -> bool {
        let frames = count(&self.quic.stats().frame_rx);
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
        if self.outgoing.is_none() {
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
        if self.incoming.is_none() {
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
        if self.stream.is_none() {
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
