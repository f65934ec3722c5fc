//! `lockstep emulate --tun`: emulates a link between two network namespaces, and runs a program in one of them.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, stderr, stdin};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Error, Result, bail};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

use lockstep_configuration::{CallArguments, LinkArguments, Seconds, counters};
use lockstep_emulator::{
    EmulatorStatus, Namespace, NextAction, Start, Tunnel, TunnelError, TunnelOptions, TunnelResult,
    is_in_own_user_namespace, run_again_in_user_namespace,
};
use lockstep_link::LinkStatistics;
use lockstep_runner::interruption::Interrupted;
use lockstep_runner::output_file::{self, write_json};
use lockstep_runner::progress::ChangingLine;
use lockstep_units::Timestamp;

use crate::packet_csv::PacketCsv;
use crate::reporter::StatusArgument;

/// Exit status if this machine lacks a requirement of the tunnel, as for skipped tests.
const MISSING: u8 = 77;
/// Exit statuses of env, timeout and nohup: the command itself failed, or the program does not exist.
const FAILED: u8 = 125;
const NO_PROGRAM: u8 = 127;

/// Error that ends the command with an exit status, and a message if there is one.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExitError {
    /// The exit status.
    pub status: u8,
    /// Message for the user; empty if the program printed its own.
    pub message: String,
}

/// Value of `--start`: when the traces begin.
#[derive(Debug, Clone, Copy)]
struct StartWord(Start);

fn start_word(text: &str) -> Result<StartWord, String> {
    Ok(StartWord(match text {
        "first-packet" => Start::FirstPacket,
        "now" => Start::Now,
        "signal" => Start::Signal,
        text => {
            let wrong = || format!("expected first-packet, now, signal or seconds since 1970, found \"{text}\"");
            let seconds: f64 = text.parse().map_err(|_| wrong())?;
            let since = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // A larger distance is probably an error of units.
            if since > now + Duration::from_secs(86_400) || now > since + Duration::from_secs(86_400) {
                return Err(format!("{text} is not within a day of now, {:.0} s since 1970", now.as_secs_f64()));
            }
            Start::At(Timestamp::ZERO + since)
        }
    }))
}

/// Arguments of `lockstep emulate --tun`.
#[derive(Debug, Clone, Args)]
pub struct TunnelArguments {
    /// Emulate a network: two network namespaces, with this link as the only path between them, for any programs.
    /// Requires Linux, and root or user namespaces; exit status 77 means that a requirement is missing.
    #[arg(long, conflicts_with_all = ["to", "listen", "near_moves_at", "far_moves_at", "mtu"])]
    pub tun: bool,
    /// Prefix of the namespaces NAME-near and NAME-far; lockstep-PROCESS if not given.
    #[arg(long, requires = "tun")]
    name: Option<String>,
    /// Assign IPv6 addresses to the namespaces, too.
    #[arg(long, requires = "tun")]
    ipv6: bool,
    /// When the traces begin: with the `first-packet` from the near namespace (the default); `now`; at a time in
    /// seconds since 1970; or on `signal` (SIGUSR1 to this process). Until then, the link only delays packets.
    #[arg(long, value_name = "WHEN", requires = "tun", value_parser = start_word)]
    start: Option<StartWord>,
    /// JSON file for the result: packet counts, and the lateness of this process.
    #[arg(long, requires = "tun")]
    json: Option<PathBuf>,
    /// Stop and write the result when standard input ends.
    #[arg(long, hide = true, requires = "tun", conflicts_with = "command")]
    attached: bool,
    /// Program to run in the near namespace; the link ends with it, and its exit status is this command's.
    #[arg(last = true, requires = "tun", conflicts_with = "seconds")]
    command: Vec<OsString>,
}

