//! Observation of a live call: a line per second (`--stats`), Prometheus (`--metrics`), a page with plots (`--monitor`)
//! and qlog (`--qlog`).
//!
//! All show the same numbers ([`LiveStats`](lockstep_runner::live_stats::LiveStats)). Slow files and clients never
//! delay the call.

pub mod http;
mod metrics;
mod monitor;
mod qlog;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use lockstep_call::FrameRecord;
use lockstep_live::{Qlog, RendezvousStatus, Shown};
use lockstep_runner::call_logs::LogWriter;
use lockstep_runner::line_writer::LineWriter;
use lockstep_runner::live_stats::Sample;
use lockstep_runner::output_file;
use lockstep_units::Timestamp;

use crate::call_files::of_call;

/// Interval of the lines of `--stats`.
const STATS_INTERVAL: Duration = Duration::from_secs(1);
/// Samples kept for a page that is opened late: five minutes at five per second, about 1 MB.
const MAX_SAMPLES: usize = 1_500;

/// Outputs for observers of a call.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Outputs")]
pub struct ObservationArguments {
    /// File for the call's counters, one line of JSON per second with the names of W3C's webrtc-stats; `-` is standard
    /// output.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Serve the same numbers to Prometheus, under `/metrics`. A port alone is on this machine only (127.0.0.1);
    /// anybody who reaches another address can read them.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    /// Serve a page that plots the same numbers during the call, to this machine only, and print its address. The port
    /// is a free one, unless it is given: `--monitor=4680`.
    #[arg(long, value_name = "[ADDRESS:]PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0",
        value_parser = monitor_address)]
    monitor: Option<SocketAddr>,
    /// File for a qlog, for qvis and similar programs: QUIC's packets, and frames sent and shown. `call` has both ends:
    /// `a.sqlog` is the sender's, `a-receiver.sqlog` the receiver's.
    #[arg(long, value_name = "FILE")]
    qlog: Option<PathBuf>,
}

impl ObservationArguments {
    /// The option that serves numbers of the call, if one is given.
    pub fn page_option(&self) -> Option<&'static str> {
        let monitor = self.monitor.map(|_| "--monitor");
        monitor.or(self.metrics.map(|_| "--metrics"))
    }
}

/// Parses a port, or an address with a port; a port alone is on loopback.
pub fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().ok().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|| text.parse().ok())
        .or_else(|| text.strip_prefix("localhost:")?.parse().ok().map(|port| (Ipv4Addr::LOCALHOST, port).into()))
        .ok_or_else(|| {
            format!("expected a port, or an address with one such as 127.0.0.1:9464 or [::1]:9464, found `{text}`")
        })
}

fn monitor_address(text: &str) -> Result<SocketAddr, String> {
    let address = metrics_address(text)?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "{} is reachable from other machines, and the page has no password; name a port",
            address.ip()
        ));
    }
    Ok(address)
}

