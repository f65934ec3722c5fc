//! Lists that an ffmpeg prints of itself, such as its filters and encoders.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::process::{Command, Stdio};

/// Maximum length of a list, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Output of the ffmpeg `program` for `option`, such as `-filters`, `-encoders` or `-version`.
///
/// # Errors
/// If the program cannot be run, or prints more than a megabyte.
pub fn ffmpeg_list(program: &OsStr, option: &str) -> io::Result<String> {
    let mut child = Command::new(program)
        .args(["-hide_banner", option])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut output = Vec::new();
    let read = child.stdout.take().map_or(Ok(0), |list| list.take(MAX_BYTES + 1).read_to_end(&mut output));
    let is_long = output.len() as u64 > MAX_BYTES;
    if is_long {
        child.kill()?;
    }
    child.wait()?;
    read?;
    if is_long {
        let list = option.trim_start_matches('-');
        return Err(io::Error::other(format!("its list of {list} has more than {MAX_BYTES} bytes")));
    }
    Ok(String::from_utf8_lossy(&output).into_owned())
}
