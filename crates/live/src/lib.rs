//! Drives calls over QUIC in real time.
//!
//! # Optimisation
//! Without optimisation the codec is too slow, and a debug build shows few pictures. [`CallEvent::Warning`] reports
//! this as [`Warning::Unoptimised`]. To optimise the dependencies of debug builds, add these lines to the `Cargo.toml`
//! of the workspace:
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! ```
#![forbid(unsafe_code)]

mod allowance;
mod broadcast;
mod call;
mod call_recording;
mod call_state;
mod capture;
mod connection;
#[cfg(feature = "audio")]
mod devices;
mod display_queue;
#[cfg(any(feature = "audio", test))]
mod following;
mod gate;
mod handle;
#[cfg_attr(not(feature = "web"), path = "http3/unbuilt.rs")]
mod http3;
mod identity;
mod loop_event;
mod measuring;
mod menu;
mod own_picture;
mod peer;
mod quic;
mod receiving;
mod recorder;
#[cfg(test)]
mod rehearsal;
mod remote_end;
mod rendezvous;
mod room;
mod route;
mod sending;
mod sound;
mod sound_splitter;
mod unlimited;

use std::time::Duration;

pub use broadcast::{BroadcastObserver, BroadcastOptions, MAX_VIEWERS, broadcast};
pub use call::{CallObserver, CallOptions, Finished, run};
pub use call_recording::CallRecording;
pub use call_state::{CallState, SoundQuality};
pub use connection::Traffic;
#[cfg(feature = "audio")]
pub use devices::{DeviceNotice, SoundDevice, SoundDevices, open_loudspeaker, open_microphone, sound_devices};
pub use display_queue::Shown;
pub use handle::CallHandle;
#[cfg(feature = "web")]
pub use http3::{PageData, PageSession, PageSessions};
pub use identity::Identity;
pub use lockstep_session::control::CallKind;
pub use lockstep_session::messages::{
    Delivery, MAX_LATEST_BYTES, MAX_MESSAGE_BYTES, Message, MessageError, ReceivedMessage,
};
pub use lockstep_session::presence::{Command, Presence};
pub use lockstep_session::stream::{MAX_STREAMS, StreamName, StreamNameError};
pub use lockstep_session::ticket::{
    CertificateHash, ListenerKey, MAX_ADDRESSES, MAX_SERVERS, PublicKey, Secret, Ticket, TicketError,
};
pub use lockstep_session::{
    CallEvent, Ended, Freshness, LiveError, Quality, ReceivingQuality, Route, SendingQuality, TicketRefusal, Warning,
};
pub use menu::ThreadedMenu;
pub use own_picture::OwnPicture;
pub use peer::{Input, Output, Peer, PeerConfig, ReceivedFrame};
pub use quic::Qlog;
pub use receiving::{OpenSink, Receiving};
pub use remote_end::{Listener, RemoteEnd};
pub use rendezvous::{
    Code, CodeError, CodeOffer, Limits as RendezvousLimits, OfferResult, RedeemError, Rendezvous, RendezvousServer,
    RendezvousStatus, redeem,
};
pub use room::{Entrance, MAX_PEOPLE, RoomObserver, RoomOptions, Seat, room};
pub use sending::{PictureSource, Sending};
pub use sound::Loudspeaker;

/// Parsers of untrusted bytes, for the fuzzer only.
#[doc(hidden)]
pub mod fuzzing {
    #[cfg(feature = "web")]
    pub use crate::http3::read_streams;
    pub use crate::rendezvous::{messages, read_message};
    pub use crate::room::read_message as read_room_message;
    pub use lockstep_session::control::read_messages;
    pub use lockstep_session::messages::read_messages as read_application_messages;
    pub use lockstep_session::ticket::text_of as ticket_of;
}

/// A thread that does one part of a call's work.
type Thread = lockstep_socket::Thread<LiveError>;

/// Polled several times per second; returns whether the user wants to end the call.
pub type Stop = Box<dyn Fn() -> bool + Send>;

/// Limit for closing a call: informing the other end, and decoding and displaying the last frames.
const END_LIMIT: Duration = Duration::from_secs(10);
/// How long the close message is repeated to a silent peer, which may still receive it.
const SILENT_END_LIMIT: Duration = Duration::from_millis(200);
