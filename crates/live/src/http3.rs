//! HTTP/3 and WebTransport on a link of a listener to a page in a browser.
//!
//! The page opens a session by a CONNECT request for `/lockstep`. Then it opens two bidirectional streams: the first
//! carries control messages, the second carries reliable messages of the application. The listener opens no stream
//! that a page sees, because Firefox loses those. A datagram starts with the number of its session.
//!
//! | stream of the page | first bytes | content |
//! |---|---|---|
//! | unidirectional | 0 | settings |
//! | unidirectional | 2 or 3 | QPACK, ignored: no dynamic table |
//! | bidirectional | HEADERS | CONNECT, then capsules |
//! | bidirectional | 0x41, session | control messages |
//! | bidirectional | 0x41, session | messages of the application |
//! | further ones | | reset |

mod parser;
mod stand_in;

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};
use web_transport_proto::http::StatusCode;
use web_transport_proto::{ConnectResponse, Settings, VarInt as Integer};

use crate::identity::HTTP3;
pub(crate) use parser::Malformed;
#[doc(hidden)]
pub use parser::read_streams;
use parser::{ControlStream, Purpose, RequestEvent, RequestStream, Start};
pub use stand_in::{PageData, PageSession, PageSessions};

/// Streams of a page that may be open at a time. Bidirectional: CONNECT, control messages, messages of the application,
/// and one that is being reset. Unidirectional: settings, two of QPACK, and three that are being reset.
pub(crate) const STREAMS: [u32; 2] = [4, 6];
/// Streams of a session that carry data.
const DATA_STREAMS: usize = 2;
/// H3_STREAM_CREATION_ERROR and H3_REQUEST_REJECTED (RFC 9114, section 8.1).
const UNKNOWN_STREAM: u32 = 0x103;
const REJECTED: u32 = 0x10b;

/// Bytes for a stream of the listener.
struct Unwritten {
    stream: StreamId,
    bytes: Vec<u8>,
    is_last: bool,
}

/// HTTP/3 connection with at most one WebTransport session.
#[derive(Default)]
pub(crate) struct Session {
    /// Streams whose purpose is not known yet, in the order of their numbers.
    bidirectional: VecDeque<(StreamId, Start)>,
    unidirectional: Vec<(StreamId, Start)>,
    control: Option<(StreamId, ControlStream)>,
    qpack: Vec<StreamId>,
    request: Option<(StreamId, RequestStream)>,
    /// Whether the request was accepted.
    is_open: bool,
    data: Vec<StreamId>,
    has_settings: bool,
    unwritten: VecDeque<Unwritten>,
}

/// State of a stream after reading.
#[derive(PartialEq, Eq)]
enum Left {
    Open,
    Ended,
}

/// Reads all chunks of at most `longest` bytes that wait in a stream, until `take` returns `false`.
fn read(quic: &mut Connection, stream: StreamId, longest: usize, mut take: impl FnMut(&[u8]) -> bool) -> Left {
    let mut receiving = quic.recv_stream(stream);
    let Ok(mut chunks) = receiving.read(true) else { return Left::Ended };
    let left = loop {
        match chunks.next(longest) {
            Ok(Some(chunk)) if take(&chunk.bytes) => {}
            Ok(Some(_)) | Err(ReadError::Blocked) => break Left::Open,
            Ok(None) | Err(ReadError::Reset(_)) => break Left::Ended,
        }
    };
    // The next packet carries the flow-control update.
    let _ = chunks.finalize().should_transmit();
    left
}

fn reset(quic: &mut Connection, stream: StreamId, code: u32) {
    let code = VarInt::from_u32(code);
    let _ = quic.recv_stream(stream).stop(code);
    if stream.dir() == Dir::Bi {
        let _ = quic.send_stream(stream).reset(code);
    }
}

impl Session {
    /// The session of a link whose handshake chose HTTP/3; `None` for other links.
    pub(crate) fn of(quic: &Connection) -> Option<Self> {
        let data = quic.crypto_session().handshake_data()?.downcast::<HandshakeData>().ok()?;
        (data.protocol.as_deref() == Some(HTTP3)).then(Self::default)
    }