impl ObservationArguments {
    /// Options that name files, for the check of outputs.
    pub fn outputs(&self) -> [(&'static str, Option<&Path>); 2] {
        [("--stats", self.stats.as_deref()), ("--qlog", self.qlog.as_deref())]
    }

    /// File of the receiver's qlog, next to that of the sender.
    pub fn receiver_qlog(&self) -> Option<PathBuf> {
        self.qlog.as_deref().map(|path| output_file::with_suffix(path, "-receiver"))
    }

    /// Arguments for the sender and the receiver process, which write the qlogs of a call.
    pub fn qlog_arguments(&self) -> [Vec<String>; 2] {
        [self.qlog.clone(), self.receiver_qlog()].map(|path| {
            let file = path.map(|path| path.to_string_lossy().into_owned());
            file.into_iter().flat_map(|file| ["--qlog".to_owned(), file]).collect()
        })
    }

    /// The same arguments with the files of call `number` ([`of_call`]).
    pub fn of_call(&self, number: u32) -> Self {
        let [stats, qlog] = [&self.stats, &self.qlog].map(|path| path.as_deref().map(|path| of_call(path, number)));
        Self { stats, qlog, ..self.clone() }
    }

    /// The same arguments for a process that writes no qlog itself.
    pub fn without_qlog(&self) -> Self {
        Self { qlog: None, ..self.clone() }
    }
}

/// Serves `text` to Prometheus, for a call or a rendezvous, and returns the page's address.
fn serve_metrics(address: SocketAddr, of: &str, text: impl Fn() -> String + Send + Sync + 'static) -> Result<String> {
    let pages = move |path: &str, _: &str| match path {
        "/metrics" => http::Answer::of(metrics::CONTENT_TYPE, text()),
        _ => http::Answer::refused("404 Not Found"),
    };
    let bound = http::serve(address, http::Site::of_numbers(Arc::new(pages))).context("--metrics")?;
    if !is_loopback(bound.ip()) {
        eprint_line!("lockstep: warning: anybody who reaches {bound} can read the {of}'s numbers");
    }
    Ok(format!("http://{bound}/metrics"))
}

/// Serves the newest `status` to Prometheus, and returns the page's address.
///
/// # Errors
/// If the address cannot be bound.
pub fn serve_rendezvous(address: SocketAddr, status: Arc<Mutex<RendezvousStatus>>) -> Result<String> {
    serve_metrics(address, "rendezvous", move || {
        metrics::rendezvous_text(&status.lock().unwrap_or_else(PoisonError::into_inner))
    })
}

/// The newest samples, for pages.
#[derive(Clone, Default)]
pub struct Published(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// Number of samples before those kept.
    before: u64,
    samples: VecDeque<Arc<str>>,
    newest: Option<Sample>,
}

impl Published {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, sample: &Sample) {
        let Ok(text) = serde_json::to_string(sample) else { return };
        let mut kept = self.kept();
        kept.samples.push_back(text.into());
        if kept.samples.len() > MAX_SAMPLES {
            kept.samples.pop_front();
            kept.before += 1;
        }
        kept.newest = Some(sample.clone());
    }

    /// Samples from number `since` on, and the number of the next. All kept samples if `since` is in the future.
    fn since(&self, since: u64) -> (u64, Vec<Arc<str>>) {
        let kept = self.kept();
        let next = kept.before + kept.samples.len() as u64;
        let since = if since > next { 0 } else { since };
        let first = since.saturating_sub(kept.before) as usize;
        (next, kept.samples.iter().skip(first).cloned().collect())
    }
}

/// Kind of page at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The page with plots.
    Monitor,
    /// The numbers for Prometheus.
    Metrics,
}

/// Pages that stay open while a command runs, across its calls.
pub struct Pages {
    published: Option<Published>,
    /// Kind and address of each page, until a call announces it.
    places: Vec<(Place, String)>,
}

impl Pages {
    /// Opens the ports.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub fn serve(arguments: &ObservationArguments) -> Result<Self> {
        let published = Published::default();
        let mut places = Vec::new();
        if let Some(address) = arguments.metrics {
            let numbers = published.clone();
            let text = move || metrics::text(numbers.kept().newest.clone().as_ref());
            places.push((Place::Metrics, serve_metrics(address, "call", text)?));
        }
        if let Some(address) = arguments.monitor {
            let shown = published.clone();
            let pages = move |path: &str, query: &str| monitor::page(&shown, path, query);
            let bound = http::serve(address, http::Site::of_numbers(Arc::new(pages))).context("--monitor")?;
            places.push((Place::Monitor, format!("http://{bound}/")));
        }
        let is_published = arguments.metrics.is_some() || arguments.monitor.is_some();
        Ok(Self { published: is_published.then_some(published), places })
    }
}

