//! `lockstep send --web --viewers N`: one source for several browsers and peers.

use anyhow::{Result, bail};

use lockstep_call::SendingEnd;
use lockstep_configuration::{ControlSettings, Seconds};
use lockstep_live::{BroadcastObserver, BroadcastOptions, CallEvent, Listener, LiveError, Stop, broadcast};
use lockstep_media::{SourceOptions, open_source};
use lockstep_runner::status_line::StatusLine;
use lockstep_socket::Clock;
use lockstep_units::{Bitrate, Timestamp};

use crate::commands::live::{SendArguments, connection_id, menu_runner};
use crate::commands::live_sound::LiveSound;
use crate::reporter::{Screen, ScreenLine, StatusArgument};

/// Prints arrivals and departures, and the rates of all viewers.
struct Audience {
    status: StatusArgument,
    screen: Screen,
}

impl Audience {
    fn news(&self, text: String) {
        match self.status {
            StatusArgument::Line => self.screen.print(ScreenLine::News(text)),
            StatusArgument::Json => self.screen.print(ScreenLine::Json(StatusLine::Notice(text))),
            StatusArgument::None => {}
        }
    }
}

impl BroadcastObserver for Audience {
    fn event(&mut self, viewer: u64, event: CallEvent) {
        match event {
            CallEvent::Joined => self.news(format!("viewer {viewer} joined")),
            CallEvent::Ended(_) => self.news(format!("viewer {viewer} left")),
            CallEvent::Failed(error) => self.news(format!("viewer {viewer} left: {error}")),
            _ => {}
        }
    }

    fn status(&mut self, now: Timestamp, viewers: &mut dyn Iterator<Item = (u64, &SendingEnd)>) {
        match self.status {
            StatusArgument::Line => {
                let mut targets: Vec<Bitrate> = viewers.map(|(_, end)| end.status(now).target).collect();
                targets.sort_unstable();
                let line = match (targets.len(), targets.first(), targets.last()) {
                    (1, Some(target), _) => format!("1 viewer at {target}"),
                    (count, Some(min), Some(max)) => format!("{count} viewers at {min} to {max}"),
                    _ => "no viewers".to_owned(),
                };
                self.screen.print(ScreenLine::Line(line));
            }
            StatusArgument::Json => {
                for (viewer, end) in viewers {
                    let status = end.status(now);
                    self.screen.print(ScreenLine::Json(StatusLine::Viewer {
                        viewer,
                        target_bps: status.target.as_bps(),
                        quantizer: status.quantizer,
                        frames: end.statistics().frames,
                    }));
                }
            }
            StatusArgument::None => {}
        }
    }
}

/// Sends to at most `arguments.viewers` peers at a time, until the source ends or the user stops.
///
/// # Errors
/// An option describes a single call, or the source or the sockets fail.
pub fn send_to_viewers(
    arguments: &SendArguments,
    control: ControlSettings,
    listener: Listener,
    stop: Stop,
) -> Result<()> {
    let [source] = &arguments.source[..] else {
        bail!("--viewers sends one video stream to many; give one --source");
    };
    let options = SourceOptions { seed: arguments.seed, ..SourceOptions::default() };
    let source = open_source(&source.specification, &options)?;
    let microphone = arguments.speaking.open(LiveSound::Nothing)?;
    let (format, menu) = (source.format(), control.menu);
    let end = move || {
        let end = control.recorded_sending_end(&format, connection_id(), None);
        end.map_err(|error| LiveError::Controller(error.to_string()))
    };
    let mut audience = Audience { status: arguments.status, screen: Screen::start()? };
    let options = BroadcastOptions {
        listener,
        source,
        microphone,
        end: Box::new(end),
        runner: Box::new(move || menu_runner(menu)),
        max_viewers: usize::from(arguments.viewers),
        length: arguments.seconds.map(Seconds::get),
        idle_limit: arguments.idle_seconds.0,
        stop,
    };
    let result = broadcast(Clock::start(), options, &mut audience);
    audience.screen.finish();
    result?;
    Ok(())
}
