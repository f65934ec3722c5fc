//! Integration tests of the crate, in one program: each program would compile the transport again.

mod ends;
mod exchange;
mod long_queue;
mod parity;
mod retransmission;
mod sound;
mod wire;
mod world;
