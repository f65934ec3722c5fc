//! Session that stands in for a page without WebTransport.
//!
//! The page sends by a WebSocket what others send by WebTransport. A program on the listener's machine passes it on in
//! a separate session, over loopback. So the listener has one kind of page, and the same limits and checks for all.
//!
//! ```text
//!  page <-- WebSocket --> driver <-- PageSession --> UDP on loopback <--> listener
//! ```
//!
//! [`PageSession`] reads no clock and owns no socket. Its driver passes in datagrams and the time, and sends what
//! [`PageSession::poll_transmit`] returns. Datagrams of the listener wait in QUIC until [`PageSession::poll`] takes them;
//! when too many wait, QUIC drops the oldest.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    StreamId, VarInt,
};
use web_transport_proto::{ConnectRequest, Frame, Settings, VarInt as Integer};

use super::parser::{self, ResponseStream};
use super::{Left, read};
use crate::LiveError;
use crate::identity::Identity;
use crate::quic::standing_in;

/// Most bytes in one item of [`PageData`].
const MAX_CHUNK: usize = 16 << 10;
/// Control messages and messages of the application.
const STREAMS: usize = 2;

fn failed(error: &dyn std::fmt::Display) -> LiveError {
    LiveError::Identity(error.to_string())
}

/// Opens sessions with one listener.
#[derive(Debug, Clone)]
pub struct PageSessions {
    config: ClientConfig,
    to: SocketAddr,
}

/// Data of a session, in either direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageData {
    /// Bytes of the stream of control messages.
    Control(Bytes),
    /// A datagram.
    Datagram(Bytes),
    /// Bytes of the stream of the application's messages.
    Messages(Bytes),
    /// The end of the session, with its code. Nothing follows.
    Closed(u32),
}

/// Session with a listener.
pub struct PageSession {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quic: Connection,
    to: SocketAddr,
    /// Stream of the request, once connected.
    request: Option<StreamId>,
    response: ResponseStream,
    /// Streams of data, and what they have no room for yet.
    streams: [Option<StreamId>; STREAMS],
    unwritten: [Vec<u8>; STREAMS],
    /// Code with which the page closed the session.
    closing: Option<u32>,
    /// Code with which the listener closed the session.
    closed: Option<u32>,
    is_over: bool,
}

impl PageSessions {
    /// Bytes of datagrams of the listener that wait for a page. With more, the oldest are dropped.
    pub const MAX_WAITING_BYTES: usize = 64 << 10;

    pub(crate) fn new(identity: &Identity, to: SocketAddr) -> Result<Self, LiveError> {
        Ok(Self { config: standing_in(&identity.key(), Self::MAX_WAITING_BYTES)?, to })
    }

    /// Address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.to
    }

    /// Opens a session.
    ///
    /// # Errors
    /// The address is not one that can be dialled.
    pub fn open(&self, now: Instant) -> Result<PageSession, LiveError> {
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let connected = endpoint.connect(now, self.config.clone(), self.to, &self.to.ip().to_string());
        let (handle, quic) = connected.map_err(|error| failed(&error))?;
        Ok(PageSession {
            endpoint,
            handle,
            quic,
            to: self.to,
            request: None,
            response: ResponseStream::default(),
            streams: [None; STREAMS],
            unwritten: Default::default(),
            closing: None,
            closed: None,
            is_over: false,
        })
    }
}

impl PageSession {
    /// Handles a datagram of the listener.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) {
        let mut buffer = Vec::new();
        let handled = self.endpoint.handle(now, self.to, None, None, BytesMut::from(datagram), &mut buffer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = handled {
            self.quic.handle_event(event);
        }
        self.follow();
    }

