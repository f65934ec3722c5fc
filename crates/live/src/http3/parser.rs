//! Parsers of HTTP/3 streams. They hold few bytes, whatever arrives.

use web_transport_proto::{Capsule, CapsuleError, ConnectRequest, Frame, Settings, StreamUni, VarInt};

/// Path of the CONNECT request.
pub(super) const PATH: &str = "/lockstep";
/// Longest frame of a known type, and longest capsule, in bytes. Browsers send some hundred.
const MAX_BYTES: usize = 16 << 10;

/// The peer breaks the protocol or exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The variable-length integer at the start of `bytes`, which advance beyond it; `None` if it is incomplete.
fn integer(bytes: &mut &[u8]) -> Option<VarInt> {
    let mut rest = *bytes;
    let integer = VarInt::decode(&mut rest).ok()?;
    *bytes = rest;
    Some(integer)
}

/// A frame with its header.
pub(super) fn frame(kind: Frame, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 2 * VarInt::MAX_SIZE);
    kind.encode(&mut bytes);
    VarInt::from_u32(payload.len() as u32).encode(&mut bytes);
    bytes.extend(payload);
    bytes
}

/// Purpose of a stream, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A request, whose first frame has begun.
    Request,
    /// Data of the WebTransport session with this number.
    Data(u64),
    /// Settings.
    Control,
    /// Instructions for QPACK's dynamic table, which is not used.
    Qpack,
    /// Any other purpose.
    Unknown,
}

/// Reads the first bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Start {
    bytes: Vec<u8>,
}

impl Start {
    /// Appends the next byte of a bidirectional stream; returns its purpose once known.
    pub(super) fn bidirectional(&mut self, byte: u8) -> Option<Purpose> {
        self.bytes.push(byte);
        let mut rest = &self.bytes[..];
        match Frame(integer(&mut rest)?) {
            Frame::WEBTRANSPORT => Some(Purpose::Data(integer(&mut rest)?.into_inner())),
            kind if kind == Frame::HEADERS || kind.is_grease() => Some(Purpose::Request),
            _ => Some(Purpose::Unknown),
        }
    }

    /// Appends the next byte of a unidirectional stream; returns its purpose once known.
    pub(super) fn unidirectional(&mut self, byte: u8) -> Option<Purpose> {
        self.bytes.push(byte);
        Some(match StreamUni(integer(&mut &self.bytes[..])?) {
            StreamUni::CONTROL => Purpose::Control,
            StreamUni::QPACK_ENCODER | StreamUni::QPACK_DECODER => Purpose::Qpack,
            _ => Purpose::Unknown,
        })
    }

    /// The bytes so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Splits a stream into frames of known types; others are skipped without being held.
#[derive(Debug, Default)]
struct Frames {
    waiting: Vec<u8>,
    skipping: u64,
}

impl Frames {
    fn extend(&mut self, bytes: &[u8]) {
        let skipped = self.skipping.min(bytes.len() as u64);
        self.skipping -= skipped;
        self.waiting.extend(&bytes[skipped as usize..]);
    }

    fn next(&mut self) -> Result<Option<(Frame, Vec<u8>)>, Malformed> {
        loop {
            let mut rest = &self.waiting[..];
            let (Some(kind), Some(length)) = (integer(&mut rest), integer(&mut rest)) else { return Ok(None) };
            let (kind, length, header) = (Frame(kind), length.into_inner(), self.waiting.len() - rest.len());
            if ![Frame::DATA, Frame::HEADERS, Frame::SETTINGS].contains(&kind) {
                let skipped = length.min(rest.len() as u64);
                self.skipping = length - skipped;
                self.waiting.drain(..header + skipped as usize);
                continue;
            }
            let length = usize::try_from(length).ok().filter(|&length| length <= MAX_BYTES).ok_or(Malformed)?;
            let Some(payload) = rest.get(..length) else { return Ok(None) };
            let payload = payload.to_vec();
            self.waiting.drain(..header + length);
            return Ok(Some((kind, payload)));
        }
    }
}

/// Event of a request stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestEvent {
    /// CONNECT for WebTransport, to [`PATH`] or elsewhere.
    Connect { is_found: bool },
    /// The page closed the session with this code.
    Close(u32),
}

/// Stream of a CONNECT request, and of the capsules after it.
#[derive(Debug, Default)]
pub(super) struct RequestStream {
    frames: Frames,
    capsules: Vec<u8>,
    is_connected: bool,
}

