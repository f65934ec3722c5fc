//! How QUIC is set up: what is bounded, how often it acknowledges, when it gives up.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{AckFrequencyConfig, ClientConfig, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac::{HMAC_SHA256, Key};

use crate::LiveError;
use crate::gate::Names;
use crate::identity::{Identity, client, random};
use crate::ticket::PublicKey;
use crate::unlimited::Unlimited;

/// The round-trip time that is assumed before one was measured: the first flight is sent again after three times that.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);
/// Bytes of each stream that a peer may send before they are read: the stream of the call, and that of messages.
const STREAM_WINDOW: u32 = 64 << 10;
/// Bytes of received datagrams that may wait.
const DATAGRAM_BUFFER: usize = 1 << 20;
/// Handshakes of strangers that are held before the owner has looked at them, and their packets.
const MOST_INCOMING: usize = 16;
const INCOMING_BYTES: u64 = 64 << 10;

/// Where QUIC writes its qlog, JSON text sequences: a header first, then an event for each packet. It is written from the
/// call's own thread, and so must not wait.
pub type Qlog = Box<dyn Write + Send + Sync>;

/// How connections are set up; those with a log count its times from `begun`.
fn transport(qlog: Option<(Qlog, Instant)>) -> Result<Arc<TransportConfig>, LiveError> {
    let mut config = TransportConfig::default();
    // Lockstep acknowledges datagrams itself. QUIC's acknowledgements ride along with those.
    let mut acknowledgements = AckFrequencyConfig::default();
    acknowledgements
        .ack_eliciting_threshold(VarInt::from_u32(1_000))
        .max_ack_delay(Some(Duration::from_millis(200)))
        .reordering_threshold(VarInt::from_u32(0));
    config
        .congestion_controller_factory(Arc::new(Unlimited))
        .ack_frequency_config(Some(acknowledgements))
        .initial_rtt(FIRST_ROUND_TRIP)
        // How long a silence is borne is the call's to say.
        .max_idle_timeout(None)
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(1))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(2 * STREAM_WINDOW))
        .send_window(2 * u64::from(STREAM_WINDOW))
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER))
        .datagram_send_buffer_size(DATAGRAM_BUFFER)
        .enable_segmentation_offload(false)
        // Round-trip times are nobody else's business (RFC 9000, section 17.4, lets an endpoint say nothing).
        .allow_spin(false);
    if let Some((qlog, begun)) = qlog {
        add_log(&mut config, qlog, begun)?;
    }
    Ok(Arc::new(config))
}

/// Has connections log their packets into `qlog`.
#[cfg(feature = "qlog")]
fn add_log(config: &mut TransportConfig, qlog: Qlog, begun: Instant) -> Result<(), LiveError> {
    let mut log = quinn_proto::QlogConfig::default();
    log.writer(qlog).title(Some("Lockstep".to_owned())).start_time(begun);
    config.qlog_stream(log.into_stream());
    Ok(())
}

/// Refuses the log.
#[cfg(not(feature = "qlog"))]
fn add_log(_: &mut TransportConfig, _: Qlog, _: Instant) -> Result<(), LiveError> {
    Err(LiveError::NotBuilt("qlog"))
}

fn wrong(error: &dyn std::fmt::Display) -> LiveError {
    LiveError::Identity(error.to_string())
}

/// A key of `seed` for `purpose`.
fn key(seed: &[u8], purpose: &[u8]) -> Result<Key, LiveError> {
    let key = Salt::new(HKDF_SHA256, purpose).extract(seed);
    let mut bytes = [0; 32];
    let filled = key.expand(&[b"key"], HKDF_SHA256).and_then(|expanded| expanded.fill(&mut bytes));
    filled.map_err(|error| wrong(&error))?;
    Ok(Key::new(HMAC_SHA256, &bytes))
}

/// An endpoint, of which those who ask for what it does not know any more are told so by a key of `seed`, and the names that
/// it gives, by another.
pub(crate) fn endpoint(seed: &[u8]) -> Result<(Arc<EndpointConfig>, Names), LiveError> {
    let names = Names::new(key(seed, b"lockstep names")?);
    let mut config = EndpointConfig::new(Arc::new(key(seed, b"lockstep reset")?));
    let given = names.clone();
    config.cid_generator(move || Box::new(given.clone()));
    config.rng_seed(Some(random()?));
    Ok((Arc::new(config), names))
}

/// How a listener answers.
pub(crate) fn server(identity: &Identity, qlog: Option<(Qlog, Instant)>) -> Result<Arc<ServerConfig>, LiveError> {
    let crypto = QuicServerConfig::try_from(identity.server()?).map_err(|error| wrong(&error))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config
        .transport_config(transport(qlog)?)
        .migration(true)
        .max_incoming(MOST_INCOMING)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(INCOMING_BYTES * MOST_INCOMING as u64);
    Ok(Arc::new(config))
}

/// How a joiner dials whoever holds `key`.
pub(crate) fn dialling(key: &PublicKey, qlog: Option<(Qlog, Instant)>) -> Result<ClientConfig, LiveError> {
    let crypto = QuicClientConfig::try_from(client(key)?).map_err(|error| wrong(&error))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport(qlog)?);
    Ok(config)
}
