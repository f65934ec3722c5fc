//! Downloads files. Their size and hash are recorded at the first download, and verified later.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use lockstep_configuration::read_regular_text;
use lockstep_runner::output_file::write_text;
use lockstep_runner::progress::Progress;

/// Maximum size of a file, bytes.
const MAX_FILE_BYTES: u64 = 4 << 30;
/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Name of the record of downloads in the folder.
pub const RECORD: &str = "downloads.json";

/// A file to download.
pub struct Wanted {
    /// Its name in the folder.
    pub name: String,
    /// Its URL.
    pub url: String,
}

/// Record of a downloaded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    url: String,
    size: u64,
    sha256: String,
}

/// Copies `from` to `to`. Returns size and hash. `each` receives the size so far.
fn copy(mut from: impl Read, mut to: impl Write, mut each: impl FnMut(u64)) -> Result<(u64, String)> {
    let (mut hash, mut size, mut buffer) = (Sha256::new(), 0u64, vec![0; 64 << 10]);
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok((size, HEXLOWER.encode(&hash.finalize())));
        }
        size += read as u64;
        if size > MAX_FILE_BYTES {
            bail!("the file is larger than {MAX_FILE_BYTES} bytes");
        }
        hash.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
        each(size);
    }
}

/// Downloads `file` into `folder`. Returns its record, which must match a `known` one.
fn one(agent: &ureq::Agent, file: &Wanted, folder: &Path, known: Option<&Known>) -> Result<Known> {
    let mut response = agent.get(&file.url).call()?;
    let length = response.body().content_length();
    let mut progress = Progress::new(&file.name, length.unwrap_or(MAX_FILE_BYTES));
    let mut part = tempfile::Builder::new().prefix(".part-").tempfile_in(folder)?;
    let body = response.body_mut().with_config().limit(MAX_FILE_BYTES + 1).reader();
    let (size, hash) = copy(body, part.as_file_mut(), |size| progress.update(size, &format!("{} kB", size / 1_000)))?;
    progress.finish();
    if length.is_some_and(|length| length != size) {
        bail!("the file ended after {size} of {} bytes", length.unwrap_or(0));
    }
    if let Some(known) = known
        && (known.size, &known.sha256) != (size, &hash)
    {
        bail!(
            "it is not what it was: {size} bytes with SHA-256 {hash}, but {} bytes with {} were recorded in {RECORD}; \
             if the change is wanted, remove that entry",
            known.size,
            known.sha256
        );
    }
    part.persist(folder.join(&file.name))?;
    Ok(Known { url: file.url.clone(), size, sha256: hash })
}

/// Downloads `files` into `folder`, except those that match their record.
///
/// # Errors
/// The first file that failed, and the number of other failures. Successful downloads are kept.
pub fn all(files: &[Wanted], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
    let record = folder.join(RECORD);
    let mut known: BTreeMap<String, Known> = match read_regular_text(&record) {
        Ok(text) => serde_json::from_str(&text).with_context(|| record.display().to_string())?,
        Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
        // Continuing would lose the record, and accept other files.
        Err(error) => return Err(error).with_context(|| record.display().to_string()),
    };
    let config = ureq::Agent::config_builder().timeout_connect(Some(CONNECT_TIMEOUT)).build();
    let agent = ureq::Agent::new_with_config(config);
    let mut failures = Vec::new();
    for file in files {
        let there = fs::File::open(folder.join(&file.name)).ok();
        if let (Some(known), Some(there)) = (known.get(&file.name), there)
            && copy(there, std::io::sink(), |_| {}).is_ok_and(|found| found == (known.size, known.sha256.clone()))
        {
            print_line!("{} matches its record", file.name);
            continue;
        }
        match one(&agent, file, folder, known.get(&file.name)) {
            Ok(found) => {
                let first =
                    if known.contains_key(&file.name) { "as recorded" } else { "recorded, checked from now on" };
                print_line!("{}   {} bytes   SHA-256 {} ({first})", file.name, found.size, found.sha256);
                known.insert(file.name.clone(), found);
                write_text(&record, &(serde_json::to_string_pretty(&known)? + "\n"))?;
            }
            Err(error) => failures.push(format!("{} from {}: {error:#}", file.name, file.url)),
        }
    }
    match failures.first() {
        None => Ok(()),
        Some(first) => bail!("{} of {} files could not be downloaded; {first}", failures.len(), files.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use super::*;
    use lockstep_configuration::content_hash;

    /// Answers `answers` requests on loopback with `body` and the content length `length`. Returns the URL.
    fn serve(answers: usize, body: &'static [u8], length: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            for stream in listener.incoming().take(answers) {
                let mut stream = stream.expect("a client");
                let mut lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
            }
        });
        format!("http://{address}")
    }

    fn wanted(server: &str) -> [Wanted; 1] {
        [Wanted { name: "a.trace".to_owned(), url: format!("{server}/a.trace") }]
    }

    #[test]
    fn first_download_is_recorded_and_later_ones_must_match() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = serve(1, b"1\n2\n", 4);
        all(&wanted(&server), folder.path()).expect("it is served");
        assert_eq!(fs::read(folder.path().join("a.trace")).expect("it is there"), b"1\n2\n");
        // The file exists, so no request is sent.
        all(&wanted("http://127.0.0.1:1"), folder.path()).expect("nothing is to be downloaded");
        fs::remove_file(folder.path().join("a.trace")).expect("it was there");
        let other = serve(1, b"1\n3\n", 4);
        let error = all(&wanted(&other), folder.path()).expect_err("other bytes").to_string();
        assert!(error.contains("not what it was"), "{error}");
        assert!(!folder.path().join("a.trace").exists(), "what is not as recorded is not kept");
    }

    #[test]
    fn failed_or_truncated_download_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = all(&wanted("http://127.0.0.1:1"), folder.path()).expect_err("nobody listens").to_string();
        assert!(error.contains("1 of 1 files could not be downloaded"), "{error}");
        let short = serve(1, b"1\n", 400);
        assert!(all(&wanted(&short), folder.path()).is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn unreadable_record_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(RECORD), b"{\"a.trace\": \"\xff\"}").expect("it can be written");
        let server = serve(1, b"1\n2\n", 4);
        let error = format!("{:#}", all(&wanted(&server), folder.path()).expect_err("what was recorded is lost"));
        assert!(error.contains(RECORD) && error.contains("not text"), "{error}");
        assert!(!folder.path().join("a.trace").exists(), "nothing is downloaded that cannot be checked");
    }

    #[test]
    fn hashes_are_those_of_fips_180() {
        assert_eq!(content_hash(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