    /// Reads all streams but those of data. Returns the code with which the page closed the session, if it did.
    ///
    /// # Errors
    /// The page breaks the protocol.
    pub(crate) fn advance(&mut self, quic: &mut Connection) -> Result<Option<u32>, Malformed> {
        self.send_settings(quic);
        while let Some(stream) = quic.streams().accept(Dir::Bi) {
            self.bidirectional.push_back((stream, Start::default()));
        }
        while let Some(stream) = quic.streams().accept(Dir::Uni) {
            self.unidirectional.push((stream, Start::default()));
        }
        self.start_bidirectional(quic)?;
        self.start_unidirectional(quic)?;
        if let Some((stream, control)) = &mut self.control {
            let mut result = Ok(());
            read(quic, *stream, usize::MAX, |bytes| {
                result = control.extend(bytes);
                result.is_ok()
            });
            result?;
        }
        for &stream in &self.qpack {
            read(quic, stream, usize::MAX, |_| true);
        }
        let closed = self.read_request(quic)?;
        self.write(quic);
        Ok(closed)
    }

    fn send_settings(&mut self, quic: &mut Connection) {
        if self.has_settings {
            return;
        }
        // A browser permits the stream once its transport parameters have arrived.
        let Some(stream) = quic.streams().open(Dir::Uni) else { return };
        let (mut settings, mut bytes) = (Settings::default(), Vec::new());
        settings.enable_webtransport(1);
        settings.encode(&mut bytes);
        self.unwritten.push_back(Unwritten { stream, bytes, is_last: false });
        self.has_settings = true;
    }

    /// Assigns the bidirectional streams. A stream waits for those before it, since their order gives their meaning.
    fn start_bidirectional(&mut self, quic: &mut Connection) -> Result<(), Malformed> {
        while let Some((stream, start)) = self.bidirectional.front_mut() {
            let stream = *stream;
            let mut purpose = None;
            let left = read(quic, stream, 1, |byte| {
                purpose = start.bidirectional(byte[0]);
                purpose.is_none()
            });
            match purpose {
                None if left == Left::Open => return Ok(()),
                None => {}
                Some(Purpose::Request) if self.request.is_none() => {
                    let mut request = RequestStream::default();
                    request.extend(start.bytes());
                    self.request = Some((stream, request));
                }
                Some(Purpose::Request) => reset(quic, stream, REJECTED),
                Some(Purpose::Data(session)) => {
                    if self.session() != Some(session) {
                        return Err(Malformed);
                    }
                    if self.data.len() < DATA_STREAMS {
                        self.data.push(stream);
                    } else {
                        reset(quic, stream, REJECTED);
                    }
                }
                Some(_) => reset(quic, stream, UNKNOWN_STREAM),
            }
            self.bidirectional.pop_front();
        }
        Ok(())
    }

    fn start_unidirectional(&mut self, quic: &mut Connection) -> Result<(), Malformed> {
        for (stream, mut start) in std::mem::take(&mut self.unidirectional) {
            let mut purpose = None;
            let left = read(quic, stream, 1, |byte| {
                purpose = start.unidirectional(byte[0]);
                purpose.is_none()
            });
            match purpose {
                None if left == Left::Open => self.unidirectional.push((stream, start)),
                None => {}
                Some(Purpose::Control) if self.control.is_some() => return Err(Malformed),
                Some(Purpose::Control) => self.control = Some((stream, ControlStream::default())),
                Some(Purpose::Qpack) if self.qpack.len() < 2 => self.qpack.push(stream),
                Some(_) => reset(quic, stream, UNKNOWN_STREAM),
            }
        }
        Ok(())
    }

