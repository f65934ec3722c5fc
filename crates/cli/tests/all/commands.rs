//! Tests of single commands.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::command::text;

fn lockstep(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockstep")).args(arguments).output().expect("the command starts")
}

fn succeed(arguments: &[&str]) -> String {
    let output = lockstep(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn equal_simulations_write_identical_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |name: &str| {
        let files = ["json", "csv", "parquet"].map(|kind| folder.path().join(format!("{name}.{kind}")));
        for frames in &files[1..] {
            succeed(&[
                "simulate",
                "--clip",
                "generated:160x96@30",
                "--trace",
                "cellular:mean=1mbps,seed=3",
                "--loss",
                "3%",
                "--burst-loss",
                "0.5%,30%",
                "--reorder",
                "1%,15ms",
                "--loss-at",
                "1s+100ms",
                "--jitter-ms",
                "2",
                "--seconds",
                "2",
                "--seed",
                "5",
                "--json",
                text(&files[0]),
                "--frames",
                text(frames),
            ]);
        }
        files.map(|file| fs::read(file).expect("the file was written"))
    };
    assert!(run("first") == run("second"));
}

#[test]
fn report_of_a_simulation_has_its_documented_fields() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("out/call.json");
    let frames = folder.path().join("out/frames.csv");
    succeed(&[
        "simulate",
        "--clip",
        "generated:160x96@30",
        "--trace",
        "constant:500kbps",
        "--seconds",
        "2",
        "--seed",
        "9",
        "--json",
        text(&json),
        "--frames",
        text(&frames),
    ]);
    let report: Value = serde_json::from_slice(&fs::read(json).expect("written")).expect("JSON");
    for path in [
        "/video_delay_ms/p50",
        "/video_delay_ms/mean",
        "/video_delay_ms/p95",
        "/displayed_delay_ms/p50",
        "/displayed_delay_ms/mean",
        "/displayed_delay_ms/p95",
        "/video_delay_floor_ms/p50",
        "/video_delay_floor_ms/mean",
        "/video_delay_floor_ms/p95",
        "/near_floor",
        "/ssim_db/p25",
        "/ssim_db/mean",
        "/psnr_db/mean",
        "/throughput_bps",
        "/link_utilisation",
        "/frames/captured",
        "/frames/sent",
        "/frames/skipped",
        "/frames/displayed",
        "/fill",
        "/overshoot_ratio",
        "/frames_per_second",
        "/harmonic_frame_rate",
        "/freezes/count",
        "/freezes/total_seconds",
        "/freezes/longest_seconds",
        "/stall_minutes_per_hour",
        "/qoe_p",
        "/qoe_d",
        "/seed",
    ] {
        assert!(report.pointer(path).is_some_and(Value::is_number), "{path}");
    }
    assert_eq!(report["seed"], 9);
    let rows = fs::read_to_string(frames).expect("written").lines().count() as u64 - 1;
    assert!(rows >= report["frames"]["captured"].as_u64().expect("a count"), "one row per captured frame");
}

#[test]
fn floor_of_a_trace_adds_propagation_coding_and_waiting() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("tenth.up");
    fs::write(&trace, "100\n").expect("written");
    // Captures come every 50 ms and are coded 7.2 ms later, so they wait for 92.8 and 42.8 ms.
    let said = succeed(&["trace", text(&trace), "--floor", "--rate", "20", "--seconds", "1"]);
    assert!(said.contains("video delay floor   p50 98.0 ms   mean 98.0 ms   p95 123.0 ms"), "{said}");
    let words = ["--floor", "--rate", "10", "--delay-ms", "0", "--encode-ms", "60", "--decode-ms", "1"];
    let said = succeed(&[&["trace", text(&trace)][..], &words].concat());
    assert!(said.contains("p50 101.0 ms   mean 101.0 ms   p95 101.0 ms"), "{said}");
    assert!(succeed(&["trace", "constant:0mbps", "--floor"]).contains("none: nothing ever passes"));
    assert!(!succeed(&["trace", text(&trace)]).contains("floor"));
}

