//! Tests calls of `lockstepsink` and `lockstepsrc` over loopback: with each other, and with ends of the crate
//! `lockstep`.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use gst::glib;
use gst::prelude::*;
use lockstep::{Call, Event, Message, Picture, Ticket, VideoFormat};

/// Maximum time on a crowded machine.
const LIMIT: Duration = Duration::from_secs(30);
/// A live source of small pictures.
const PICTURES: &str =
    "videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=160,height=120,framerate=30/1";

/// A pipeline that stops on drop.
struct Pipeline(gst::Pipeline);

impl Drop for Pipeline {
    fn drop(&mut self) {
        let _ = self.0.set_state(gst::State::Null);
    }
}

impl Pipeline {
    fn new(description: &str) -> Self {
        gst::init().expect("GStreamer starts");
        gstlockstep::plugin_desc::plugin_register_static().expect("the plugin registers");
        Self(gst::parse::launch(description).expect("a pipeline").downcast().expect("a pipeline"))
    }

    fn play(self) -> Self {
        self.0.set_state(gst::State::Playing).expect("it plays");
        self
    }

    fn element(&self, name: &str) -> gst::Element {
        self.0.by_name(name).expect("an element of this name")
    }

    /// The next message for which `wanted` returns a value.
    fn message<T>(&self, wanted: impl Fn(&gst::Message) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        let bus = self.0.bus().expect("a bus");
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = gst::ClockTime::try_from(left).expect("a time");
            let message = bus.timed_pop(left).expect("a message in time");
            if let Some(found) = wanted(&message) {
                return found;
            }
            if let gst::MessageView::Error(error) = message.view() {
                panic!("{} {:?}", error.error(), error.debug());
            }
        }
    }

    /// The next `lockstep-event` of this type.
    fn event(&self, kind: &str) -> gst::Structure {
        self.message(|message| {
            let structure = message.structure().filter(|structure| structure.name() == "lockstep-event")?;
            (structure.get::<&str>("type") == Ok(kind)).then(|| structure.to_owned())
        })
    }

    fn ticket(&self) -> String {
        self.event("ticket").get("ticket").expect("a ticket")
    }

    /// Samples that reach the `appsink` of this name.
    fn samples(&self, name: &str) -> Receiver<gst::Sample> {
        let (give, take) = mpsc::channel();
        let appsink: gst_app::AppSink = self.element(name).downcast().expect("an appsink");
        let new_sample = move |appsink: &gst_app::AppSink| {
            let sample = appsink.pull_sample().map_err(|_| gst::FlowError::Flushing)?;
            give.send(sample).map(|()| gst::FlowSuccess::Ok).map_err(|_| gst::FlowError::Eos)
        };
        appsink.set_callbacks(gst_app::AppSinkCallbacks::builder().new_sample(new_sample).build());
        take
    }
}

fn size(sample: &gst::Sample) -> (u32, u32) {
    let info = gst_video::VideoInfo::from_caps(sample.caps().expect("caps")).expect("raw video");
    (info.width(), info.height())
}

fn wait_for(call: &Call, wanted: impl Fn(&Event) -> bool) -> Event {
    let deadline = Instant::now() + LIMIT;
    loop {
        let event = call.next_event(deadline.saturating_duration_since(Instant::now())).expect("an event in time");
        if wanted(&event) {
            return event;
        }
    }
}

/// A relay that drops every twentieth datagram in each direction; returns the ticket that leads over it.
fn over_lossy_relay(ticket: &str) -> String {
    let mut ticket: Ticket = ticket.parse().expect("a ticket");
    let listener = ticket.addresses[0];
    let relay = UdpSocket::bind("127.0.0.1:0").expect("an address");
    ticket.addresses = vec![relay.local_addr().expect("an address")];
    thread::spawn(move || {
        let (mut joiner, mut sent) = (None, 0_u32);
        let mut buffer = [0; 65_535];
        // The thread ends with the test's process.
        while let Ok((length, from)) = relay.recv_from(&mut buffer) {
            let to = if from == listener {
                joiner
            } else {
                joiner = Some(from);
                Some(listener)
            };
            sent += 1;
            if let Some(to) = to.filter(|_| sent % 20 != 0) {
                let _ = relay.send_to(&buffer[..length], to);
            }
        }
    });
    ticket.to_string()
}

