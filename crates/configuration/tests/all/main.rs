//! Integration tests of the crate, in one program: each program would compile the simulator again.

mod as_published;
mod av1;
mod estimator;
mod floor;
mod modelled;
mod options;
mod own_controller;
mod qoe_bound;
mod replay;
mod room;
mod scenarios;
mod slow_decoding;
mod sound;
mod tuning;
mod words;
