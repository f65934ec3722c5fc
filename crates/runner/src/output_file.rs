//! Where commands write: a file that is whole or is not there, or standard output.
//!
//! A file is written under a temporary name beside its own (`.NAME.*.part`, removed if writing fails) and takes its name when
//! it is whole, so that a full disk or a command that is killed leaves what was there before. `-` is standard output; what people are told goes to standard error
//! then. A device or a pipe is written as it is. Recordings of live calls are no such files: what a killed call has recorded
//! shall be there, see [`lockstep_media::open_sink`].

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

use crate::standard_input::is_standard_input;

/// What names standard output in the place of a file.
const STANDARD_OUTPUT: &str = "-";

/// Symbolic links that are followed one after the other, as Linux has it.
const MOST_LINKS: usize = 40;

/// Whether an output of this command is standard output.
static STANDARD_OUTPUT_TAKEN: AtomicBool = AtomicBool::new(false);

/// Why something that was to be read on standard output is missing there, if it is.
static UNPRINTED: OnceLock<io::Error> = OnceLock::new();

/// Whether `path` is standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == STANDARD_OUTPUT || path == Path::new("/dev/stdout")
}

/// Whether an output that was checked is standard output.
pub fn standard_output_is_taken() -> bool {
    STANDARD_OUTPUT_TAKEN.load(Ordering::Relaxed)
}

/// Prints `text` on standard output at once. It stops nothing that it fails: a call goes on, files are written. But
/// what is missing then is told at the end, see [`all_printed`].
pub fn print(text: Arguments<'_>) {
    let mut out = stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        UNPRINTED.get_or_init(|| error);
    }
}

/// Whether all that was printed is on standard output. A reader that went away, as `head` does, has what it wanted.
///
/// # Errors
/// If something is missing there, as on a full disk.
pub fn all_printed() -> Result<()> {
    match UNPRINTED.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => bail!("cannot write standard output: {error}"),
        _ => Ok(()),
    }
}

/// Tells people how it goes: on standard output, or on standard error where an output has taken that.
pub fn tell(text: Arguments<'_>) {
    if standard_output_is_taken() {
        let _ = stderr().write_fmt(text); // as with `aside`
    } else {
        print(text);
    }
}

/// Whether people are told on a terminal.
pub fn tells_terminal() -> bool {
    if standard_output_is_taken() { stderr().is_terminal() } else { stdout().is_terminal() }
}

/// Tells people a line, see [`tell`].
pub fn say(line: Arguments<'_>) {
    tell(format_args!("{line}\n"));
}

/// Tells people a line on standard error: warnings, failures, how it goes. Whatever becomes of it (a closed terminal, a pipe
/// that nobody reads any more, a full disk) is no reason to fail, let alone to lose what a command was to write.
pub fn aside(line: Arguments<'_>) {
    let _ = writeln!(stderr(), "{line}");
}

/// The folder that `path` lies in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The file that `path` names behind symbolic links, there or not.
fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&path) else { break };
        path = folder_of(&path).join(next);
    }
    path
}

/// Whether there is something at `path` that is written as it is: a device, a pipe.
pub fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// `path` with `suffix` before its extension: `a-2.ivf` of `a.ivf` and `-2`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(suffix);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Whether writing one would change the other.
fn is_same(first: &Path, second: &Path) -> bool {
    if is_standard_output(first) || is_standard_output(second) {
        return is_standard_output(first) && is_standard_output(second);
    }
    if is_special(first) {
        return false;
    }
    // Two names that are not there yet are the same in the same folder.
    let place = |path: &Path| Some((fs::canonicalize(folder_of(path)).ok()?, path.file_name()?.to_owned()));
    let places = place(&behind_links(first)).zip(place(&behind_links(second)));
    same_file::is_same_file(first, second).unwrap_or(false) || places.is_some_and(|(first, second)| first == second)
}

/// Finds out whether `path` can be written, without a change to what it names. Makes its folder.
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

/// Checks all `outputs` of a command, each with the option that names it, before anything runs: they can be written, and
/// none is another, nor one of `inputs`, which it would destroy. Of the inputs, those count that are files.
///
/// # Errors
/// What is wrong with the first that is wrong.
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

/// An error and what caused it, as one line. Many errors name their cause themselves; it is not said again.
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

/// Of outputs that were written each for itself: what went wrong with any of them.
///
/// # Errors
/// What went wrong, all of it.
pub fn all(outcomes: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let mut failures = outcomes.into_iter().filter_map(Result::err);
    let Some(first) = failures.next() else { return Ok(()) };
    let others: Vec<String> = failures.map(|failure| in_one_line(&failure)).collect();
    if others.is_empty() { Err(first) } else { Err(anyhow!("{}; and {}", in_one_line(&first), others.join("; and "))) }
}

/// An output that is being written. Without [`OutputFile::finish`] a file is as it was before.
pub struct OutputFile {
    name: String,
    to: To,
}

enum To {
    Standard(BufWriter<Stdout>),
    Special(BufWriter<File>),
    /// Written through the file itself: what its temporary name would add to errors is no name that people know.
    File {
        file: BufWriter<File>,
        temporary: TempPath,
        path: PathBuf,
    },
}

impl OutputFile {
    /// Begins to write `path`; `-` is standard output. Makes its folder.
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
                return Ok(To::Special(BufWriter::new(OpenOptions::new().write(true).open(path)?)));
            }
            check_one(path)?;
            let path = behind_links(path);
            let (file, temporary) = temporary_beside(&path)?.into_parts();
            Ok(To::File { file: BufWriter::new(file), temporary, path })
        };
        let to = begin().with_context(|| format!("cannot write {name}"))?;
        Ok(Self { name, to })
    }

    /// Whether [`Seek`] works.
    pub fn can_seek(&self) -> bool {
        matches!(self.to, To::File { .. })
    }

    /// Writes out what is left, and gives the file its name.
    ///
    /// # Errors
    /// If that fails; a file is as it was before then.
    pub fn finish(self) -> Result<()> {
        let finish = || -> io::Result<()> {
            match self.to {
                To::Standard(mut output) => output.flush(),
                To::Special(mut output) => output.flush(),
                To::File { file, temporary, path } => {
                    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                    // Some file systems say only now that they are full.
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

/// A temporary file beside `path`, with the permissions that a new file has.
fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let prefix = format!(".{name}.");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // less what the umask takes
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

/// Writes all of `path` by `fill`, or nothing.
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
    fn a_file_is_as_it_was_until_it_is_whole_and_stays_so_if_that_fails() {
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
    fn a_link_stays_one_and_permissions_stay_as_they_are() {
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
        // What the umask leaves of the usual permissions, as a file has that is made without a temporary one.
        fs::write(folder.path().join("usual"), "").unwrap();
        let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode("new"), mode("usual"));
    }

    #[test]
    fn outputs_that_are_each_other_or_an_input_are_refused_under_every_name() {
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
    fn what_cannot_be_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        for (name, message) in [("", "is a folder"), ("file/a.json", "cannot be written")] {
            let said = format!("{:#}", check(&[("--json", Some(&folder.path().join(name)))], &[]).unwrap_err());
            assert!(said.contains(message), "{said}");
        }
    }
}