#[test]
fn only_the_conventional_codec_retransmits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let retransmitted = |codec: &str| {
        let json = folder.path().join("call.json");
        let words = ["simulate", "--clip", "generated:160x96@30", "--trace", "constant:500kbps", "--seconds", "2"];
        let more = ["--loss", "10%", "--controller", "fixed:200kbps", "--codec", codec, "--json", text(&json)];
        succeed(&[&words[..], &more[..]].concat());
        let report: Value = serde_json::from_slice(&fs::read(json).expect("written")).expect("JSON");
        assert_eq!(report["config"]["codec"], codec);
        report["counters"]["sender"]["retransmitted"].as_u64().expect("a count")
    };
    assert_eq!(retransmitted("functional"), 0);
    assert!(retransmitted("conventional") > 0);
}

#[cfg(unix)]
#[test]
fn wait_for_the_other_end_of_a_fifo_is_announced() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let folder = tempfile::tempdir().unwrap();
    let pictures = [b"YUV4MPEG2 W4 H2 F10:1\nFRAME\n".as_slice(), &[7; 12]].concat();
    fs::write(folder.path().join("a.y4m"), &pictures).unwrap();
    let fifos = ["in.y4m", "in.mkv", "in.ivf", "in.up", "out.ivf"];
    assert!(Command::new("mkfifo").args(fifos).current_dir(folder.path()).status().expect("there is mkfifo").success());
    let short = ["--seconds", "1"];
    let cases: [(&[&str], &str, &str); 6] = [
        (&["encode", "in.y4m", "a.ivf", "--quantizer", "20"], "writer", "in.y4m"),
        (&["decode", "in.ivf", "--md5"], "writer", "in.ivf"),
        (&["simulate", "--clip", "in.y4m"], "writer", "in.y4m"),
        (&["simulate", "--clip", "in.mkv"], "writer", "in.mkv"),
        (&["simulate", "--clip", "generated:64x48@30", "--trace", "in.up"], "writer", "in.up"),
        (&["encode", "a.y4m", "out.ivf", "--quantizer", "20"], "reader", "out.ivf"),
    ];
    for (words, partner, name) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
        command.args(words).args(short.iter().filter(|_| words[0] == "simulate")).current_dir(folder.path());
        let mut waiting = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(waiting.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, format!("waiting for a {partner} of {name}: it is a FIFO\n"), "{words:?}");
        if words[..2] == ["encode", "in.y4m"] {
            fs::write(folder.path().join(name), &pictures).unwrap();
            assert!(waiting.wait().unwrap().success() && folder.path().join("a.ivf").exists());
        } else {
            waiting.kill().unwrap();
            waiting.wait().unwrap();
        }
    }
    let mut waiting = Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["decode", "in.ivf", "--md5"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Opening waits for the reader.
    let writer = fs::File::options().write(true).open(folder.path().join("in.ivf")).unwrap();
    let mut line = String::new();
    BufReader::new(waiting.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "waiting for data from in.ivf: its writer has sent nothing\n");
    drop(writer);
    assert!(!waiting.wait().unwrap().success(), "an empty file is no IVF");
    let sweep = ["sweep", "--output", "rows.parquet", "--fresh", "--traces", "constant:1mbps", "--seconds", "1"];
    assert!(Command::new("mkfifo").arg(folder.path().join("rows.parquet.journal")).status().unwrap().success());
    let refused = Command::new(env!("CARGO_BIN_EXE_lockstep")).args(sweep).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("rows.parquet.journal: it is not a regular file"), "{said}");
}

