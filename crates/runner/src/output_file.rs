//! Output files of commands: complete or absent, or standard output.
//!
//! A file is written under a temporary name in its folder (`.NAME.*.part`, removed if writing fails).
//!
//! It takes its name when it is complete. A full disk or a killed command therefore keeps the old file. `-` is standard
//! output; messages for the user then go to standard error. A device or a pipe is written directly. Recordings of live
//! calls use another way, because a killed call must keep them: see [`lockstep_media::open_sink`].

use std::fmt::Arguments;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Seek, SeekFrom, Stdout, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use tempfile::{NamedTempFile, TempPath};

use lockstep_configuration::document;
use lockstep_units::{open_output, printable};

use crate::standard_input::is_standard_input;

/// Name of standard output instead of a file.
const STANDARD_OUTPUT: &str = "-";

/// Maximum depth of symbolic links, as in Linux.
const MAX_LINK_DEPTH: usize = 40;

/// Whether an output of this command is standard output.
static STANDARD_OUTPUT_TAKEN: AtomicBool = AtomicBool::new(false);

/// First error of printing on standard output, if any.
static UNPRINTED: OnceLock<io::Error> = OnceLock::new();

/// Whether `path` is standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == STANDARD_OUTPUT || path == Path::new("/dev/stdout")
}

/// Whether a checked output is standard output.
pub fn standard_output_is_taken() -> bool {
    STANDARD_OUTPUT_TAKEN.load(Ordering::Relaxed)
}

/// Prints `text` on standard output and flushes it.
///
/// A failure does not stop the command; [`all_printed`] reports it at the end.
pub fn print(text: Arguments<'_>) {
    let mut out = stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        UNPRINTED.get_or_init(|| error);
    }
}

/// Checks that everything was printed on standard output. A closed reader such as `head` is no failure.
///
/// # Errors
/// If text is missing there, for example on a full disk.
pub fn all_printed() -> Result<()> {
    match UNPRINTED.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => bail!("cannot write standard output: {error}"),
        _ => Ok(()),
    }
}

/// Prints text for the user: on standard output, or on standard error if an output uses standard output.
pub fn print_text(text: Arguments<'_>) {
    if standard_output_is_taken() {
        let _ = stderr().write_fmt(text); // ignored as in `eprint_line`
    } else {
        print(text);
    }
}

/// Whether text for the user goes to a terminal.
pub fn prints_to_terminal() -> bool {
    if standard_output_is_taken() { stderr().is_terminal() } else { stdout().is_terminal() }
}

/// Prints a line for the user without control characters, see [`print_text`] and [`printable`].
pub fn print_line(line: Arguments<'_>) {
    print_text(format_args!("{}\n", printable(&line.to_string())));
}

/// Prints a line for the user on standard error: warnings, failures, progress. Control characters are shown as escapes
/// ([`printable`]).
///
/// A failure to print is ignored, so that the command still writes its files.
pub fn eprint_line(line: Arguments<'_>) {
    let _ = writeln!(stderr(), "{}", printable(&line.to_string()));
}

/// Folder of `path`.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Path after following symbolic links; the file need not exist.
fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINK_DEPTH {
        let Ok(next) = fs::read_link(&path) else { break };
        path = folder_of(&path).join(next);
    }
    path
}

/// Whether `path` is a device or a pipe, which is written directly.
pub fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// `path` with `suffix` before its extension: `a-2.ivf` from `a.ivf` and `-2`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(suffix);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Whether writing one file would change the other.
fn is_same(first: &Path, second: &Path) -> bool {
    if is_standard_output(first) || is_standard_output(second) {
        return is_standard_output(first) && is_standard_output(second);
    }
    if is_special(first) {
        return false;
    }
    // Two names without files are equal if their folders are the same.
    let place = |path: &Path| Some((fs::canonicalize(folder_of(path)).ok()?, path.file_name()?.to_owned()));
    let places = place(&behind_links(first)).zip(place(&behind_links(second)));
    same_file::is_same_file(first, second).unwrap_or(false) || places.is_some_and(|(first, second)| first == second)
}

