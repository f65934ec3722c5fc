//! What a person types while a call runs: single keys in a terminal, as with mpv and ffplay; lines from anything else.

use std::io::{IsTerminal, Read, stdin};

use lockstep_live::{CallHandle, Command};
use lockstep_media::ESCAPE;

/// The keys, for a person.
pub const KEYS: &str = "m mutes, v turns the camera off and on, q leaves";

/// What the key of that letter is for.
pub fn command(letter: char) -> Option<Command> {
    match letter.to_ascii_lowercase() {
        'm' => Some(Command::Mute),
        'v' => Some(Command::Camera),
        'q' | ESCAPE => Some(Command::Leave),
        _ => None,
    }
}

/// The commands in what was read at once. Of a key that is more than a letter (an arrow) nothing is one.
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

/// A terminal that gives keys as they are pressed, and does not print them, until this is dropped.
pub struct Keyboard {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl Keyboard {
    /// Has the terminal do so; none where there is no terminal, or another program has it.
    pub fn open() -> Option<Self> {
        if !stdin().is_terminal() {
            return None;
        }
        #[cfg(unix)]
        {
            use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcgetpgrp, tcsetattr};
            // Whoever was sent to the background would be stopped by asking.
            if tcgetpgrp(stdin()).ok()? != rustix::process::getpgrp() {
                return None;
            }
            let before = tcgetattr(stdin()).ok()?;
            let mut keys = before.clone();
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(stdin(), OptionalActions::Now, &keys).ok()?;
            Some(Self { before })
        }
        #[cfg(not(unix))]
        Some(Self {})
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
