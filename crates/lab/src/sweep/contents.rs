//! Hashes of the files that a call reads, so that changed files make another call.

use std::collections::HashMap;
use std::io::copy;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use walkdir::{DirEntry, WalkDir};

use lockstep_configuration::open_regular_file;
use lockstep_hosted::Process;

/// Extensions of files next to an estimator that it may import or open: programs, models and constants. Its output,
/// such as logs, and traces are not included.
const READ_BY_ESTIMATORS: [&str; 28] = [
    "py",
    "so",
    "pyd",
    "pt",
    "pth",
    "pkl",
    "pickle",
    "joblib",
    "onnx",
    "tflite",
    "h5",
    "hdf5",
    "keras",
    "pb",
    "ckpt",
    "safetensors",
    "npy",
    "npz",
    "bin",
    "model",
    "weights",
    "zip",
    "json",
    "yaml",
    "yml",
    "toml",
    "ini",
    "cfg",
];

/// Maximum number of files and folders below an estimator's folder. Published ones have dozens.
const MAX_ENTRIES: usize = 20_000;

/// Maximum size of these files together, bytes.
const MAX_TOTAL_BYTES: u64 = 4 << 30;

/// Maximum depth of folders.
const DEEPEST: usize = 16;

/// SHA-256 of files, each read once.
#[derive(Debug, Default)]
pub struct Contents {
    known: HashMap<PathBuf, String>,
}

fn hexadecimal(hash: Sha256) -> String {
    HEXLOWER.encode(&hash.finalize())
}

fn add(hash: &mut Sha256, path: &Path) -> Result<()> {
    let read = open_regular_file(path).and_then(|mut file| copy(&mut file, hash));
    read.map(drop).with_context(|| format!("cannot read {}", path.display()))
}

impl Contents {
    /// Hash of the file `path`. Later calls return the same hash without reading the file.
    pub fn of_file(&mut self, path: &Path) -> Result<String> {
        if let Some(known) = self.known.get(path) {
            return Ok(known.clone());
        }
        let mut hash = Sha256::new();
        add(&mut hash, path)?;
        let hash = hexadecimal(hash);
        self.known.insert(path.to_path_buf(), hash.clone());
        Ok(hash)
    }

    /// Hash of this program: another build may give other results.
    pub fn of_this_program(&mut self) -> Result<String> {
        self.of_file(&std::env::current_exe().context("cannot find the lockstep program")?)
    }
}

/// Whether an estimator may import or open files in this folder. Hidden folders, Python's caches and virtual
/// environments are excluded.
fn is_open(entry: &DirEntry) -> bool {
    if entry.depth() == 0 {
        return true;
    }
    let name = entry.file_name().to_string_lossy();
    let environment = || entry.file_type().is_dir() && entry.path().join("pyvenv.cfg").is_file();
    !name.starts_with('.') && name != "__pycache__" && !environment()
}

fn is_read(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    extension.is_some_and(|extension| READ_BY_ESTIMATORS.contains(&extension.as_str()))
}

/// Hash of the estimator in `path`: its file, and the programs, models and constants in its folder, from which it
/// imports and in which it runs.
pub fn of_estimator(path: &Path) -> Result<String> {
    let file = Process::file(path)?;
    let folder = file.parent().context("the estimator's file is in no folder")?;
    let walk = WalkDir::new(folder).follow_links(true).max_depth(DEEPEST).sort_by_file_name();
    let mut hash = Sha256::new();
    let (mut entries, mut bytes) = (0, 0);
    for entry in walk.into_iter().filter_entry(is_open) {
        entries += 1;
        // An entry that cannot be listed, such as a broken or circular link, cannot be imported.
        let Ok(entry) = entry else { continue };
        let found = entry.path();
        if entry.file_type().is_file() && (is_read(found) || found == file) {
            let length = entry.metadata().map_or(0, |metadata| metadata.len());
            bytes += length;
            if bytes <= MAX_TOTAL_BYTES {
                // Name and length precede the content, so that no two folders give the same bytes.
                let name = found.strip_prefix(folder).unwrap_or(found).to_string_lossy();
                hash.update((name.len() as u64).to_le_bytes());
                hash.update(name.as_bytes());
                hash.update(length.to_le_bytes());
                add(&mut hash, found)?;
            }
        }
        if entries > MAX_ENTRIES || bytes > MAX_TOTAL_BYTES {
            bail!(
                "estimator {}: its folder has more than {MAX_ENTRIES} files or {} GiB of possible inputs; \
                 move it into a separate folder, so that a sweep can detect edits",
                path.display(),
                MAX_TOTAL_BYTES >> 30
            );
        }
    }
    Ok(hexadecimal(hash))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn hash_equals_the_reference_sha_256() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "abc").unwrap();
        assert_eq!(
            Contents::default().of_file(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(Contents::default().of_file(&folder.path().join("b")).unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn hash_of_an_estimator_covers_exactly_its_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let hash = || of_estimator(folder.path()).unwrap();
        write("BandwidthEstimator.py", "import models.actor");
        write("models/actor.py", "WEIGHTS = 'actor.pth'");
        write("models/actor.pth", "weights");
        let before = hash();
        assert_eq!(hash(), before);
        assert_eq!(of_estimator(&folder.path().join("BandwidthEstimator.py")).unwrap(), before);
        // Files that the estimator does not read.
        for unread in ["log.txt", "models/__pycache__/actor.cpython-311.pyc", ".git/config.json", "traces/4g.csv"] {
            write(unread, "x");
        }
        write("venv/pyvenv.cfg", "");
        write("venv/lib/torch.py", "x");
        assert_eq!(hash(), before);
        let mut hashes = vec![before];
        for (name, text) in [
            ("BandwidthEstimator.py", "import models.actor as actor"),
            ("models/actor.py", "WEIGHTS = 'Actor.pth'"),
            ("models/actor.pth", "Weights"),
            ("constants.json", "{}"),
        ] {
            write(name, text);
            assert!(!hashes.contains(&hash()), "{name}");
            hashes.push(hash());
        }
        fs::rename(folder.path().join("models/actor.pth"), folder.path().join("actor.pth")).unwrap();
        assert!(!hashes.contains(&hash()), "a file that moved");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_bad_links_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine.py"), "class Estimator: pass").unwrap();
        fs::write(elsewhere.path().join("actor.py"), "1").unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("circle")).unwrap();
        std::os::unix::fs::symlink("nowhere.py", folder.path().join("broken.py")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("models")).unwrap();
        let hash = || of_estimator(&folder.path().join("mine.py")).unwrap();
        let before = hash();
        fs::write(elsewhere.path().join("actor.py"), "2").unwrap();
        assert_ne!(hash(), before);
    }

    #[test]
    fn estimator_in_a_huge_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine.py"), "class Estimator: pass").unwrap();
        for name in 0..=MAX_ENTRIES {
            File::create(folder.path().join(name.to_string())).unwrap();
        }
        let said = of_estimator(&folder.path().join("mine.py")).unwrap_err().to_string();
        assert!(said.contains("separate folder") && said.lines().count() == 1, "{said}");
        assert!(of_estimator(&folder.path().join("other.py")).unwrap_err().to_string().contains("no such file"));
    }
}