#[test]
fn pictures_messages_and_events_arrive_in_both_directions() {
    for sink_listens in [true, false] {
        let source = "lockstepsrc name=source";
        let show = "video/x-raw,format=I420 ! appsink name=show sync=false";
        let (sending, receiving);
        if sink_listens {
            sending = Pipeline::new(&format!("{PICTURES} ! lockstepsink name=sink listen=127.0.0.1:0")).play();
            receiving = Pipeline::new(&format!("{source} ticket={} ! {show}", sending.ticket()));
        } else {
            receiving = Pipeline::new(&format!("{source} listen=127.0.0.1:0 ! {show}"));
            receiving.0.set_state(gst::State::Ready).expect("ready");
            receiving.0.set_state(gst::State::Paused).expect("paused");
            let ticket: String = receiving.element("source").property("ticket");
            assert_eq!(ticket, receiving.ticket());
            sending = Pipeline::new(&format!("{PICTURES} ! lockstepsink name=sink ticket={ticket} latency=low")).play();
        }
        let samples = receiving.samples("show");
        let receiving = receiving.play();
        sending.event("joined");
        receiving.event("joined");

        let mut last = None;
        for _ in 0..30 {
            let sample = samples.recv_timeout(LIMIT).expect("a picture");
            assert_eq!(size(&sample), (160, 120));
            let buffer = sample.buffer().expect("a buffer");
            let pts = buffer.pts().expect("a time stamp");
            assert!(last.is_none_or(|last| last < pts));
            if let Some(capture) = buffer.meta::<gst::ReferenceTimestampMeta>() {
                assert!(capture.timestamp() <= pts);
                last = Some(pts);
            }
        }
        assert!(last.is_some(), "the time of capture is known");

        let payload = glib::Bytes::from_static(b"go");
        let sent: bool = receiving.element("source").emit_by_name("send-message", &[&payload, &-1_i32]);
        assert!(sent);
        let message = sending.event("message");
        assert_eq!(message.get::<glib::Bytes>("payload").expect("bytes"), payload);
        assert_eq!(message.get::<i32>("channel"), Ok(-1));
        assert!(sending.event("quality").get::<u64>("frames-sent").expect("a number") > 0);
        assert!(receiving.event("quality").get::<u64>("frames-received").expect("a number") > 0);

        drop(sending);
        receiving.message(|message| matches!(message.view(), gst::MessageView::Eos(_)).then_some(()));
    }
}

#[test]
fn pictures_arrive_at_an_end_of_the_crate_over_loss() {
    let (call, ticket) =
        Call::builder().receive_frames().listen("127.0.0.1:0".parse().expect("an address")).expect("it listens");
    let ticket = over_lossy_relay(&ticket.to_string());
    let sending = Pipeline::new(&format!("{PICTURES} ! lockstepsink ticket={ticket} max-bitrate=400000")).play();
    wait_for(&call, |event| *event == Event::Joined);
    for _ in 0..45 {
        let frame = call.next_frame(LIMIT).expect("a picture");
        assert_eq!((frame.picture.width(), frame.picture.height()), (160, 120));
    }
    call.send_message(Message::reliable("stop")).expect("connected");
    sending.event("message");
    call.leave().expect("it ends well");
    sending.event("ended");
}

#[test]
fn size_of_pictures_changes_during_the_call() {
    let receiving = Pipeline::new("lockstepsrc name=source listen=127.0.0.1:0 ! appsink name=show sync=false");
    let samples = receiving.samples("show");
    let receiving = receiving.play();
    let ticket = receiving.ticket();
    let description = format!(
        "videotestsrc is-live=true ! capsfilter name=size caps=video/x-raw,format=I420,width=160,height=120,framerate=30/1 \
         ! lockstepsink ticket={ticket}"
    );
    let sending = Pipeline::new(&description).play();
    assert_eq!(size(&samples.recv_timeout(LIMIT).expect("a picture")), (160, 120));
    let larger = "video/x-raw,format=I420,width=201,height=151,framerate=15/1".parse::<gst::Caps>().expect("caps");
    sending.element("size").set_property("caps", larger);
    let deadline = Instant::now() + LIMIT;
    while size(&samples.recv_timeout(LIMIT).expect("a picture")) != (201, 151) {
        assert!(Instant::now() < deadline, "the size changes");
    }
}

