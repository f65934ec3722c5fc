//! Integration tests of the crate, in one program: each program would compile the call again.

mod broadcast;
mod calls;
mod ends;
mod own_codec;
mod presence;
mod replay;
mod room;
mod sound;
mod survival;
