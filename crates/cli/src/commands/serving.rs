//! Serves calls one after another with a standing ticket, and reports how each call ended.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Error, Result};

use lockstep_av1::Vp8OrAv1;
use lockstep_live::{Ended, Finished, Listener, LiveError};
use lockstep_runner::interruption::Interruption;
use lockstep_runner::output_file::{self, in_one_line};
use lockstep_runner::progress::print_sound;

use crate::call_files::CallFiles;
use crate::commands::program_arguments::ProgramArguments;
use crate::reporter::{Reporter, StatusArgument};

/// Time between two attempts to begin a later call.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The state that all calls of one command share.
pub struct Service<'a> {
    pub interruption: &'a Interruption,
    pub program: &'a ProgramArguments,
    pub status: StatusArgument,
    /// Whether later calls follow, each with new files of `outputs`. Otherwise, the files have the given names.
    pub is_reusable: bool,
    pub outputs: &'a [(&'static str, Option<&'a Path>)],
}

/// Reports a failure to begin a later call, unless it is that of the last attempt.
fn report(error: &Error, last: &mut String) {
    let error = in_one_line(error);
    if error != *last {
        eprint_line!("lockstep: {error}; nobody can join until this is repaired");
        *last = error;
    }
}

/// Waits between two calls, unless `stop`.
pub fn wait(stop: &impl Fn() -> bool) {
    let until = Instant::now() + RETRY_INTERVAL;
    while !stop() && Instant::now() < until {
        thread::sleep(RETRY_INTERVAL / 20);
    }
}

impl Service<'_> {
    /// Serves one call on `listener`, or with a standing ticket one call after another. `serve_call` fails if a call
    /// cannot begin.
    ///
    /// The peer ends a call; the user, a program or a failure at this end ends the service. A later call that cannot
    /// begin, because a camera is missing for example, is tried again until `stop`.
    pub fn serve(
        &self,
        mut listener: Listener,
        stop: impl Fn() -> bool,
        mut serve_call: impl FnMut(Listener, &CallFiles) -> Result<(Reporter, Finished<Vp8OrAv1>)>,
    ) -> Result<()> {
        let (mut files, mut is_first) = (CallFiles::default(), true);
        loop {
            if self.is_reusable {
                files = files.next(self.outputs);
            }
            files.print();
            let mut failure = String::new();
            let (next, (reporter, finished)) = loop {
                let next = listener.for_next_call()?;
                let error = match serve_call(listener, &files) {
                    Ok(call) => break (next, call),
                    Err(error) => error,
                };
                files.remove();
                let Some(next) = next.filter(|_| !is_first) else { return Err(error) };
                report(&error, &mut failure);
                wait(&stop);
                if stop() {
                    return Ok(self.interruption.check()?);
                }
                listener = next;
            };
            is_first = false;
            let is_ready = is_of_other_end(&finished.result) && self.interruption.check().is_ok();
            let next = next.filter(|_| is_ready);
            let joined = finished.joined;
            let outcome = self.finish(reporter, finished);
            if !joined {
                files.remove();
            }
            let Some(next) = next else { return outcome };
            if let Err(error) = outcome {
                eprint_line!("lockstep: {}", in_one_line(&error));
            }
            listener = next;
        }
    }

    /// Completes the logs of a call, prints how it ended, and returns its failure.
    pub fn finish(&self, reporter: Reporter, finished: Finished<Vp8OrAv1>) -> Result<()> {
        let written = reporter.finish(&finished);
        if let Some(sound) = finished.sound.as_ref().filter(|_| self.status == StatusArgument::Line) {
            print_sound(sound);
        }
        if finished.dropped > 0 {
            let pictures = finished.dropped;
            eprint_line!("lockstep: warning: the sink was too slow and dropped {pictures} pictures");
        }
        let ended = match finished.result {
            Ok(ended) => Some(ended),
            // The user or the parent program ended the call during an outage, which is not a failure.
            Err(error @ LiveError::PeerSilent { .. })
                if self.program.is_attached() || self.interruption.check().is_err() =>
            {
                eprint_line!("lockstep: warning: {error}");
                None
            }
            Err(error) => return output_file::all([Err(error.into()), written]),
        };
        written?;
        self.interruption.check()?;
        if self.status == StatusArgument::Line && ended == Some(Ended::ByPeer) {
            print_line!("the other end ended the call");
        }
        if !finished.joined && ended == Some(Ended::Done) {
            eprint_line!("lockstep: nobody answered");
        }
        Ok(())
    }
}

/// Whether the reason for the end allows this end to serve the next call.
fn is_of_other_end(result: &Result<Ended, LiveError>) -> bool {
    match result {
        Ok(ended) => matches!(ended, Ended::ByPeer | Ended::Done),
        Err(error) => matches!(
            error,
            LiveError::Silent { .. }
                | LiveError::PeerSilent { .. }
                | LiveError::PeerFailed
                | LiveError::Restarted
                | LiveError::Replaced
                | LiveError::Connection(_)
                | LiveError::Refused
                | LiveError::UnknownEstimator { .. }
                | LiveError::InvalidFormat
                | LiveError::TooManyPixels { .. }
                | LiveError::TooManyStreams { .. }
                | LiveError::StreamsRefused
        ),
    }
}