#[test]
fn frames_that_cannot_be_decoded_are_counted_on_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (source, coded, decoded) = (path("a.y4m"), path("a.ivf"), path("b.y4m"));
    let frame = [b"FRAME\n".as_slice(), &[7; 12]].concat();
    fs::write(&source, [b"YUV4MPEG2 W4 H2 F10:1\n".as_slice(), &frame, &frame, &frame].concat()).unwrap();
    succeed(&["encode", text(&source), text(&coded), "--quantizer", "20"]);
    let mut bytes = fs::read(&coded).unwrap();
    bytes[32 + 12 + 3] ^= 0xff; // the start code of the key frame
    fs::write(&coded, bytes).unwrap();
    let output = lockstep(&["decode", text(&coded), text(&decoded)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("3 of 3 frames could not be decoded, first frame 1: "), "{said}");
    assert!(said.ends_with("b.y4m is not written\n") && !decoded.exists(), "{said}");
}

#[test]
fn encoded_pictures_decode_equally_in_every_format() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let (source, coded, decoded, again) = (path("a.y4m"), path("a.ivf"), path("b.y4m"), path("b.ivf"));
    let mut y4m = b"YUV4MPEG2 W18 H10 F25:1 Ip A1:1 C420jpeg\n".to_vec();
    for picture in 0..3u32 {
        y4m.extend(b"FRAME\n");
        y4m.extend((0..18 * 10 + 2 * 9 * 5u32).map(|at| (at * 7 + picture * 31) as u8));
    }
    fs::write(&source, y4m).expect("written");
    succeed(&["encode", text(&source), text(&coded), "--quantizer", "30"]);
    succeed(&["decode", text(&coded), text(&decoded)]);
    let sums = succeed(&["decode", "--md5", text(&coded)]);
    assert_eq!(sums.lines().count(), 3);
    assert!(sums.lines().next().is_some_and(|line| line.ends_with("  a-18x10-0001.i420")), "{sums}");
    // At the finest quantizer a second coding does not change the pictures, so both paths are equal.
    succeed(&["encode", text(&decoded), text(&again), "--quantizer", "0"]);
    assert_eq!(succeed(&["decode", "--md5", text(&again)]).lines().count(), 3);
}

#[test]
fn live_call_shows_the_senders_pictures() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("call.json");
    succeed(&[
        "call",
        "--clip",
        "generated:160x96@15",
        "--trace",
        "constant:1mbps",
        "--seconds",
        "2",
        "--json",
        text(&json),
    ]);
    let report: Value = serde_json::from_slice(&fs::read(json).expect("written")).expect("JSON");
    assert!(report["frames"]["displayed"].as_u64() > Some(0), "{}", report["frames"]);
    assert!(report["ssim_db"]["mean"].is_number());
    assert_eq!(report["counters"]["decoder"]["mismatched"], 0);
}

