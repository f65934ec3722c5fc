//! Arguments by which a parent program ends this one.

use std::io::{Read, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;

use crate::keys::{self, Keys};
use lockstep_runner::interruption::Interruption;

/// Arguments for a parent program.
#[derive(Debug, Clone, Args)]
pub struct ProgramArguments {
    /// End the call and its logs when standard input ends, because the parent program requests it or exits.
    #[arg(long, hide = true)]
    attached: bool,
}

impl ProgramArguments {
    /// Returns a check for the end of the call: after an interruption, or at the end of standard input.
    ///
    /// Standard input controls the call through `commands`, if given.
    pub fn stop(
        &self,
        interruption: &Interruption,
        commands: Option<Keys>,
    ) -> impl Fn() -> bool + Clone + Send + use<> {
        let interrupted = interruption.asked();
        let input_ended = Arc::new(AtomicBool::new(false));
        let ended = input_ended.clone();
        if self.attached || commands.is_some() {
            let attached = self.attached;
            thread::spawn(move || {
                if let Some(commands) = commands {
                    keys::read(&commands);
                }
                if attached {
                    let _ = stdin().lock().read_to_end(&mut Vec::new());
                    ended.store(true, Ordering::Relaxed);
                }
            });
        }
        move || interrupted() || input_ended.load(Ordering::Relaxed)
    }

    /// Whether a parent program runs this one.
    pub fn is_attached(&self) -> bool {
        self.attached
    }
}