#[test]
fn pictures_of_the_crate_reach_a_pipeline() {
    let format = VideoFormat::new(64, 48);
    let (call, ticket) =
        Call::builder().send_frames(format).listen("127.0.0.1:0".parse().expect("an address")).expect("it listens");
    let receiving =
        Pipeline::new(&format!("lockstepsrc ticket={ticket} stale-after=1000 ! appsink name=show sync=false"));
    let samples = receiving.samples("show");
    let receiving = receiving.play();
    wait_for(&call, |event| *event == Event::Joined);
    call.send_frame(Picture::from_i420(64, 48, vec![90; 64 * 48 * 3 / 2]).expect("a picture"), Instant::now());
    let sample = samples.recv_timeout(LIMIT).expect("a picture");
    let map = sample.buffer().expect("a buffer").map_readable().expect("memory");
    let luma = map[64 * 24 + 32];
    assert!(luma.abs_diff(90) <= 4, "{luma}");
    assert!(receiving.event("stale").get::<u64>("age").expect("an age") >= 1_000_000_000);
}

#[test]
fn listener_that_reconnects_serves_the_next_sender() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    let receiving = Pipeline::new(&format!(
        "lockstepsrc listen=127.0.0.1:0 reconnect=true key-file={} ! appsink name=show sync=false",
        key.display()
    ));
    let samples = receiving.samples("show");
    let receiving = receiving.play();
    let ticket = receiving.ticket();
    for _ in 0..2 {
        let sending = Pipeline::new(&format!("{PICTURES} ! lockstepsink ticket={ticket}")).play();
        receiving.event("joined");
        samples.try_iter().for_each(drop);
        samples.recv_timeout(LIMIT).expect("a picture");
        drop(sending);
        receiving.event("interrupted");
    }
}

#[test]
fn sound_arrives_with_the_pictures() {
    let receiving = Pipeline::new(
        "lockstepsrc name=source listen=127.0.0.1:0 source.src ! fakesink sync=false \
         source.audio_src ! audio/x-raw,format=S16LE,rate=48000,channels=1 ! appsink name=hear sync=false",
    );
    let samples = receiving.samples("hear");
    let receiving = receiving.play();
    let ticket = receiving.ticket();
    let description = format!(
        "lockstepsink name=sink ticket={ticket} {PICTURES} ! sink.sink \
         audiotestsrc is-live=true freq=400 ! audio/x-raw,rate=48000,channels=2 ! sink.audio_sink"
    );
    let _sending = Pipeline::new(&description).play();
    let deadline = Instant::now() + LIMIT;
    loop {
        let sample = samples.recv_timeout(LIMIT).expect("sound");
        let map = sample.buffer().expect("a buffer").map_readable().expect("memory");
        assert_eq!(map.len(), 1_920);
        let loudest = map.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]).unsigned_abs()).max();
        if loudest > Some(8_000) {
            return;
        }
        assert!(Instant::now() < deadline, "the tone is heard");
    }
}

#[test]
fn recording_ends_with_the_end_of_the_stream() {
    let receiving = Pipeline::new("lockstepsrc listen=127.0.0.1:0 ! appsink name=show sync=false");
    let samples = receiving.samples("show");
    let receiving = receiving.play();
    let ticket = receiving.ticket();
    // It isn't live: the sink paces it.
    let description = format!(
        "videotestsrc num-buffers=60 ! video/x-raw,format=I420,width=160,height=120,framerate=30/1 ! lockstepsink ticket={ticket}"
    );
    let began = Instant::now();
    let sending = Pipeline::new(&description).play();
    sending.message(|message| matches!(message.view(), gst::MessageView::Eos(_)).then_some(()));
    assert!(began.elapsed() >= Duration::from_millis(1_900), "two seconds of pictures take that long");
    drop(sending);
    receiving.message(|message| matches!(message.view(), gst::MessageView::Eos(_)).then_some(()));
    assert!(samples.try_iter().count() >= 30, "most pictures arrive");
}

/// A `gst-launch-1.0` with the plugin that Cargo built for this test; none if the command is not installed.
fn gst_launch(description: &str) -> Option<Child> {
    let program = env::current_exe().expect("a test program");
    let plugin = program.with_file_name("libgstlockstep.so");
    let mut command = Command::new("gst-launch-1.0");
    command.arg(format!("--gst-plugin-load={}", plugin.display())).arg("--messages").args(description.split(' '));
    match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => Some(child),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("cannot run gst-launch-1.0: {error}"),
    }
}

