//! Files that are named on the command line and read whole: models, times, scenarios. They are regular ones, as a pipe that
//! nobody writes would be waited for and a device has no end, and no larger than a model may be.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use lockstep_nn::MOST_BYTES as MOST_MODEL_BYTES;

/// Opens the regular file `path`.
///
/// # Errors
/// If there is none.
pub fn open_regular_file(path: &Path) -> Result<File> {
    // Opening a pipe waits for who writes it: it is looked at before.
    if !fs::metadata(path)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    File::open(path)
}

/// What is in the regular file `path`.
///
/// # Errors
/// If there is none, it cannot be read or has more than [`MOST_MODEL_BYTES`].
pub fn read_regular_file(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular_file(path)?.take(MOST_MODEL_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MOST_MODEL_BYTES {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it has more than {MOST_MODEL_BYTES} bytes")));
    }
    Ok(bytes)
}

/// The text in the regular file `path`.
///
/// # Errors
/// As [`read_regular_file`], and if it is no text.
pub fn read_regular_text(path: &Path) -> Result<String> {
    String::from_utf8(read_regular_file(path)?).map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_the_bound_and_one_byte_more_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let length = |length| File::create(&path).unwrap().set_len(length).unwrap();
        length(MOST_MODEL_BYTES as u64);
        assert_eq!(read_regular_file(&path).unwrap().len(), MOST_MODEL_BYTES);
        length(MOST_MODEL_BYTES as u64 + 1);
        assert_eq!(read_regular_text(&path).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_is_no_regular_file_or_no_text_is_refused_and_what_is_not_there_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(read_regular_text(&path).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_regular_text(&path).unwrap_err().kind(), ErrorKind::InvalidData);
        for other in [folder.path(), Path::new("/dev/zero")] {
            assert!(read_regular_text(other).is_err(), "{}", other.display());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_refused_without_a_wait_for_who_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("there is mkfifo").success());
        assert_eq!(read_regular_file(&pipe).unwrap_err().to_string(), "it is no regular file");
    }
}
