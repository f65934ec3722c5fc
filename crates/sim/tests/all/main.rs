//! Integration tests of the crate, in one program: each program would compile the simulator again.

mod calls;
mod conventional;
mod cross_traffic;
mod finished;
mod garbage;
mod modelled;
mod outages;
mod own_codec;
mod scenarios;
mod screens;
mod shared_media;
mod stuck;
