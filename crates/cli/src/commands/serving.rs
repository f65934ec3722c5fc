//! Serves calls one after another with a standing ticket, and reports how each call ended.

use anyhow::Result;

use lockstep_live::{Ended, Finished, Listener, LiveError};
use lockstep_runner::interruption::Interruption;
use lockstep_runner::output_file::{self, in_one_line};
use lockstep_runner::progress::print_sound;

use crate::call_files::CallFiles;
use crate::commands::program_arguments::ProgramArguments;
use crate::reporter::{Reporter, StatusArgument};

/// The state that all calls of one command share.
pub struct Service<'a> {
    pub interruption: &'a Interruption,
    pub program: &'a ProgramArguments,
    pub status: StatusArgument,
}

/// An ended call, before its logs are complete.
pub struct ServedCall {
    pub reporter: Reporter,
    pub finished: Finished,
    pub files: CallFiles,
}

impl Service<'_> {
    /// Serves one call on `listener`, or with a standing ticket one call after another.
    ///
    /// The peer ends a call; the user, a program or a failure at this end ends the service.
    pub fn serve(
        &self,
        mut listener: Listener,
        mut serve_call: impl FnMut(Listener) -> Result<ServedCall>,
    ) -> Result<()> {
        loop {
            let next = listener.for_next_call()?;
            let ServedCall { reporter, finished, files } = serve_call(listener)?;
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
    pub fn finish(&self, reporter: Reporter, finished: Finished) -> Result<()> {
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
                | LiveError::TooManyPixels { .. }
                | LiveError::TooManyStreams { .. }
                | LiveError::StreamsRefused
        ),
    }
}
