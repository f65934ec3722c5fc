//! How the program that runs this one ends it.

use std::io::{Read, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;

use lockstep_live::CallHandle;

use crate::keys;
use lockstep_runner::interruption::Interruption;

/// For the program that runs this one.
#[derive(Debug, Clone, Args)]
pub struct ProgramArguments {
    /// End in order when standard input ends, as it does when the program that runs this one tells it to or is gone.
    #[arg(long, hide = true)]
    attached: bool,
}

impl ProgramArguments {
    /// Tells whether the call shall end: after an interruption, or because the other program said so. What standard input says
    /// goes to `commands`, if there are any.
    pub fn stop(
        &self,
        interruption: &Interruption,
        commands: Option<CallHandle>,
    ) -> impl Fn() -> bool + Clone + Send + use<> {
        let interrupted = interruption.asked();
        let told = Arc::new(AtomicBool::new(false));
        let ended = told.clone();
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
        move || interrupted() || told.load(Ordering::Relaxed)
    }

    /// Whether another program runs this one.
    pub fn is_attached(&self) -> bool {
        self.attached
    }
}
