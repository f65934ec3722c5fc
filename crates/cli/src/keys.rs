//! Keys that the user types during a call: single keys in a terminal, as with mpv and ffplay; otherwise lines.

use std::io::{IsTerminal, Read, stdin};

use lockstep_live::{CallHandle, Command};
use lockstep_media::ESCAPE;

/// Help on the keys.
pub const KEYS: &str = "m mutes, v turns the camera off and on, q leaves";

/// Command of the key with this letter.
pub fn command(letter: char) -> Option<Command> {
    match letter.to_ascii_lowercase() {
        'm' => Some(Command::Mute),
        'v' => Some(Command::Camera),
        'q' | ESCAPE => Some(Command::Leave),
        _ => None,
    }
}

/// Commands in the bytes of one read. A key of several bytes, such as an arrow, is no command.
fn commands(read: &[u8]) -> Vec<Command> {
    match read {
        [0x1b] => command(ESCAPE).into_iter().collect(),
        [0x1b, ..] => Vec::new(),
        letters => letters.iter().filter_map(|&letter| command(letter.into())).collect(),
    }
}

/// Reads commands from standard input until it ends.
pub fn read(to: &CallHandle) {
    let mut read = [0; 64];
    while let Ok(length @ 1..) = stdin().lock().read(&mut read) {
        commands(&read[..length]).into_iter().for_each(|command| to.command(command));
    }
}

/// Terminal that delivers each key at once and does not print it, until this value is dropped.
pub struct Keyboard {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl Keyboard {
    /// Sets the terminal; `None` if there is none, or another program controls it.
    pub fn open() -> Option<Self> {
        Self::open_with(false)
    }

    /// The same, and delivers Ctrl-C as a key too.
    #[cfg(unix)]
    pub fn open_for_line() -> Option<Self> {
        Self::open_with(true)
    }

    fn open_with(takes_signals: bool) -> Option<Self> {
        if !stdin().is_terminal() {
            return None;
        }
        #[cfg(unix)]
        {
            use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcgetpgrp, tcsetattr};
            // Changing the terminal would stop a process in the background.
            if tcgetpgrp(stdin()).ok()? != rustix::process::getpgrp() {
                return None;
            }
            let before = tcgetattr(stdin()).ok()?;
            let mut keys = before.clone();
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            if takes_signals {
                keys.local_modes.remove(LocalModes::ISIG);
            }
            tcsetattr(stdin(), OptionalActions::Now, &keys).ok()?;
            Some(Self { before })
        }
        #[cfg(not(unix))]
        {
            let _ = takes_signals;
            Some(Self {})
        }
    }
}

#[cfg(unix)]
impl Drop for Keyboard {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(stdin(), rustix::termios::OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_escape_are_commands_and_arrows_are_none() {
        assert_eq!(commands(b"m\nV\n"), [Command::Mute, Command::Camera]);
        assert_eq!(commands(b"\x1b"), [Command::Leave]);
        assert_eq!(commands(b"\x1b[A"), []);
        assert_eq!(commands(b"x 1\n"), []);
        assert_eq!(commands(b"q"), [Command::Leave]);
    }
}
