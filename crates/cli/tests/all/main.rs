//! Integration tests of the command, in one program: each program would compile and link its dependencies again.

mod alphartc;
mod barcode;
mod bench;
mod command;
mod commands;
mod completions;
mod controllers;
mod leaderboard;
mod limits;
mod live;
mod observed;
mod outputs;
mod own_controller;
mod recording;
mod rendezvous;
mod replay;
mod room;
mod scenario;
mod scores;
mod session_log;
mod sweep;
mod tunnel;
