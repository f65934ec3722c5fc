//! File names of the calls that one command serves one after another.

use std::fs;
use std::path::{Path, PathBuf};

use lockstep_runner::output_file::{is_special, is_standard_output, with_suffix};

/// Output files of one of several calls: `shown.ivf`, then `shown-2.ivf`, `shown-3.ivf`, and so on.
#[derive(Debug, Clone, Default)]
pub struct CallFiles {
    number: u32,
    paths: Vec<PathBuf>,
}

impl CallFiles {
    /// Files for the next call, with the first number under which no file of `outputs` exists.
    pub fn next(&self, outputs: &[(&str, Option<&Path>)]) -> Self {
        let outputs = || outputs.iter().filter_map(|&(_, path)| path.filter(|path| is_numbered(path)));
        let mut number = self.number + 1;
        while outputs().any(|path| of_call(path, number).exists()) {
            number += 1;
        }
        Self { number, paths: outputs().map(|path| of_call(path, number)).collect() }
    }

    /// Number of the call's files; the first call has no number in its names.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Prints the names of the files, unless they are the given names.
    pub fn print(&self) {
        if self.number > 1 && !self.paths.is_empty() {
            let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
            print_line!("files of the next call: {}", names.join(", "));
        }
    }

    /// Removes the files of a call that nobody joined.
    pub fn remove(&self) {
        self.paths.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// Whether each call has a separate file. Devices, pipes and standard output serve all calls.
fn is_numbered(path: &Path) -> bool {
    !is_standard_output(path) && !is_special(path)
}

/// File of call `number` for the output `path`.
pub fn of_call(path: &Path, number: u32) -> PathBuf {
    if number > 1 && is_numbered(path) { with_suffix(path, &format!("-{number}")) } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_calls_have_separate_files() {
        let folder = tempfile::tempdir().unwrap();
        let [shown, log] = ["shown.ivf", "log"].map(|name| folder.path().join(name));
        let paths = [Some(shown.as_path()), None, Some(&log), Some(Path::new("-"))];
        let outputs = paths.map(|path| ("--option", path));
        let names = |files: &CallFiles| -> Vec<String> {
            files.paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let first = CallFiles::default().next(&outputs);
        assert_eq!((first.number(), names(&first)), (1, vec!["shown.ivf".to_owned(), "log".to_owned()]));
        let second = first.next(&outputs);
        assert_eq!((second.number(), names(&second)), (2, vec!["shown-2.ivf".to_owned(), "log-2".to_owned()]));
        // A file that exists is kept, whichever program wrote it.
        fs::write(folder.path().join("log-3"), "kept").unwrap();
        assert_eq!(second.next(&outputs).number(), 4);
        fs::write(&shown, "kept").unwrap();
        assert_eq!(CallFiles::default().next(&outputs).number(), 2);
    }

    #[test]
    fn devices_and_standard_output_serve_every_call() {
        for path in ["-", "/dev/null"].map(Path::new) {
            assert_eq!(of_call(path, 2), path);
        }
    }
}
