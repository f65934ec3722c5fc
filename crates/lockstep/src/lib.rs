//! Live video calls for applications.
//!
//! There are two interfaces:
//! - [`Call`] runs a call on its own threads, including devices, sockets and clocks.
//! - [`Peer`] is one end of a call as a state machine (sans-IO), over the application's own socket and clock.
//!
//! Both ends of a call meet by a [`Ticket`]: one end listens and creates the ticket, the other joins with it.
//!
//! # A call
//! ```
//! use std::time::{Duration, Instant};
//!
//! use lockstep::{Call, Event, Picture, VideoFormat};
//!
//! // The receiver listens, and prints a ticket.
//! let (receiver, ticket) = Call::builder().receive_frames().listen("127.0.0.1:0".parse()?)?;
//! // The sender joins with it; it may be another program on another machine.
//! let sender = Call::builder().send_frames(VideoFormat::new(64, 48)).join(ticket)?;
//! while sender.next_event(Duration::from_secs(10)) != Some(Event::Joined) {}
//!
//! let grey = Picture::from_i420(64, 48, vec![128; 64 * 48 * 3 / 2])?;
//! sender.send_frame(grey, Instant::now());
//! let frame = receiver.next_frame(Duration::from_secs(10)).expect("a frame arrives");
//! assert_eq!((frame.picture.width(), frame.picture.height()), (64, 48));
//! sender.leave()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The loop of a peer
//! ```no_run
//! # use std::net::UdpSocket;
//! # use std::time::{Duration, Instant};
//! # use lockstep::{Input, Output, Peer, PeerConfig, ReceiveOptions, Timestamp};
//! # fn run(ticket: lockstep::Ticket) -> Result<(), Box<dyn std::error::Error>> {
//! let socket = UdpSocket::bind("0.0.0.0:0")?;
//! let start = Instant::now();
//! let now = || Timestamp::ZERO + start.elapsed();
//! let config = PeerConfig::receiving_from_listener(ReceiveOptions::default().end());
//! let mut peer = Peer::join(ticket, config, now())?;
//! let mut buffer = [0; 65_535];
//! while !peer.is_over() {
//!     match peer.poll_output(now()) {
//!         Output::Transmit { to, bytes } => drop(socket.send_to(&bytes, to)?),
//!         Output::Frame(frame) => println!("{:?}", frame.age),
//!         Output::Sound(_) => {}
//!         Output::Event(event) => println!("{event:?}"),
//!         Output::Timeout(at) => {
//!             let wait = at.saturating_since(now()).max(Duration::from_millis(1));
//!             socket.set_read_timeout(Some(wait))?;
//!             match socket.recv_from(&mut buffer) {
//!                 Ok((length, from)) => {
//!                     peer.handle_input(now(), Input::Datagram { from, bytes: &buffer[..length] });
//!                 }
//!                 Err(_) => peer.handle_input(now(), Input::Timeout),
//!             }
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//! None is on by default. `window` enables `open_sink("window")`, `camera` enables `open_source("camera")`, `screen`
//! enables `open_source("screen")`, and `audio` enables microphones and loudspeakers. `learned` enables the learned
//! controller; without it the controller is Sprout. `web` enables [`Identity::for_browsers`], for listeners that browsers join.
//!
//! # Optimisation
//! A debug build of the codec shows few pictures, and [`Event::Warning`] reports that. To optimise the dependencies,
//! add these lines to the `Cargo.toml` of the application's workspace:
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! ```
#![forbid(unsafe_code)]

mod call;
pub mod codec;
pub mod control;
mod options;
mod queue;
mod streams;

pub use call::{Call, CallBuilder};
pub use lockstep_call::{Preset, ReceivingEnd, SendingEnd};
pub use lockstep_control::{FlowGroup, Latency, LimitedBy};
pub use lockstep_live::{
    CallEvent as Event, CallKind, Delivery, Ended, Identity, Input, ListenerKey, LiveError as Error, MAX_LATEST_BYTES,
    MAX_MESSAGE_BYTES, MAX_STREAMS, Message, MessageError, Output, Peer, PeerConfig, Presence, Quality, ReceivedFrame,
    ReceivedMessage, ReceivingQuality, Route, SendingQuality, StreamName, StreamNameError, Ticket, TicketError,
    TicketRefusal, Warning,
};
#[cfg(feature = "audio")]
pub use lockstep_live::{DeviceNotice, SoundDevice, SoundDevices, open_loudspeaker, open_microphone, sound_devices};
pub use lockstep_media::{
    FrameRate, Sink, SinkError, Source, SourceError, SourceOptions, VideoFormat, open_sink, open_source,
    picture_from_rgb, picture_to_rgb, sink_of_stream,
};
pub use lockstep_socket::SystemError;
pub use lockstep_sound::{
    FRAME_SAMPLES as SOUND_FRAME_SAMPLES, Frame as SoundFrame, SoundFailure, SoundSink, SoundSource,
};
#[cfg(feature = "audio")]
pub use lockstep_sound::{ProcessingSettings, processed};
pub use lockstep_transport::SoundPacket;
pub use lockstep_units::{Bitrate, ByteCount, Timestamp};
pub use lockstep_vp8::{Effort, Picture, PictureError};
pub use options::{ReceiveOptions, SendOptions};
pub use streams::{SentStream, Stream};

/// Examples of pages, compiled and run as documentation tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/tutorials/embed.md")]
    struct Embed;
}
