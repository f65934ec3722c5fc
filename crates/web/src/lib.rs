//! The browser end of a call, compiled to WebAssembly.
//!
//! [`Client`] joins a listener over WebTransport, which the page owns: one control stream, one stream of messages, and
//! datagrams. It is a state machine without a clock, like `lockstep_live::Peer`. [`abi`] offers it to JavaScript as
//! plain functions over one memory.
//!
//! ```text
//!  page: WebTransport, camera, Opus, canvas        WebAssembly
//!    datagrams, streams, pictures, time ---------> Client --> Exchange --> SendingEnd, ReceivingEnd
//!    datagrams, streams, pictures, sound, events <-- poll
//! ```
//!
//! `make web` builds `page/lockstep.wasm` with cargo alone. The built file is committed, so that `make build`, wheels
//! and `cargo install` require neither npm nor the wasm target. `tests/wasm.rs` compares it with its source.
#![deny(unsafe_code)]

pub mod abi;
mod carrier;
mod client;
mod listener;
mod report;

pub use client::{Client, ClientConfig, Output, Playout};
pub use listener::Sound;