/// Outputs for the observers of one call.
pub struct Observation {
    stats: Option<LogWriter>,
    written_at: Timestamp,
    published: Option<Published>,
    qlog: Option<LineWriter>,
    /// Kind and address of each page.
    pub places: Vec<(Place, String)>,
}

impl Observation {
    /// Opens ports, then files: a port in use does not truncate a file.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub fn open(arguments: &ObservationArguments) -> Result<Self> {
        Self::on(&mut Pages::serve(arguments)?, arguments)
    }

    /// Opens the files of one call that `pages` show.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub fn on(pages: &mut Pages, arguments: &ObservationArguments) -> Result<Self> {
        let stats = arguments.stats.as_deref().map(LogWriter::create).transpose()?;
        let qlog = arguments.qlog.as_deref().map(LineWriter::create).transpose()?;
        let (published, places) = (pages.published.clone(), std::mem::take(&mut pages.places));
        Ok(Self { stats, written_at: Timestamp::ZERO, published, qlog, places })
    }

    /// Prints the addresses of the pages.
    pub fn print_addresses(&self) {
        for (place, address) in &self.places {
            match place {
                Place::Monitor => print_line!("monitor: {address}"),
                Place::Metrics => print_line!("metrics: {address}"),
            }
        }
    }

    /// Log of QUIC's packets, for an end that joins or one that listens.
    pub fn quic_log(&self, joins: bool) -> Option<Qlog> {
        Some(qlog::quic_log(self.qlog.as_ref()?.lines()?, joins))
    }

    /// Takes a new sample.
    pub fn take(&mut self, sample: &Sample) {
        if let Some(published) = &self.published {
            published.take(sample);
        }
        if let Some(qlog) = &self.qlog {
            qlog.push(qlog::sample(sample));
        }
        let now = Timestamp::ZERO + Duration::from_secs_f64(sample.timestamp.max(0.0) * 1e-3);
        if let Some(stats) = self.stats.as_mut().filter(|_| now >= self.written_at + STATS_INTERVAL) {
            self.written_at = now;
            stats.write(sample);
        }
    }

    /// Takes the record of a picture that this end captured for a stream.
    pub fn captured(&self, stream: usize, record: &FrameRecord) {
        if let Some(qlog) = &self.qlog {
            qlog.push(qlog::captured(stream, record));
        }
    }

    /// Takes a picture of a stream that was shown `delay` seconds after its capture.
    pub fn shown(&self, stream: usize, shown: &Shown, delay: f64) {
        if let Some(qlog) = &self.qlog {
            qlog.push(qlog::shown(stream, shown, delay));
        }
    }

    /// Completes the files.
    ///
    /// # Errors
    /// If anything is missing from a file.
    pub fn finish(self) -> Result<()> {
        let written = self.stats.map_or(Ok(()), LogWriter::finish);
        output_file::all([written, self.qlog.map_or(Ok(()), LineWriter::finish)])
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_alone_and_page_are_on_loopback() {
        for (text, address) in
            [("9464", "127.0.0.1:9464"), ("localhost:1", "127.0.0.1:1"), ("[::1]:80", "[::1]:80"), ("0", "127.0.0.1:0")]
        {
            assert_eq!(metrics_address(text).map(|found| found.to_string()).as_deref(), Ok(address));
            assert!(monitor_address(text).is_ok());
        }
        assert!(metrics_address("0.0.0.0:9464").is_ok() && monitor_address("0.0.0.0:9464").is_err());
        for wrong in ["", "here", "127.0.0.1", "65536", "lockstep1abc"] {
            assert!(metrics_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_is_bounded_and_sample_numbers_continue() {
        let published = Published::default();
        (0..2 * MAX_SAMPLES).for_each(|_| published.take(&Sample::default()));
        let (next, samples) = published.since(0);
        assert_eq!((next as usize, samples.len()), (2 * MAX_SAMPLES, MAX_SAMPLES));
        assert_eq!(published.since(next - 3).1.len(), 3);
    }
}