#[test]
fn gst_launch_sends_to_gst_launch() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shown.yuv");
    let shown = file.display();
    let Some(mut receiving) = gst_launch(&format!("lockstepsrc listen=127.0.0.1:0 ! filesink location={shown}")) else {
        eprintln!("no gst-launch-1.0: this test is skipped");
        return;
    };
    let mut lines = BufReader::new(receiving.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let announced = lines.find_map(|line| Some(line.split_once("ticket=(string)")?.1.to_owned())).expect("a ticket");
    let ticket = announced.trim_end_matches(';');
    let reader = thread::spawn(move || lines.last());
    let video = PICTURES.replace("is-live=true", "is-live=true num-buffers=150");
    let sending = gst_launch(&format!("{video} ! lockstepsink ticket={ticket}")).expect("it ran before");
    assert!(sending.wait_with_output().expect("it ends").status.success());
    assert!(receiving.wait().expect("it ends").success());
    reader.join().expect("it reads");
    let frames = fs::metadata(&file).expect("a file").len() / (160 * 120 * 3 / 2);
    assert!((100..=150).contains(&frames), "{frames} of 150 pictures arrive");
}

/// Compiles `end.c` against the C library in `folder`; none if there is no C compiler.
fn c_end(folder: &Path) -> Option<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = env::current_exe().expect("a test program");
    let library = program.ancestors().nth(2).expect("target/PROFILE/deps/PROGRAM");
    let (target, profile) = (library.parent().expect("a folder"), library.file_name().expect("a profile"));
    let profile = if profile == "debug" { "dev".as_ref() } else { profile };
    // Cargo builds no C library for a test. `make test-gstreamer` shares the folder of the workspace.
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Build scripts that read the variables of this test would run again.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_CRATE_", "CARGO_PRIMARY_"].iter().any(|set| text.starts_with(set)) {
            cargo.env_remove(&name);
        }
    }
    cargo.args(["build", "--package", "lockstep-capi", "--package", "lockstep-features", "--lib", "--target-dir"]);
    cargo.arg(target).arg("--profile").arg(profile).current_dir(package.join(".."));
    assert!(cargo.status().expect("cargo runs").success(), "the library is built");
    let end = folder.join("end");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(package.join("../crates/capi/include"));
    compile.arg(package.join("tests/end.c")).arg("-o").arg(&end).arg("-L").arg(library);
    compile.arg("-llockstep").arg(format!("-Wl,-rpath,{}", library.display()));
    match compile.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => panic!("cannot run cc: {error}"),
    }
    Some(end)
}

#[test]
fn pipeline_and_c_program_exchange_pictures() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(end) = c_end(folder.path()) else {
        eprintln!("no cc: this test is skipped");
        return;
    };
    let sending = Pipeline::new(&format!("{PICTURES} ! lockstepsink listen=127.0.0.1:0")).play();
    let receives = Command::new(&end).args(["receive", &sending.ticket()]).status().expect("it runs");
    assert!(receives.success(), "100 pictures arrive in C");

    let receiving = Pipeline::new("lockstepsrc listen=127.0.0.1:0 ! appsink name=show sync=false");
    let samples = receiving.samples("show");
    let receiving = receiving.play();
    let mut sends = Command::new(&end).args(["send", &receiving.ticket()]).spawn().expect("it runs");
    for _ in 0..100 {
        assert_eq!(size(&samples.recv_timeout(LIMIT).expect("a picture")), (160, 120));
    }
    drop(receiving);
    assert!(sends.wait().expect("it ends").success(), "the C program sees the end of the call");
}

#[test]
fn pipeline_without_ticket_fails_with_the_property() {
    let receiving = Pipeline::new("lockstepsrc ! fakesink");
    assert!(receiving.0.set_state(gst::State::Playing).is_err());
    let sending = Pipeline::new(&format!("{PICTURES} ! lockstepsink")).play();
    for pipeline in [&receiving, &sending] {
        let reason = pipeline.message(|message| match message.view() {
            gst::MessageView::Error(error) => Some(error.error().to_string()),
            _ => None,
        });
        assert_eq!(reason, "cannot start the call: set the property ticket or listen");
    }
}