/// Checks that `path` can be written, without changing its file. Creates its folder.
fn check_one(path: &Path) -> Result<()> {
    if is_standard_output(path) || is_special(path) {
        return Ok(());
    }
    let path = behind_links(path);
    match fs::metadata(&path) {
        Ok(found) if found.is_dir() => bail!("this is a folder; name a file in it"),
        Ok(_) => drop(OpenOptions::new().write(true).open(&path).context("cannot be written")?),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).context("cannot be written"),
    }
    let folder = folder_of(&path);
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    tempfile::tempfile_in(folder).with_context(|| format!("no file can be made in {}", folder.display()))?;
    Ok(())
}

/// Checks all `outputs` of a command, each with its option, before anything runs.
///
/// Each must be writable, and differ from the others and from the files of `inputs`, which it would destroy.
///
/// # Errors
/// The problem of the first invalid output.
pub fn check(outputs: &[(&str, Option<&Path>)], inputs: &[&Path]) -> Result<()> {
    let outputs: Vec<(&str, &Path)> = outputs.iter().filter_map(|&(option, path)| Some((option, path?))).collect();
    for (index, &(option, path)) in outputs.iter().enumerate() {
        let shown = path.display();
        if let Some((other, _)) = outputs[..index].iter().find(|(_, other)| is_same(path, other)) {
            bail!("{option} {shown}: this is the output of {other}, too; name another file");
        }
        if inputs.iter().any(|input| !is_standard_input(input) && is_same(path, input)) {
            bail!("{option} {shown}: this is an input, and would be lost; name another file");
        }
        check_one(path).with_context(|| format!("{option} {shown}"))?;
        if is_standard_output(path) {
            STANDARD_OUTPUT_TAKEN.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// An error and its causes in one line. A cause that an error already contains is not repeated.
pub fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

/// Combines the outcomes of independent outputs.
///
/// # Errors
/// All failures in one error.
pub fn all(outcomes: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let mut failures = outcomes.into_iter().filter_map(Result::err);
    let Some(first) = failures.next() else { return Ok(()) };
    let others: Vec<String> = failures.map(|failure| in_one_line(&failure)).collect();
    if others.is_empty() { Err(first) } else { Err(anyhow!("{}; and {}", in_one_line(&first), others.join("; and "))) }
}

/// Output that is being written. Without [`OutputFile::finish`] an old file remains unchanged.
pub struct OutputFile {
    /// Name in errors.
    pub(crate) name: String,
    to: To,
}

enum To {
    Standard(BufWriter<Stdout>),
    Special(BufWriter<File>),
    /// Writes go to the file and not to its `NamedTempFile`, whose errors would show the temporary name.
    File {
        file: BufWriter<File>,
        temporary: TempPath,
        path: PathBuf,
    },
}

impl OutputFile {
    /// Opens `path` for writing; `-` is standard output. Creates its folder.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        if is_standard_output(path) {
            return Ok(Self { name: "standard output".to_owned(), to: To::Standard(BufWriter::new(stdout())) });
        }
        let name = path.display().to_string();
        let begin = || -> Result<To> {
            if is_special(path) {
                return Ok(To::Special(BufWriter::new(open_output(path)?)));
            }
            check_one(path)?;
            let path = behind_links(path);
            let (file, temporary) = temporary_next_to(&path)?.into_parts();
            Ok(To::File { file: BufWriter::new(file), temporary, path })
        };
        let to = begin().with_context(|| format!("cannot write {name}"))?;
        Ok(Self { name, to })
    }

    /// Whether [`Seek`] works.
    pub fn can_seek(&self) -> bool {
        matches!(self.to, To::File { .. })
    }

    /// Flushes the output, and renames the file to its path.
    ///
    /// # Errors
    /// If that fails; an old file then remains unchanged.
    pub fn finish(self) -> Result<()> {
        let finish = || -> io::Result<()> {
            match self.to {
                To::Standard(mut output) => output.flush(),
                To::Special(mut output) => output.flush(),
                To::File { file, temporary, path } => {
                    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                    // Some file systems only report here that they are full.
                    file.sync_all()?;
                    if let Ok(before) = fs::metadata(&path) {
                        file.set_permissions(before.permissions())?;
                    }
                    Ok(temporary.persist(path).map_err(|failed| failed.error)?)
                }
            }
        };
        finish().with_context(|| format!("cannot write {}", self.name))
    }
}

/// Temporary file in the folder of `path`, with the permissions of a new file.
fn temporary_next_to(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let prefix = format!(".{name}.");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // the umask applies
    builder.tempfile_in(folder_of(path))
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Standard(output) => output.write(bytes),
            To::Special(output) => output.write(bytes),
            To::File { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Standard(output) => output.flush(),
            To::Special(output) => output.flush(),
            To::File { file, .. } => file.flush(),
        }
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.to {
            To::File { file, .. } => file.seek(to),
            To::Standard(_) | To::Special(_) => Err(ErrorKind::Unsupported.into()),
        }
    }
}