impl RequestStream {
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.frames.extend(bytes);
    }

    /// The next event.
    pub(super) fn next(&mut self) -> Result<Option<RequestEvent>, Malformed> {
        loop {
            let mut rest = &self.capsules[..];
            match Capsule::decode(&mut rest) {
                Ok(capsule) => {
                    let length = self.capsules.len() - rest.len();
                    self.capsules.drain(..length);
                    if let Capsule::CloseWebTransportSession { code, .. } = capsule {
                        return Ok(Some(RequestEvent::Close(code)));
                    }
                    continue;
                }
                Err(CapsuleError::UnexpectedEnd | CapsuleError::VarInt(_)) if self.capsules.len() <= MAX_BYTES => {}
                Err(_) => return Err(Malformed),
            }
            match self.frames.next()? {
                None => return Ok(None),
                Some((Frame::HEADERS, fields)) if !self.is_connected => {
                    let request = ConnectRequest::decode(&mut &frame(Frame::HEADERS, &fields)[..]);
                    self.is_connected = true;
                    let is_found = request.map_err(|_| Malformed)?.url.path() == PATH;
                    return Ok(Some(RequestEvent::Connect { is_found }));
                }
                Some((Frame::DATA, bytes)) if self.is_connected => self.capsules.extend(bytes),
                Some(_) => return Err(Malformed),
            }
        }
    }
}

/// Stream of the answer to a CONNECT request, and of the capsules after it.
#[derive(Debug, Default)]
pub(super) struct ResponseStream(Frames);

impl ResponseStream {
    /// Appends bytes; returns the code with which the listener closed the session, if it did.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Result<Option<u32>, Malformed> {
        self.0.extend(bytes);
        while let Some((kind, payload)) = self.0.next()? {
            if kind == Frame::DATA
                && let Ok(Capsule::CloseWebTransportSession { code, .. }) = Capsule::decode(&mut &payload[..])
            {
                return Ok(Some(code));
            }
        }
        Ok(None)
    }
}

/// Control stream, after its type: settings first, then frames that need no answer.
#[derive(Debug, Default)]
pub(super) struct ControlStream {
    frames: Frames,
    has_settings: bool,
}

impl ControlStream {
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.frames.extend(bytes);
        while let Some((kind, payload)) = self.frames.next()? {
            if kind != Frame::SETTINGS || std::mem::replace(&mut self.has_settings, true) {
                return Err(Malformed);
            }
            let mut bytes = Vec::new();
            StreamUni::CONTROL.encode(&mut bytes);
            bytes.extend(frame(Frame::SETTINGS, &payload));
            Settings::decode(&mut &bytes[..]).map_err(|_| Malformed)?;
        }
        Ok(())
    }
}

/// Reads each stream of HTTP/3 in `parts`, for the fuzzer: few bytes may wait.
#[doc(hidden)]
pub fn read_streams<'a>(parts: impl Iterator<Item = &'a [u8]> + Clone) {
    let (mut bidirectional, mut unidirectional) = (Start::default(), Start::default());
    for &byte in parts.clone().flatten() {
        if bidirectional.bidirectional(byte).is_some() {
            break;
        }
        assert!(bidirectional.bytes.len() < 2 * VarInt::MAX_SIZE);
    }
    for &byte in parts.clone().flatten() {
        if unidirectional.unidirectional(byte).is_some() {
            break;
        }
        assert!(unidirectional.bytes.len() < VarInt::MAX_SIZE);
    }
    let (mut request, mut control) = (RequestStream::default(), ControlStream::default());
    let mut refused = [false; 2];
    for part in parts {
        if !refused[0] {
            request.extend(part);
            while let Some(event) = request.next().unwrap_or_else(|_| {
                refused[0] = true;
                None
            }) {
                assert!(request.is_connected, "{event:?}");
            }
            assert!(refused[0] || request.frames.waiting.len() <= MAX_BYTES + 2 * VarInt::MAX_SIZE);
            assert!(refused[0] || request.capsules.len() <= MAX_BYTES);
        }
        refused[1] = refused[1] || control.extend(part).is_err();
        assert!(refused[1] || control.frames.waiting.len() <= MAX_BYTES + 2 * VarInt::MAX_SIZE);
    }
}

