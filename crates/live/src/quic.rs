//! QUIC configuration: limits, acknowledgement frequency, and timeouts.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{AckFrequencyConfig, ClientConfig, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac::{HMAC_SHA256, Key};

use crate::LiveError;
use crate::gate::Names;
use crate::http3;
use crate::identity::{Identity, client, random};
use crate::unlimited::Unlimited;
use lockstep_session::ticket::ListenerKey;

/// Assumed round-trip time before the first measurement. The first flight is retransmitted after three times this.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);
/// Streams of a native peer: the control stream, and that of messages.
const NATIVE_STREAMS: [u32; 2] = [1, 1];
/// Receive window in bytes of each stream: the control stream, and that of messages.
const STREAM_WINDOW: u32 = 64 << 10;
/// Bytes of received datagrams that may wait.
const DATAGRAM_BUFFER: usize = 1 << 20;
/// How long an unknown peer may take to show the ticket.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Handshakes of unknown peers, and bytes of their packets, that may wait to be handled.
const MAX_INCOMING: usize = 16;
const INCOMING_BYTES: u64 = 64 << 10;

/// Writer for QUIC's qlog, a JSON text sequence: a header, then one event per packet. The thread of the call writes it,
/// so it must not block.
pub type Qlog = Box<dyn Write + Send + Sync>;

/// Transport configuration of QUIC; times in the log start at `begun`. `streams` may be open at a time in each
/// direction: bidirectional and unidirectional ones.
fn transport(streams: [u32; 2], qlog: Option<(Qlog, Instant)>) -> Result<TransportConfig, LiveError> {
    let mut config = TransportConfig::default();
    // Lockstep acknowledges datagrams itself. QUIC's acknowledgements share their packets.
    let mut acknowledgements = AckFrequencyConfig::default();
    acknowledgements
        .ack_eliciting_threshold(VarInt::from_u32(1_000))
        .max_ack_delay(Some(Duration::from_millis(200)))
        .reordering_threshold(VarInt::from_u32(0));
    config
        .congestion_controller_factory(Arc::new(Unlimited::default()))
        .ack_frequency_config(Some(acknowledgements))
        .initial_rtt(FIRST_ROUND_TRIP)
        // The call itself decides how long a silence may last.
        .max_idle_timeout(None)
        .max_concurrent_bidi_streams(VarInt::from_u32(streams[0]))
        .max_concurrent_uni_streams(VarInt::from_u32(streams[1]))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(2 * STREAM_WINDOW))
        .send_window(2 * u64::from(STREAM_WINDOW))
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER))
        .datagram_send_buffer_size(DATAGRAM_BUFFER)
        .enable_segmentation_offload(false)
        // Observers on the path need no round-trip times; an endpoint may disable the spin bit (RFC 9000, section
        // 17.4).
        .allow_spin(false);
    if let Some((qlog, begun)) = qlog {
        add_log(&mut config, qlog, begun)?;
    }
    Ok(config)
}

/// Makes connections log their packets to `qlog`.
#[cfg(feature = "qlog")]
fn add_log(config: &mut TransportConfig, qlog: Qlog, begun: Instant) -> Result<(), LiveError> {
    let mut log = quinn_proto::QlogConfig::default();
    log.writer(qlog).title(Some("Lockstep".to_owned())).start_time(begun);
    config.qlog_stream(log.into_stream());
    Ok(())
}

/// Refuses the log, since this build lacks the feature.
#[cfg(not(feature = "qlog"))]
fn add_log(_: &mut TransportConfig, _: Qlog, _: Instant) -> Result<(), LiveError> {
    Err(LiveError::NotBuilt("qlog"))
}

fn wrong(error: &dyn std::fmt::Display) -> LiveError {
    LiveError::Identity(error.to_string())
}

/// Derives a key for `purpose` from `seed`.
fn key(seed: &[u8], purpose: &[u8]) -> Result<Key, LiveError> {
    let key = Salt::new(HKDF_SHA256, purpose).extract(seed);
    let mut bytes = [0; 32];
    let filled = key.expand(&[b"key"], HKDF_SHA256).and_then(|expanded| expanded.fill(&mut bytes));
    filled.map_err(|error| wrong(&error))?;
    Ok(Key::new(HMAC_SHA256, &bytes))
}

/// Endpoint configuration. `seed` yields two keys: one for stateless resets, and one for connection identifiers, which
/// hold the number of a `slot` if given.
pub(crate) fn endpoint(seed: &[u8], slot: Option<u8>) -> Result<(Arc<EndpointConfig>, Names), LiveError> {
    let names = Names::new(key(seed, b"lockstep names")?);
    let names = slot.map_or_else(|| names.clone(), |slot| names.of_slot(slot));
    let mut config = EndpointConfig::new(Arc::new(key(seed, b"lockstep reset")?));
    let given = names.clone();
    config.cid_generator(move || Box::new(given.clone()));
    config.rng_seed(Some(random()?));
    Ok((Arc::new(config), names))
}

/// Configuration of a listener.
pub(crate) fn server(identity: &Identity, qlog: Option<(Qlog, Instant)>) -> Result<Arc<ServerConfig>, LiveError> {
    let crypto = QuicServerConfig::try_from(identity.server()?).map_err(|error| wrong(&error))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    // These limits precede the choice of the protocol. The window of the connection bounds what may wait in any case.
    let streams = if identity.admits_browsers() { http3::STREAMS } else { NATIVE_STREAMS };
    config
        .transport_config(Arc::new(transport(streams, qlog)?))
        .migration(true)
        .max_incoming(MAX_INCOMING)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(INCOMING_BYTES * MAX_INCOMING as u64);
    Ok(Arc::new(config))
}

/// Configuration of a joiner, which dials the holder of `key`.
pub(crate) fn dialling(key: &ListenerKey, qlog: Option<(Qlog, Instant)>) -> Result<ClientConfig, LiveError> {
    let crypto = QuicClientConfig::try_from(client(key)?).map_err(|error| wrong(&error))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport(NATIVE_STREAMS, qlog)?));
    Ok(config)
}

/// Configuration of a session that stands in for a page, with the holder of `key`. Received datagrams of at most
/// `waiting` bytes wait for the page; the oldest are dropped.
#[cfg(feature = "web")]
pub(crate) fn standing_in(key: &ListenerKey, waiting: usize) -> Result<ClientConfig, LiveError> {
    let mut tls = client(key)?;
    tls.alpn_protocols = vec![crate::identity::HTTP3.to_vec()];
    let crypto = QuicClientConfig::try_from(tls).map_err(|error| wrong(&error))?;
    let mut transport = transport([0, 1], None)?;
    // The listener's keep-alives are far more frequent.
    transport
        .max_idle_timeout(Some(PATIENCE.try_into().map_err(|error| wrong(&error))?))
        .datagram_receive_buffer_size(Some(waiting));
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok(config)
}