/// The receiver learns the codec from the sender.
#[test]
fn live_call_shows_pictures_of_av1() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("call.json");
    let options = ["--codec", "av1", "--clip", "generated:160x96@15", "--trace", "constant:1mbps", "--loss", "5%"];
    let output = lockstep(&[&["call", "--seconds", "2", "--json", text(&json)], &options[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("lockstep: codec av1: ") {
        eprintln!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&fs::read(json).expect("written")).expect("JSON");
    assert!(report["frames"]["displayed"].as_u64() > Some(0), "{}", report["frames"]);
    assert_eq!(report["counters"]["decoder"]["mismatched"], 0);
}

#[test]
fn errors_have_one_line() {
    for (arguments, expected) in [
        (&["simulate", "--trace", "nosuch.up"][..], "no such file"),
        (&["simulate", "--trace", "constant:fast"], "needs a number and a unit"),
        (&["simulate", "--clip", "generated:0x0"], "is not WIDTHxHEIGHT"),
        (&["simulate", "--clip", "/dev/video77", "--seconds", "1"], "--source generated"),
        (&["decode", "/dev/null", "--md5"], "not an ivf file"),
        (&["encode", "/dev/null", "/dev/null", "--quantizer", "3"], "not a y4m file"),
        (&["receive", "--listen", "192.0.2.1:9"], "choose another"),
        (&["trace", "constant:1mbps", "--output", "trace.xyz"], "must end in"),
        (&["trace", "constant:900gbps", "--output", "many.up"], "cannot write many.up: more than"),
    ] {
        let output = lockstep(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?} succeeded");
        assert!(said.contains(expected) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}

#[test]
#[cfg(unix)]
fn escape_sequences_of_files_never_reach_the_terminal() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("red\x1b[31m.up");
    fs::write(&trace, "1\n\x1b]0;title\x07\n").expect("written");
    let output = lockstep(&["simulate", "--modelled", "--trace", text(&trace)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("red") && said.contains("title"), "{said}");
    assert!(!said.contains(['\x1b', '\x07']), "{said:?}");
    // As on a terminal, clap passes on everything then.
    let words = ["simulate", "--seconds", "1\x1b]0;title\x07"];
    let output = Command::new(env!("CARGO_BIN_EXE_lockstep")).args(words).env("CLICOLOR_FORCE", "1").output();
    let output = output.expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(r"1\u{1b}]0;title\u{7}") && !said.contains(['\x1b', '\x07']), "{said:?}");
}

#[test]
fn screens_without_a_display_are_an_empty_list_with_a_reason() {
    let command = ["devices", "--json", "-"];
    let output = Command::new(env!("CARGO_BIN_EXE_lockstep")).args(command).env_remove("DISPLAY").output();
    let listed: Value = serde_json::from_slice(&output.expect("the command starts").stdout).expect("a document");
    assert_eq!(listed["screens"], Value::Array(Vec::new()), "{listed}");
    let problems = listed["problems"].as_array().expect("a list");
    assert!(problems.iter().any(|one| one.as_str().is_some_and(|one| one.contains("the screen"))), "{listed}");
}

#[test]
fn devices_are_listed_even_where_there_are_none() {
    let listed: serde_json::Value = serde_json::from_str(&succeed(&["devices", "--json", "-"])).expect("a document");
    for key in ["cameras", "screens", "microphones", "loudspeakers", "problems"] {
        assert!(listed[key].is_array(), "{key}: {listed}");
    }
    let output = lockstep(&["talk", "--no-window", "--camera", "no such camera"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("no such camera"), "{error}");
}

#[test]
fn traces_convert_between_mahimahi_and_alphartc() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (json, up) = (folder.path().join("t.json"), folder.path().join("t.up"));
    succeed(&["trace", "steps:1mbps@4s/2mbps@4s", "--output", text(&json)]);
    succeed(&["trace", text(&json), "--output", text(&up)]);
    assert!(succeed(&["trace", text(&up)]).contains("mean 1.50 Mb/s"));
}

#[test]
fn trace_of_one_millisecond_is_described() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let up = folder.path().join("t.up");
    fs::write(&up, "1\n").expect("written");
    let said = succeed(&["trace", text(&up)]);
    assert!(said.contains("1 delivery opportunities in 0.001 s"), "{said}");
    let described = "0.001 s   mean 12.00 Mb/s   lowest 12.00 Mb/s   highest 12.00 Mb/s (each over 0.001 s)";
    assert!(said.contains(described), "{said}");
}

#[test]
fn conversion_of_a_folder_skips_unsupported_traces() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&from).expect("made");
    for (name, content) in [("a.trace", "5\n"), ("mid.trace", "1000000000\n"), ("z.trace", "7\n")] {
        fs::write(from.join(name), content).expect("written");
    }
    let convert =
        |interval| lockstep(&["data", "convert", text(&from), "--output", text(&to), "--interval-ms", interval]);
    let output = convert("200");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("skipped mid.trace: bins have to last"), "{said}");
    assert!(to.join("a.trace.csv").exists() && to.join("z.trace.csv").exists());
    assert!(!to.join("mid.trace.csv").exists());
    let said = String::from_utf8_lossy(&convert("0").stderr).into_owned();
    assert!(said.contains("could be converted") && said.contains("skipped z.trace"), "{said}");
}