    fn read_request(&mut self, quic: &mut Connection) -> Result<Option<u32>, Malformed> {
        let Some((stream, request)) = &mut self.request else { return Ok(None) };
        let (mut events, mut result) = (Vec::new(), Ok(()));
        let left = read(quic, *stream, usize::MAX, |bytes| {
            request.extend(bytes);
            while result.is_ok() {
                match request.next() {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(malformed) => result = Err(malformed),
                }
            }
            result.is_ok()
        });
        result?;
        let stream = *stream;
        let mut closed = None;
        for event in events {
            match event {
                RequestEvent::Connect { is_found } => {
                    self.is_open = is_found;
                    let status = if is_found { StatusCode::OK } else { StatusCode::NOT_FOUND };
                    let mut bytes = Vec::new();
                    ConnectResponse::new(status).encode(&mut bytes).map_err(|_| Malformed)?;
                    self.unwritten.push_back(Unwritten { stream, bytes, is_last: !is_found });
                }
                RequestEvent::Close(code) => closed = Some(code),
            }
        }
        // A stream that was read to its end is gone, so this happens once.
        let has_ended = left == Left::Ended && std::mem::take(&mut self.is_open);
        Ok(closed.or(has_ended.then_some(0)))
    }

    /// Writes as much as the streams have room for.
    pub(crate) fn write(&mut self, quic: &mut Connection) {
        self.unwritten.retain_mut(|Unwritten { stream, bytes, is_last }| {
            let mut sending = quic.send_stream(*stream);
            while !bytes.is_empty() {
                match sending.write(bytes) {
                    Ok(written) if written > 0 => drop(bytes.drain(..written)),
                    Err(quinn_proto::WriteError::Blocked) | Ok(_) => return true,
                    Err(_) => return false,
                }
            }
            if *is_last {
                let _ = sending.finish();
            }
            false
        });
    }

    /// The session's number, which is that of the stream of its request.
    fn session(&self) -> Option<u64> {
        self.request.as_ref().map(|(stream, _)| u64::from(VarInt::from(*stream)))
    }

    /// The stream of control messages, and that of the application's messages, once open.
    pub(crate) fn data_streams(&self) -> (Option<StreamId>, Option<StreamId>) {
        let data = if self.is_open { &self.data[..] } else { &[] };
        (data.first().copied(), data.get(1).copied())
    }

    /// Closes the session with a capsule; `false` if there is no session. The page closes the connection afterwards.
    pub(crate) fn close(&mut self, quic: &mut Connection, code: u32) -> bool {
        let Some((stream, _)) = self.request.as_ref().filter(|_| self.is_open) else { return false };
        self.unwritten.push_back(Unwritten { stream: *stream, bytes: parser::close(code), is_last: true });
        self.is_open = false;
        self.write(quic);
        true
    }

    /// Whether `stream` is that of the request, on which the capsule that closes the session travels.
    pub(crate) fn is_request(&self, stream: StreamId) -> bool {
        self.request.as_ref().is_some_and(|(request, _)| *request == stream)
    }

    /// Prefix of the session's datagrams (RFC 9297, section 2.1).
    fn prefix(&self) -> Vec<u8> {
        let mut prefix = Vec::new();
        Integer::from_u64(self.session().unwrap_or(0) / 4).unwrap_or_default().encode(&mut prefix);
        prefix
    }

    /// Bytes that a datagram of the session needs beyond its payload.
    pub(crate) fn overhead(&self) -> usize {
        self.prefix().len()
    }

    /// The datagram that carries `payload` in the session.
    pub(crate) fn datagram(&self, payload: &[u8]) -> Vec<u8> {
        let mut datagram = self.prefix();
        datagram.extend(payload);
        datagram
    }

    /// The payload of a datagram of the session; `None` for other datagrams.
    pub(crate) fn payload(&self, mut datagram: Bytes) -> Option<Bytes> {
        let mut rest = &datagram[..];
        let number = Integer::decode(&mut rest).ok()?.into_inner();
        let prefix = datagram.len() - rest.len();
        (self.session()? / 4 == number).then(|| {
            datagram.advance(prefix);
            datagram
        })
    }
}
