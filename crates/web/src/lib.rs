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
//! and `cargo install` require neither npm nor the wasm target. `python/tests/test_web.py` compares it with its source.
//! The command serves the files of [`page`].
#![deny(unsafe_code)]

// A native program contains the page only. It must not link the plain names of `abi`.
#[cfg(any(target_arch = "wasm32", test, doc))]
pub mod abi;
#[cfg(any(target_arch = "wasm32", test, doc))]
mod carrier;
#[cfg(any(target_arch = "wasm32", test, doc))]
mod client;
#[cfg(any(target_arch = "wasm32", test, doc))]
mod json;
#[cfg(any(target_arch = "wasm32", test, doc))]
mod listener;
// The module does not contain itself.
#[cfg(not(target_arch = "wasm32"))]
pub mod page;
#[cfg(any(target_arch = "wasm32", test, doc))]
mod report;

#[cfg(any(target_arch = "wasm32", test, doc))]
pub use client::{Client, ClientConfig, Output, Playout};
#[cfg(any(target_arch = "wasm32", test, doc))]
pub use listener::Sound;