#[test]
fn study_of_salsify_announces_its_number_of_calls() {
    for (words, said) in [
        (&["--seconds", "1"][..], "salsify, budget small: 7 calls of 1 s\n"),
        (&["--seconds", "12", "--budget", "full"], "salsify, budget full: 7 calls of 12 s, about "),
    ] {
        let output = lockstep(&[&["study", "salsify", "--clip", "generated:64x48@30"], words].concat());
        let first = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && first.starts_with(said), "{first}");
    }
}

#[cfg(unix)]
#[test]
fn python_replaces_the_command_and_receives_its_signals() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::process::Stdio;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let python = folder.path().join("python");
    // The script prints its process id, runs until SIGTERM, and exits with its own status.
    fs::write(&python, "#!/bin/sh\ntrap 'exit 143' TERM\necho $$\nwhile :; do sleep 0.05; done\n").expect("written");
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).expect("permissions");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    let mut running = command
        .args(["testbed", "list"])
        .env("LOCKSTEP_PYTHON", &python)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    BufReader::new(running.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line.trim(), running.id().to_string());
    let killed = Command::new("kill").arg(running.id().to_string()).status().expect("kill starts");
    assert!(killed.success());
    assert_eq!(running.wait().expect("it ends").code(), Some(143));

    let nowhere = Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["testbed", "list"])
        .env("LOCKSTEP_PYTHON", folder.path().join("nowhere"))
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(!nowhere.status.success() && said.contains("LOCKSTEP_PYTHON may name another Python"), "{said}");
}

#[cfg(unix)]
mod interpreter {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// An executable shell script.
    fn script(path: &Path, lines: &str) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, format!("#!/bin/sh\n{lines}\n")).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    /// Installs the command under another path by a hard link, whose path is separate from the original.
    fn install(path: &Path) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let built = env!("CARGO_BIN_EXE_lockstep");
        fs::hard_link(built, path).or_else(|_| fs::copy(built, path).map(drop)).expect("installed");
    }

    /// Output of `lockstep testbed list` in another folder, and whether it succeeds. The Python of the PATH lacks the
    /// package.
    fn run(command: &Path, folder: &Path) -> (bool, String) {
        script(&folder.join("path/python3"), "exit 1");
        let mut command = Command::new(command);
        command.args(["testbed", "list"]).current_dir(folder).env("PATH", folder.join("path"));
        let output = command.env_remove("LOCKSTEP_PYTHON").output().expect("the command starts");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    #[test]
    fn python_beside_the_command_runs_where_path_has_none() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (command, link) = (folder.path().join("venv/bin/lockstep"), folder.path().join("links/lockstep"));
        install(&command);
        script(&folder.path().join("venv/bin/python"), "echo beside");
        assert_eq!(run(&command, folder.path()), (true, "beside\n".to_owned()));
        // The link that `uv tool install` creates.
        fs::create_dir(folder.path().join("links")).expect("made");
        symlink(&command, &link).expect("linked");
        assert_eq!(run(&link, folder.path()), (true, "beside\n".to_owned()));
    }

    #[test]
    fn venv_of_the_checkout_runs_for_a_built_command() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let checkout = folder.path().join("checkout");
        let command = checkout.join("target/release/lockstep");
        install(&command);
        script(&checkout.join(".venv/bin/python"), "echo own");
        fs::write(checkout.join("pyproject.toml"), "").expect("written");
        assert_eq!(run(&command, folder.path()), (true, "own\n".to_owned()));
    }

    #[test]
    fn error_names_every_python_tried_and_a_remedy() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let checkout = folder.path().join("checkout");
        let command = checkout.join("target/release/lockstep");
        install(&command);
        script(&checkout.join(".venv/bin/python"), "exit 1");
        fs::write(checkout.join("pyproject.toml"), "").expect("written");
        let (worked, said) = run(&command, folder.path());
        assert!(!worked && said.contains("no Python has the package lockstep"), "{said}");
        assert!(said.contains(&format!("tried {}, python3", text(&checkout.join(".venv/bin/python")))), "{said}");
        assert!(said.contains(&format!("make -C {} setup", text(&checkout))), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
