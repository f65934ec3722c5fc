//! `lockstep send --web --viewers N`: one source for several browsers and peers.

use anyhow::Result;

use lockstep_av1::Vp8OrAv1;
use lockstep_call::SendingEnd;
use lockstep_live::{BroadcastObserver, BroadcastOptions, CallEvent, LiveError, broadcast};
use lockstep_runner::status_line::StatusLine;
use lockstep_socket::Clock;
use lockstep_units::{Bitrate, Timestamp};

use crate::reporter::{Screen, ScreenLine, StatusArgument, notice};

/// Prints arrivals and departures, and the rates of all viewers.
struct Audience {
    status: StatusArgument,
    screen: Screen,
}

impl BroadcastObserver<Vp8OrAv1> for Audience {
    fn event(&mut self, viewer: u64, event: CallEvent) {
        match event {
            CallEvent::Joined => self.screen.news(self.status, format!("viewer {viewer} joined")),
            CallEvent::Ended(_) => self.screen.news(self.status, format!("viewer {viewer} left")),
            CallEvent::Failed(error) => self.screen.news(self.status, format!("viewer {viewer} left: {error}")),
            _ => {}
        }
    }

    fn source_failed(&mut self, error: &LiveError) {
        notice(self.status, &format!("warning: {error}"));
    }

    fn status(&mut self, now: Timestamp, viewers: &mut dyn Iterator<Item = (u64, &SendingEnd<Vp8OrAv1>)>) {
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

/// Sends to all viewers until the source ends or the user stops, and prints `status`.
///
/// # Errors
/// The source or the sockets fail.
pub fn send_to_viewers(options: BroadcastOptions<Vp8OrAv1>, status: StatusArgument) -> Result<()> {
    let mut audience = Audience { status, screen: Screen::start()? };
    let result = broadcast(Clock::start(), options, &mut audience);
    audience.screen.finish();
    result?;
    Ok(())
}
