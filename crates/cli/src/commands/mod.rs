//! Commands, one file each, in the groups of `lockstep --help`.

pub mod call;
pub mod codec;
pub mod completions;
pub mod controllers;
pub mod devices;
pub mod emulate;
pub mod live;
pub mod live_sound;
pub mod output;
pub mod program_arguments;
pub mod rendezvous;
pub mod serving;
#[cfg(feature = "lab")]
pub mod simulate;
pub mod source_argument;
pub mod talk;
pub mod tickets;
pub mod trace;
#[cfg(all(target_os = "linux", feature = "lab"))]
pub mod tunnel;
pub mod viewers;
pub mod web;
mod web_socket;

use anyhow::Result;
use clap::Subcommand;

use lockstep_control::Controllers;

/// Commands that run calls.
#[derive(Subcommand)]
pub enum Calls {
    /// Call a peer: print a ticket and wait, or join with a ticket; video in both directions.
    Talk(talk::TalkArguments),
    /// Send live video to the peer that printed a ticket, or to a browser.
    Send(live::SendArguments),
    /// Print a ticket, and receive live video from the peer that joins with it.
    Receive(live::ReceiveArguments),
    /// Run a call in real time on this machine, over an emulated link.
    ///
    /// Sender and receiver are two processes; this process emulates the link between them.
    Call(call::CallCommand),
    /// List cameras, screens, microphones and loudspeakers, or test the sound.
    Devices(devices::DevicesArguments),
    /// Host a rendezvous for peers behind routers.
    ///
    /// Peers find each other through it. It relays for peers that have no direct path.
    Rendezvous(rendezvous::RendezvousArguments),
    /// The page with which a browser joins a call.
    #[command(subcommand)]
    Web(web::WebCommand),
    /// Emulate a link between two ends of a call, or of other programs.
    Emulate(emulate::EmulateArguments),
}

impl Calls {
    /// Runs the command with the controllers of the program.
    ///
    /// # Errors
    /// If the command fails.
    pub fn run(&self, controllers: &Controllers) -> Result<()> {
        match self {
            Self::Talk(arguments) => talk::run(arguments, controllers),
            Self::Send(arguments) => live::send(arguments, controllers),
            Self::Receive(arguments) => live::receive(arguments),
            Self::Call(arguments) => call::run(arguments, controllers),
            Self::Devices(arguments) => devices::run(arguments),
            Self::Rendezvous(arguments) => rendezvous::run(arguments),
            Self::Web(command) => web::run(command),
            Self::Emulate(arguments) => emulate::run(arguments),
        }
    }
}

/// Commands that read and write video and trace files.
#[derive(Subcommand)]
pub enum Files {
    /// Encode a y4m file as VP8 in an IVF file.
    Encode(codec::EncodeArguments),
    /// Decode VP8 in an IVF file to y4m, or print one MD5 per frame.
    Decode(codec::DecodeArguments),
    /// Describe a capacity trace, or convert it to another format.
    Trace(trace::TraceArguments),
}

impl Files {
    /// Runs the command.
    ///
    /// # Errors
    /// If the command fails.
    pub fn run(&self) -> Result<()> {
        match self {
            Self::Encode(arguments) => codec::encode(arguments),
            Self::Decode(arguments) => codec::decode(arguments),
            Self::Trace(arguments) => trace::run(arguments),
        }
    }
}

/// Commands for calls in virtual time.
#[derive(Subcommand)]
pub enum Simulation {
    /// Run a call in virtual time, with the real codec, over an emulated link.
    #[cfg(feature = "lab")]
    Simulate(simulate::SimulateCommand),
    /// List the controllers, or the tuned constants of the default one.
    Controllers(controllers::ControllersArguments),
}

impl Simulation {
    /// Runs the command with the controllers of the program.
    ///
    /// # Errors
    /// If the command fails.
    pub fn run(&self, controllers: &Controllers) -> Result<()> {
        match self {
            #[cfg(feature = "lab")]
            Self::Simulate(arguments) => simulate::run(arguments, controllers),
            Self::Controllers(arguments) => controllers::run(arguments, controllers),
        }
    }
}
