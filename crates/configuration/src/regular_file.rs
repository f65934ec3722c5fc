//! Reads whole files of the command line: models, times, scenarios.
//!
//! Only regular files of bounded size are read, because a pipe may block and a device has no end.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use lockstep_nn::MAX_FILE_BYTES as MAX_MODEL_BYTES;

/// Opens the regular file `path`.
///
/// # Errors
/// If `path` is not a regular file.
pub fn open_regular_file(path: &Path) -> Result<File> {
    // Opening a pipe blocks until it has a writer, so the type is checked first.
    if !fs::metadata(path)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    File::open(path)
}

/// Reads the regular file `path`.
///
/// # Errors
/// If `path` is not a regular file, cannot be read or exceeds [`MAX_MODEL_BYTES`].
pub fn read_regular_file(path: &Path) -> Result<Vec<u8>> {
    read_regular_file_within(path, MAX_MODEL_BYTES)
}

/// Reads the regular file `path` of at most `limit` bytes.
///
/// # Errors
/// If `path` is not a regular file, cannot be read or exceeds `limit`.
pub fn read_regular_file_within(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular_file(path)?.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it has more than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads the text in the regular file `path`.
///
/// # Errors
/// As [`read_regular_file`], and if the bytes are not UTF-8.
pub fn read_regular_text(path: &Path) -> Result<String> {
    String::from_utf8(read_regular_file(path)?)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "it is not text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_beyond_the_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let length = |length| File::create(&path).unwrap().set_len(length).unwrap();
        length(MAX_MODEL_BYTES as u64);
        assert_eq!(read_regular_file(&path).unwrap().len(), MAX_MODEL_BYTES);
        length(MAX_MODEL_BYTES as u64 + 1);
        assert_eq!(read_regular_text(&path).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn invalid_files_are_refused_and_missing_ones_not_found() {
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
    fn pipe_is_refused_without_waiting_for_a_writer() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("there is mkfifo").success());
        assert_eq!(read_regular_file(&pipe).unwrap_err().to_string(), "it is not a regular file");
    }
}