    /// When [`Self::handle_timeout`] must be called.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.quic.poll_timeout()
    }

    /// Handles the timeouts that are due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.quic.poll_timeout().is_some_and(|due| due <= now) {
            self.quic.handle_timeout(now);
        }
        self.follow();
    }

    /// Writes the next datagram for the listener to `buffer`; `false` if there is none.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> bool {
        buffer.clear();
        self.write();
        self.quic.poll_transmit(now, 1, buffer).is_some()
    }

    /// Sends data of the page; a stream passes it on when it has room.
    pub fn send(&mut self, now: Instant, data: PageData) {
        if self.closing.is_some() {
            return;
        }
        match data {
            PageData::Control(bytes) => self.unwritten[0].extend(&bytes),
            PageData::Messages(bytes) => self.unwritten[1].extend(&bytes),
            PageData::Datagram(bytes) => {
                if self.request.is_some() {
                    let mut datagram = self.prefix();
                    datagram.extend(&bytes);
                    // The path loses it if it is too large.
                    let _ = self.quic.datagrams().send(datagram.into(), true);
                }
            }
            PageData::Closed(_) if self.request.is_none() => self.end(now),
            PageData::Closed(code) => self.closing = Some(code),
        }
        self.write();
    }

    /// Whether the streams had room for all data. Otherwise the driver should take no more from the page.
    pub fn has_room(&self) -> bool {
        self.unwritten.iter().all(Vec::is_empty)
    }

    /// The next data for the page. Datagrams precede messages of the application.
    pub fn poll(&mut self) -> Option<PageData> {
        if let Some(bytes) = self.read_stream(0) {
            return Some(PageData::Control(bytes));
        }
        while let Some(mut datagram) = self.quic.datagrams().recv() {
            let prefix = self.prefix();
            if datagram.starts_with(&prefix) {
                return Some(PageData::Datagram(datagram.split_off(prefix.len())));
            }
        }
        if let Some(bytes) = self.read_stream(1) {
            return Some(PageData::Messages(bytes));
        }
        self.closed.take().map(PageData::Closed)
    }

    /// Whether the connection has ended.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends the connection at once.
    pub fn end(&mut self, now: Instant) {
        if !self.quic.is_closed() {
            self.quic.close(now, VarInt::from_u32(0), Bytes::new());
        }
        self.is_over = true;
    }

    /// Handles what QUIC reports.
    fn follow(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.connect(),
                Event::ConnectionLost { reason } => {
                    if let ConnectionError::ApplicationClosed(close) = reason {
                        self.closed = self.closed.or(u32::try_from(close.error_code.into_inner()).ok());
                    }
                    self.is_over = true;
                }
                _ => {}
            }
        }
        while let Some(settings) = self.quic.streams().accept(Dir::Uni) {
            // Everything that they could change is fixed.
            let _ = self.quic.recv_stream(settings).stop(VarInt::from_u32(0));
        }
        let Some(request) = self.request else { return };
        let (response, closed) = (&mut self.response, &mut self.closed);
        let left = read(&mut self.quic, request, usize::MAX, |bytes| match response.extend(bytes) {
            Ok(code) => {
                *closed = code.or(*closed);
                true
            }
            Err(_) => false,
        });
        self.is_over |= left == Left::Ended && self.closed.is_none() && self.closing.is_none();
    }

    /// Opens the streams of a session.
    fn connect(&mut self) {
        let (mut settings, mut bytes) = (Settings::default(), Vec::new());
        settings.enable_webtransport(1);
        settings.encode(&mut bytes);
        self.open(Dir::Uni, &bytes);
        bytes.clear();
        let request = format!("https://{}{}", self.to, parser::PATH).parse::<url::Url>().map(ConnectRequest::new);
        let is_encoded = request.is_ok_and(|request| request.encode(&mut bytes).is_ok());
        self.request = self.open(Dir::Bi, &bytes).filter(|_| is_encoded);
        let Some(session) = self.request else { return self.is_over = true };
        bytes.clear();
        Frame::WEBTRANSPORT.encode(&mut bytes);
        Integer::from_u64(VarInt::from(session).into_inner()).unwrap_or_default().encode(&mut bytes);
        for place in 0..STREAMS {
            self.streams[place] = self.open(Dir::Bi, &bytes);
        }
    }

    /// Opens a stream with its first bytes, for which the listener always has room.
    fn open(&mut self, dir: Dir, bytes: &[u8]) -> Option<StreamId> {
        let stream = self.quic.streams().open(dir)?;
        self.quic.send_stream(stream).write(bytes).ok().filter(|&written| written == bytes.len())?;
        Some(stream)
    }

    /// Writes as much as the streams have room for, and then the end of the session.
    fn write(&mut self) {
        for (stream, bytes) in self.streams.iter().zip(&mut self.unwritten) {
            let Some(stream) = stream else { return };
            while !bytes.is_empty() {
                match self.quic.send_stream(*stream).write(bytes) {
                    Ok(written) if written > 0 => drop(bytes.drain(..written)),
                    Err(quinn_proto::WriteError::Blocked) | Ok(_) => break,
                    // The listener ends the session.
                    Err(_) => bytes.clear(),
                }
            }
        }
        if let (Some(code), Some(request), true) = (self.closing, self.request, self.has_room()) {
            let mut sending = self.quic.send_stream(request);
            // Later calls fail, since the stream has ended.
            if sending.write(&parser::close(code)).is_ok() {
                let _ = sending.finish();
            }
        }
    }

    fn read_stream(&mut self, place: usize) -> Option<Bytes> {
        let mut taken = None;
        read(&mut self.quic, self.streams[place]?, MAX_CHUNK, |bytes| {
            taken = Some(Bytes::copy_from_slice(bytes));
            false
        });
        taken
    }

    /// Prefix of the session's datagrams.
    fn prefix(&self) -> Vec<u8> {
        let session = self.request.map_or(0, |stream| VarInt::from(stream).into_inner());
        let mut prefix = Vec::new();
        Integer::from_u64(session / 4).unwrap_or_default().encode(&mut prefix);
        prefix
    }
}