impl TunnelArguments {
    /// First given option that requires `--tun`. (clap also knows this requirement, but does not enforce it next to a
    /// far side, which conflicts with `--tun`.)
    fn given(&self) -> Option<&'static str> {
        let given = [
            (self.name.is_some(), "--name"),
            (self.ipv6, "--ipv6"),
            (self.start.is_some(), "--start"),
            (self.json.is_some(), "--json"),
            (self.attached, "--attached"),
            (!self.command.is_empty(), "a program after --"),
        ];
        given.into_iter().find_map(|(given, option)| given.then_some(option))
    }

    /// Refuses options of a tunnel without `--tun`.
    ///
    /// # Errors
    /// If such an option was given.
    pub fn refuse(&self) -> Result<()> {
        match self.given() {
            Some(option) => {
                bail!("{option} requires --tun, a link between two network namespaces without a far side")
            }
            None => Ok(()),
        }
    }
}

/// Signals sent to this command.
struct Signals {
    /// Whether any signal arrived since the last check.
    any: Arc<AtomicBool>,
    came: Vec<(i32, Arc<AtomicBool>)>,
}

impl Signals {
    fn watch() -> Result<Self> {
        let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGCHLD];
        let any = Arc::<AtomicBool>::default();
        let mut came = Vec::new();
        for signal in signals {
            let flag = Arc::<AtomicBool>::default();
            signal_hook::flag::register(signal, flag.clone())
                .and_then(|_| signal_hook::flag::register(signal, any.clone()))
                .context("cannot watch for signals")?;
            came.push((signal, flag));
        }
        Ok(Self { any, came })
    }

    /// Signals that arrived since the last call.
    fn take(&self) -> impl Iterator<Item = i32> {
        self.came.iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed)).map(|&(signal, _)| signal)
    }
}

fn side(namespace: &Namespace) -> Value {
    json!({
        "namespace": namespace.name,
        "file": namespace.file(),
        "address": namespace.address,
        "address_v6": namespace.address_v6,
    })
}

fn result(link: &Value, seed: u64, tunnel: &Tunnel, result: &TunnelResult, elapsed: f64) -> Value {
    let TunnelResult { emulation, foreign_packets, scheduling } = result;
    let way = |statistics: &LinkStatistics| {
        let mut counts = json!(counters(statistics));
        let mean = statistics.mean_queueing_delay().as_secs_f64() * 1e3;
        let longest = statistics.longest_queueing_delay.as_secs_f64() * 1e3;
        counts["mean_queueing_delay_ms"] = json!(mean);
        counts["longest_queueing_delay_ms"] = json!(longest);
        counts
    };
    json!({
        "lockstep": env!("CARGO_PKG_VERSION"),
        "kind": "emulate",
        "link": link,
        "seed": seed,
        "near": side(tunnel.near()),
        "far": side(tunnel.far()),
        "started_at": emulation.started_at.map(|at| at.as_secs_f64()),
        "seconds": elapsed,
        "forward": way(&emulation.forward),
        "reverse": way(&emulation.reverse),
        "before_start_packets": emulation.before_start,
        "stray_packets": foreign_packets,
        "overflow_packets": emulation.overflow,
        "refused_packets": emulation.refused,
        "lateness": emulation.lateness,
        "scheduling": scheduling,
    })
}

/// Exit status of the program, by the convention of shells.
fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}

/// Whether a program of this name exists.
fn exists(program: &OsString) -> bool {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.is_file();
    }
    std::env::var_os("PATH")
        .is_some_and(|folders| std::env::split_paths(&folders).any(|folder| folder.join(path).is_file()))
}

/// `lockstep emulate --tun`.
pub fn run(
    arguments: &TunnelArguments,
    status: Option<StatusArgument>,
    link: &LinkArguments,
    length: Option<Seconds>,
    log: Option<&Path>,
) -> Result<()> {
    let program = &arguments.command;
    run_link(arguments, status, link, length, log).map_err(|error| {
        if error.is::<ExitError>() || error.is::<Interrupted>() {
            return error;
        }
        let missing = error.downcast_ref::<TunnelError>().is_some_and(TunnelError::is_missing);
        match (missing, program.is_empty()) {
            (true, _) => Error::new(ExitError { status: MISSING, message: format!("{error:#}") }),
            (false, false) => Error::new(ExitError { status: FAILED, message: format!("{error:#}") }),
            (false, true) => error,
        }
    })
}

