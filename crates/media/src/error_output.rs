//! Error output of an ffmpeg process, in bounded memory.

use std::io::{self, Read};
use std::process::ChildStderr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum number of kept bytes, the last ones. An error quotes three lines, and VMAF is on one of the last lines.
const KEPT_BYTES: usize = 16 << 10;
/// A descendant of an ended process may keep the pipe open. The text is taken after this time.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Maximum length of ffmpeg's messages in an error, characters, from the end.
const REASON_CHARACTERS: usize = 1000;

/// The reason that ffmpeg gave in its error output: the last three lines that are not empty. None without any.
#[must_use]
pub fn ffmpeg_reason(text: &str) -> Option<String> {
    let start = text.char_indices().rev().nth(REASON_CHARACTERS - 1).map_or(0, |(start, _)| start);
    let mut lines: Vec<_> = text[start..].lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.drain(..lines.len().saturating_sub(3));
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// The last [`KEPT_BYTES`] that a process wrote to its standard error. A thread empties the pipe, so that the process
/// never waits for it.
#[derive(Debug)]
pub(crate) struct ErrorOutput {
    kept: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when the pipe has ended.
    ended: Receiver<()>,
}

impl ErrorOutput {
    /// Begins to read `pipe`.
    ///
    /// # Errors
    /// If the thread cannot start.
    pub(crate) fn of(mut pipe: ChildStderr) -> io::Result<Self> {
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        let (end, ended) = channel();
        let shared = Arc::clone(&kept);
        thread::Builder::new().name("errors".to_owned()).spawn(move || {
            let _end: Sender<()> = end;
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut bytes) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&bytes[..length]);
                let excess = kept.len().saturating_sub(KEPT_BYTES);
                kept.drain(..excess);
            }
        })?;
        Ok(Self { kept, ended })
    }

    /// The text of a process that has ended.
    pub(crate) fn text(&self) -> String {
        let _ = self.ended.recv_timeout(END_LIMIT);
        String::from_utf8_lossy(&self.kept.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn output_of(script: &str) -> String {
        let mut child = Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
        let output = ErrorOutput::of(child.stderr.take().unwrap()).unwrap();
        child.wait().unwrap();
        output.text()
    }

    #[test]
    fn only_the_last_bytes_are_kept() {
        assert_eq!(output_of("echo a line >&2"), "a line\n");
        let text = output_of("yes abcdefghijk | head -c 3000000 >&2; echo the end >&2");
        assert!(text.len() <= KEPT_BYTES && text.ends_with("\nthe end\n"), "{} bytes", text.len());
    }

    #[test]
    fn descendant_that_keeps_the_pipe_does_not_block() {
        assert_eq!(output_of("echo a line >&2; sleep 5 >&2 &"), "a line\n");
    }
}