/// Writes `path` with `fill`, completely or not at all.
///
/// # Errors
/// If it cannot be written, or `fill` fails.
pub fn write(path: &Path, fill: impl FnOnce(&mut OutputFile) -> Result<()>) -> Result<()> {
    let mut output = OutputFile::create(path)?;
    fill(&mut output).with_context(|| format!("cannot write {}", output.name))?;
    output.finish()
}

/// Writes `text` to `path`.
///
/// # Errors
/// If it cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    write(path, |output| Ok(output.write_all(text.as_bytes())?))
}

/// Writes `value` to `path` as JSON.
///
/// # Errors
/// If it cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write_text(path, &document(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn file_is_replaced_only_when_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "before").unwrap();
        let failed = write(&path, |output| {
            output.write_all(&[b'x'; 100_000])?;
            output.flush()?;
            assert_eq!(fs::read_to_string(&path)?, "before");
            bail!("the disk is full")
        });
        let said = format!("{:#}", failed.unwrap_err());
        assert!(said.starts_with("cannot write ") && said.ends_with("the disk is full"), "{said}");
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(folder.path()).len()), ("before", 1));
        write_text(&path, "after").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(folder.path()).len()), ("after", 1));
    }

    #[test]
    #[cfg(unix)]
    fn links_and_permissions_are_kept() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (path, link, dangling) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"));
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        symlink("a", &link).unwrap();
        symlink("new", &dangling).unwrap();
        write_text(&link, "after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        write_text(&dangling, "new").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("new")).unwrap(), "new");
        // The permissions are the same as those of a file that is created directly.
        fs::write(folder.path().join("usual"), "").unwrap();
        let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode("new"), mode("usual"));
    }

    #[test]
    fn equal_outputs_and_overwritten_inputs_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "input").unwrap();
        fs::hard_link(path("a"), path("hard")).unwrap();
        fs::create_dir(path("sub")).unwrap();
        let input = path("a");
        for name in ["a", "hard", "sub/../a", "./a"] {
            let said = check(&[("--json", Some(&path(name)))], &[&input]).unwrap_err().to_string();
            assert!(said.contains("--json") && said.contains("is an input"), "{said}");
        }
        for name in ["new", "sub/../new", "./new"] {
            let outputs = [("--json", Some(path("new"))), ("--frames", None), ("--log", Some(path(name)))];
            let outputs = outputs.each_ref().map(|(option, path)| (*option, path.as_deref()));
            let said = check(&outputs, &[&input]).unwrap_err().to_string();
            assert!(said.contains("the output of --json, too"), "{said}");
        }
        assert!(check(&[("--json", Some(&path("x"))), ("--log", Some(&path("y")))], &[&input]).is_ok());
        assert_eq!(fs::read_to_string(input).unwrap(), "input");
        assert_eq!(names(folder.path()).len(), 3);
    }

    #[test]
    fn unwritable_outputs_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        for (name, message) in [("", "is a folder"), ("file/a.json", "cannot be written")] {
            let said = format!("{:#}", check(&[("--json", Some(&folder.path().join(name)))], &[]).unwrap_err());
            assert!(said.contains(message), "{said}");
        }
    }
}