/// DATA frame with the capsule that closes a session.
pub(super) fn close(code: u32) -> Vec<u8> {
    let mut capsule = Vec::new();
    Capsule::CloseWebTransportSession { code, reason: String::new() }.encode(&mut capsule);
    frame(Frame::DATA, &capsule)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn events(bytes: &[u8], cut: usize) -> Result<Vec<RequestEvent>, Malformed> {
        let (mut stream, mut events) = (RequestStream::default(), Vec::new());
        for part in bytes.chunks(cut) {
            stream.extend(part);
            while let Some(event) = stream.next()? {
                events.push(event);
            }
        }
        Ok(events)
    }

    fn connect(link: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let link: url::Url = link.parse().expect("a link");
        ConnectRequest::new(link).encode(&mut bytes).expect("it is short");
        bytes
    }

    /// A request as browsers send it.
    fn request() -> Vec<u8> {
        connect("https://192.0.2.7:4600/lockstep")
    }

    /// Settings as browsers send them, after the type of the stream.
    fn settings() -> Vec<u8> {
        let (mut settings, mut bytes) = (Settings::default(), Vec::new());
        settings.enable_webtransport(1);
        settings.encode(&mut bytes);
        bytes.split_off(1)
    }

    #[test]
    fn request_and_close_survive_any_cut_of_the_stream() {
        let grease = frame(Frame(VarInt::from_u32(0x21)), &[7; 40_000]);
        let bytes = [&grease[..], &request(), &close(0)].concat();
        for cut in [1, 2, 3, 7, 100, 1_000, bytes.len()] {
            let expected = vec![RequestEvent::Connect { is_found: true }, RequestEvent::Close(0)];
            assert_eq!(events(&bytes, cut), Ok(expected), "{cut}");
        }
    }

    #[test]
    fn seeds_of_the_fuzzer_are_read() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/web");
        let seed = |name| std::fs::read(root.join(name)).expect("the fuzzer's example `seeds` writes it").split_off(1);
        let expected = vec![RequestEvent::Connect { is_found: true }, RequestEvent::Close(0)];
        assert_eq!(events(&seed("request"), 40), Ok(expected));
        assert_eq!(ControlStream::default().extend(&seed("settings")), Ok(()));
    }

    #[test]
    fn capsule_split_over_frames_is_read() {
        let mut bytes = request();
        let mut capsule = Vec::new();
        Capsule::CloseWebTransportSession { code: 65_539, reason: "bye".to_owned() }.encode(&mut capsule);
        bytes.extend(capsule.chunks(2).flat_map(|part| frame(Frame::DATA, part)));
        let expected = vec![RequestEvent::Connect { is_found: true }, RequestEvent::Close(65_539)];
        assert_eq!(events(&bytes, 5), Ok(expected));
    }

    #[test]
    fn frames_out_of_order_and_too_long_are_refused() {
        let long = [&[1, 0x80, 1, 0, 0][..], &[0; 10]].concat();
        let early = close(0);
        let twice = [request(), request()].concat();
        for bytes in [long, early, twice] {
            assert_eq!(events(&bytes, 9), Err(Malformed), "{bytes:?}");
        }
        let mut stream = ControlStream::default();
        assert_eq!(stream.extend(&settings()), Ok(()));
        assert_eq!(stream.extend(&settings()), Err(Malformed), "they come once");
        assert_eq!(ControlStream::default().extend(&request()), Err(Malformed));
    }

    #[test]
    fn request_for_another_path_is_not_found() {
        let bytes = connect("https://192.0.2.7/other");
        assert_eq!(events(&bytes, 100), Ok(vec![RequestEvent::Connect { is_found: false }]));
    }

    #[test]
    fn purpose_is_known_from_the_first_bytes() {
        let bidirectional = |bytes: &[u8]| {
            let mut start = Start::default();
            bytes.iter().find_map(|&byte| start.bidirectional(byte))
        };
        assert_eq!(bidirectional(&[1, 9]), Some(Purpose::Request));
        assert_eq!(bidirectional(&[0x40, 0x41, 0]), Some(Purpose::Data(0)));
        assert_eq!(bidirectional(&[0x40, 0x41]), None);
        assert_eq!(bidirectional(&[4]), Some(Purpose::Unknown));
        let unidirectional = |byte| Start::default().unidirectional(byte);
        assert_eq!([0, 1, 2, 3].map(unidirectional).map(Option::unwrap), {
            [Purpose::Control, Purpose::Unknown, Purpose::Qpack, Purpose::Qpack]
        });
    }

    proptest! {
        #[test]
        fn any_streams_are_read_or_refused_in_bounded_memory(parts in vec(vec(any::<u8>(), 0..400), 0..20)) {
            read_streams(parts.iter().map(Vec::as_slice));
        }

        #[test]
        fn any_change_of_a_request_is_read_or_refused(
            place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 1_usize..200,
        ) {
            let mut bytes = [request(), close(0)].concat();
            let place = place.index(bytes.len());
            bytes[place] = byte;
            read_streams(bytes.chunks(cut));
        }
    }
}
