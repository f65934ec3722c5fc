//! Foreign bytes that the command refuses before they cost memory or time.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

fn lockstep(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockstep")).args(arguments).output().expect("the command starts")
}

fn refuses(arguments: &[&str], message: &str) {
    let output = lockstep(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(message), "{arguments:?}: {said}");
}

/// An IVF file of one frame.
fn ivf(rate: u32, frame: &[u8]) -> Vec<u8> {
    let mut bytes = b"DKIF\0\0\x20\0VP80\x40\0\x30\0".to_vec();
    bytes.extend(rate.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend((frame.len() as u32).to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(frame);
    bytes
}

#[test]
fn frame_rate_above_1000_is_refused_from_every_source() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (y4m, coded) = (path("a.y4m"), path("a.ivf"));
    fs::write(&y4m, b"YUV4MPEG2 W2 H2 F4294967295:1\nFRAME\n123456").expect("written");
    fs::write(&coded, ivf(u32::MAX, &[])).expect("written");
    let simulate = |clip| ["simulate", "--seconds", "1", "--clip", clip];
    refuses(&simulate("generated:64x48@4294967295"), "at most 1000");
    refuses(&simulate(&y4m), "more than 1000");
    refuses(&[&simulate(&y4m)[..], &["--modelled"]].concat(), "more than 1000");
    refuses(&["encode", &y4m, &path("out.ivf"), "--quantizer", "9"], "more than 1000");
    refuses(&["decode", &coded, "--md5"], "more than 1000");
}

#[test]
fn key_frame_beyond_the_pixel_limit_is_not_decoded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let coded = folder.path().join("a.ivf");
    let mut frame = vec![0; 303_000];
    frame[0] = 0x10;
    frame[3..10].copy_from_slice(&[0x9d, 1, 0x2a, 0xff, 0x3f, 0xff, 0x3f]);
    fs::write(&coded, ivf(30, &frame)).expect("written");
    let coded = coded.to_str().expect("UTF-8");
    refuses(&["decode", coded, "--md5"], "16383x16383 exceeds the limit of 35651584 pixels");
    // A small picture against a smaller limit.
    let mut frame = vec![0; 300];
    frame[0] = 0x10;
    frame[3..10].copy_from_slice(&[0x9d, 1, 0x2a, 64, 0, 48, 0]);
    fs::write(coded, ivf(30, &frame)).expect("written");
    refuses(&["decode", coded, "--md5", "--max-pixels", "3071"], "64x48 exceeds the limit of 3071 pixels");
    assert!(lockstep(&["decode", coded, "--md5", "--max-pixels", "3072"]).status.success());
}

#[test]
fn receiver_refuses_pictures_beyond_its_pixel_limit() {
    let mut receiver = Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["receive", "--listen", "127.0.0.1:0", "--max-pixels", "3071", "--idle-seconds", "20"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    BufReader::new(receiver.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let ticket = line.trim().strip_prefix("ticket: ").expect("a ticket").to_owned();
    let sender = ["send", &ticket, "--source", "generated:64x48@10", "--seconds", "0.5", "--status", "none"];
    let _ = lockstep(&sender);
    let status = receiver.wait().expect("it ends");
    let mut said = String::new();
    receiver.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(!status.success() && said.contains("64x48 have more than the 3071 pixels"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn endless_file_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = folder.path().join("rows.parquet");
    let rows = rows.to_str().expect("UTF-8");
    for words in [
        &["sweep", "--output", rows, "--codec-model", "/dev/zero"][..],
        &["sweep", "--output", rows, "--codecs", "functional", "--controllers", "lockstep", "--model", "/dev/zero"],
        &["simulate", "--encode-time", "/dev/zero"],
        &["simulate", "--controller", "lockstep", "--model", "/dev/zero"],
        &["scenario", "run", "/dev/zero"],
        &["model", "show", "--model", "/dev/zero"],
    ] {
        refuses(words, "it is not a regular file");
    }
}