fn open(arguments: &TunnelArguments) -> Result<Tunnel, TunnelError> {
    match Tunnel::open(arguments.name.as_deref(), arguments.ipv6) {
        Err(error @ TunnelError::NoRights { .. }) if !is_in_own_user_namespace() => {
            Err(run_again_in_user_namespace(&error))
        }
        other => other,
    }
}

fn run_link(
    arguments: &TunnelArguments,
    status: Option<StatusArgument>,
    link: &LinkArguments,
    length: Option<Seconds>,
    log: Option<&Path>,
) -> Result<()> {
    let TunnelArguments { json, command: program, .. } = arguments;
    let settings = link.settings()?;
    let trace = settings.trace.trace().clone();
    let (forward, reverse) = settings.links()?;
    output_file::check(&[("--json", json.as_deref()), ("--log", log)], &settings.inputs())?;
    if let Some(first) = program.first().filter(|first| !exists(first)) {
        let message = format!("cannot find the program {}", first.to_string_lossy());
        return Err(ExitError { status: NO_PROGRAM, message }.into());
    }
    // Defaults fill in the options that were not given, as in reports of calls.
    let mut recorded = CallArguments { ecn: None, ..link.given().clone() }.settings()?.options();
    // The settings of a call refuse ECN for most controllers; here any program may use it.
    recorded.ecn = Some(settings.ecn);
    let options_of_link = json!(recorded.record(LinkArguments::GROUPS));
    let signals = Signals::watch()?;
    let tunnel = open(arguments)?;
    let (packets, log) = log.map(PacketCsv::create).transpose()?.unzip();
    let status = status.unwrap_or(match program.is_empty() {
        true => StatusArgument::Line,
        false => StatusArgument::None,
    });
    let (near, far) = (tunnel.near(), tunnel.far());
    // Standard output belongs to the program.
    let print_line = |line: &str| if program.is_empty() { print_line!("{line}") } else { eprint_line!("{line}") };
    match status {
        StatusArgument::Json => print_line(
            &json!({ "event": "ready", "process": std::process::id(), "near": side(near), "far": side(far) })
                .to_string(),
        ),
        StatusArgument::Line => {
            for (word, side) in [("near", near), ("far", far)] {
                let v6 = side.address_v6.map(|address| format!(", {address}")).unwrap_or_default();
                print_line(&format!("{word:<5} {}{v6}   ip netns exec {} COMMAND", side.address, side.name));
            }
        }
        StatusArgument::None => {}
    }
    let mut child = match program.is_empty() {
        true => None,
        false => Some(start(program, near, far)?),
    };
    let end_requested = Arc::<AtomicBool>::default();
    if arguments.attached {
        let (requested, any) = (end_requested.clone(), signals.any.clone());
        thread::spawn(move || {
            let _ = stdin().lock().read_to_end(&mut Vec::new());
            requested.store(true, Ordering::Relaxed);
            any.store(true, Ordering::Relaxed);
        });
    }
    let on_terminal = stdin().is_terminal() || stderr().is_terminal();
    let (mut ended, mut ended_by, mut failure) = (None, None, None);
    let (mut start_reported, mut elapsed) = (false, Duration::ZERO);
    let options = TunnelOptions {
        forward,
        reverse,
        start: arguments.start.map_or(Start::FirstPacket, |StartWord(start)| start),
        length: length.map(Seconds::get),
        log,
    };
    let mut changing = ChangingLine::default();
    let any = signals.any.clone();
    let go = |now: &EmulatorStatus| {
        elapsed = now.elapsed;
        let mut go = NextAction::On;
        for signal in signals.take() {
            match (signal, &child) {
                (SIGUSR1, _) => go = NextAction::Start,
                (SIGCHLD, _) => {}
                (signal, None) => ended_by = Some(signal),
                // The terminal sends these signals to the program, too.
                (SIGINT | SIGQUIT, Some(_)) if on_terminal => {}
                (signal, Some(child)) => forward_signal(signal, child),
            }
        }
        if let (Some(at), false) = (now.started_at, start_reported) {
            start_reported = true;
            if matches!(status, StatusArgument::Json) {
                print_line(&json!({ "event": "started", "at": at.as_secs_f64() }).to_string());
            }
        }
        match status {
            StatusArgument::Line => {
                let capacity = trace.capacity_at(Timestamp::ZERO + now.elapsed);
                let dropped = |way: &LinkStatistics| way.dropped_by_queue.packets + way.lost().packets;
                changing.change(&format!(
                    "{:.0} s   capacity {capacity}   forward {} delivered, {} dropped   reverse {}, {}",
                    now.elapsed.as_secs_f64(),
                    now.forward.delivered.packets,
                    dropped(&now.forward),
                    now.reverse.delivered.packets,
                    dropped(&now.reverse)
                ));
            }
            StatusArgument::Json | StatusArgument::None => {}
        }
        if let Some(Err(error)) = packets.as_ref().map(PacketCsv::flush) {
            failure = Some(error);
        }
        match child.as_mut().map(Child::try_wait) {
            Some(Ok(Some(status))) => ended = Some(status),
            Some(Err(error)) => failure = Some(Error::new(error).context("cannot wait for the program")),
            Some(Ok(None)) | None => {}
        }
        let end_requested = end_requested.load(Ordering::Relaxed);
        if ended.is_some() || ended_by.is_some() || failure.is_some() || end_requested { NextAction::Stop } else { go }
    };
    let carried = tunnel.run(options, go, || any.swap(false, Ordering::Relaxed));
    changing.end();
    let carried = match carried {
        Ok(carried) => carried,
        Err(error) => {
            // The program's packets are no longer carried.
            if let Some(child) = &mut child {
                let _ = child.kill().and_then(|()| child.wait());
            }
            return Err(error.into());
        }
    };
    let result = result(&options_of_link, settings.seed, &tunnel, &carried, elapsed.as_secs_f64());
    if let Some(path) = json {
        write_json(path, &result)?;
    }
    match status {
        StatusArgument::Json => {
            let mut result = result;
            result["event"] = json!("result");
            print_line(&result.to_string());
        }
        StatusArgument::Line => {
            let milliseconds = |value: Option<f64>| lockstep_runner::progress::figure(value, 3);
            let lateness = carried.emulation.lateness;
            print_line(&format!(
                "late by {} ms at the median, {} ms at the 99th percentile, {} ms at most",
                milliseconds(lateness.p50_ms),
                milliseconds(lateness.p99_ms),
                milliseconds(lateness.max_ms)
            ));
        }
        StatusArgument::None => {}
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    match (ended, ended_by) {
        (Some(status), _) if !status.success() => {
            Err(ExitError { status: shell_status(status), message: String::new() }.into())
        }
        (_, Some(signal)) => Err(Interrupted::by(signal).into()),
        _ => Ok(()),
    }
}

/// Starts the program in the near namespace.
fn start(program: &[OsString], near: &Namespace, far: &Namespace) -> Result<Child> {
    let mut command = near.command(program);
    for (side, namespace) in [("NEAR", near), ("FAR", far)] {
        command.env(format!("LOCKSTEP_{side}_NAMESPACE"), &namespace.name);
        command.env(format!("LOCKSTEP_{side}_ADDRESS"), namespace.address.to_string());
        if let Some(address) = namespace.address_v6 {
            command.env(format!("LOCKSTEP_{side}_ADDRESS_V6"), address.to_string());
        }
    }
    command.env("LOCKSTEP_LINK_PROCESS", std::process::id().to_string());
    command.spawn().context("cannot run nsenter (Debian, Ubuntu: apt install util-linux)")
}

fn forward_signal(signal: i32, child: &Child) {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    let signal = match signal {
        SIGINT => Signal::INT,
        SIGHUP => Signal::HUP,
        SIGQUIT => Signal::QUIT,
        _ => Signal::TERM,
    };
    // The program may have ended already.
    let _ = kill_process(pid, signal);
}
