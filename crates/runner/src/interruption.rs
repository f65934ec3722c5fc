//! Interruption by Ctrl-C, SIGTERM or a closed terminal, for commands that must complete their files.

#[cfg(unix)]
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result};
#[cfg(unix)]
use signal_hook::consts::SIGHUP;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Error of a command that a signal ended, after it completed its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ended by {}", match .signal { 1 => "SIGHUP", 2 => "an interrupt (SIGINT)", 3 => "SIGQUIT", _ => "SIGTERM" })]
pub struct Interrupted {
    signal: u8,
}

impl Interrupted {
    /// Interruption by the signal of this number.
    #[cfg(target_os = "linux")]
    pub fn by(signal: i32) -> Self {
        Self { signal: u8::try_from(signal).unwrap_or_default() }
    }

    /// Exit status that shells report for a command ended by this signal.
    pub fn status(self) -> u8 {
        128 + self.signal
    }
}

/// Records the first SIGINT, SIGTERM or SIGHUP during its lifetime.
///
/// A second signal, or one after its lifetime, ends the process immediately. SIGHUP is the exception: closing a
/// terminal sends two, one from the shell and one from the system.
pub struct Interruption {
    signal: Arc<AtomicUsize>,
    at_once: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Interruption {
    /// Installs the signal handlers.
    pub fn watch() -> Result<Self> {
        let interruption = Self { signal: Arc::default(), at_once: Arc::default(), is_over: Arc::default() };
        for signal in [SIGINT, SIGTERM] {
            let (noticed, at_once) = (interruption.signal.clone(), interruption.at_once.clone());
            // The order matters: the first signal arms the action for the second one.
            flag::register_conditional_default(signal, at_once.clone())
                .and_then(|_| flag::register_usize(signal, noticed, signal as usize))
                .and_then(|_| flag::register(signal, at_once))
                .context("cannot watch for signals")?;
        }
        #[cfg(unix)]
        if !is_ignored(SIGHUP) {
            let (noticed, is_over) = (interruption.signal.clone(), interruption.is_over.clone());
            flag::register_conditional_default(SIGHUP, is_over)
                .and_then(|_| flag::register_usize(SIGHUP, noticed, SIGHUP as usize))
                .context("cannot watch for signals")?;
        }
        Ok(interruption)
    }

    /// Returns an error after an interruption.
    pub fn check(&self) -> Result<(), Interrupted> {
        match self.signal.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(Interrupted { signal: signal as u8 }),
        }
    }

    /// Returns a check for an interruption that any thread may call.
    pub fn asked(&self) -> impl Fn() -> bool + Clone + Send + use<> {
        let signal = self.signal.clone();
        move || signal.load(Ordering::Relaxed) != 0
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        self.at_once.store(true, Ordering::Relaxed);
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Whether the parent process ignores `signal`, as `nohup` ignores SIGHUP.
///
/// The answer is true if the system does not report it.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let signals = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let signals = signals.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok());
    signals.is_none_or(|signals| signals & (1 << (signal - 1)) != 0)
}
