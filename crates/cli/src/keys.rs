//! Keys that the user types during a call: single keys in a terminal, as with mpv and ffplay; otherwise lines.

use std::io::{IsTerminal, Read, stdin};

use lockstep_live::{CallHandle, Command, Presence};
use lockstep_media::{Button, ESCAPE};

use crate::reporter::SharedCallText;
use crate::shared_screen::ScreenSharing;

/// Help on the keys.
pub const KEYS: &str = "m mutes, v turns the camera off and on, s shares the screen, d shows details, q leaves";

/// Key that shows the numbers of a call.
const DETAILS: char = 'd';
/// Key that shares the screen.
const SCREEN: char = 's';

/// Applies the keys of a terminal and a window to a call.
#[derive(Clone)]
pub struct Keys {
    handle: CallHandle,
    text: SharedCallText,
    sharing: ScreenSharing,
}

impl Keys {
    /// Keys that control the calls of `handle`, what `text` shows, and what the source of `sharing` sends.
    pub fn new(handle: CallHandle, text: SharedCallText, sharing: ScreenSharing) -> Self {
        Self { handle, text, sharing }
    }

    /// The user pressed the key with this letter.
    pub fn press(&self, letter: char) {
        match (command(letter), letter.to_ascii_lowercase()) {
            (Some(command), _) => self.handle.command(command),
            (None, DETAILS) => self.text.toggle_details(),
            (None, SCREEN) => self.sharing.toggle(),
            _ => {}
        }
    }

    /// The same keys as buttons of a window, while this end provides `own`.
    pub fn buttons(&self, own: Presence) -> Vec<Button> {
        let shares = self.sharing.is_on();
        let named = [
            ('m', if own.muted { "Unmute" } else { "Mute" }, own.muted),
            ('v', if own.camera_off { "Camera on" } else { "Camera off" }, own.camera_off),
            (SCREEN, if shares { "Stop sharing" } else { "Share screen" }, shares),
            (DETAILS, "Details", false),
            ('q', "Leave", false),
        ];
        let button =
            |(key, name, is_highlighted): (char, &str, bool)| Button { key, name: name.into(), is_highlighted };
        named.map(button).into()
    }
}

/// Command of the key with this letter.
fn command(letter: char) -> Option<Command> {
    match letter.to_ascii_lowercase() {
        'm' => Some(Command::Mute),
        'v' => Some(Command::Camera),
        'q' | ESCAPE => Some(Command::Leave),
        _ => None,
    }
}

/// Letters in the bytes of one read. A key of several bytes, such as an arrow, is none.
fn letters(read: &[u8]) -> Vec<char> {
    match read {
        [0x1b, _, ..] => Vec::new(),
        letters => letters.iter().map(|&letter| letter.into()).collect(),
    }
}

/// Reads keys from standard input until it ends.
pub fn read(keys: &Keys) {
    let mut read = [0; 64];
    while let Ok(length @ 1..) = stdin().lock().read(&mut read) {
        letters(&read[..length]).into_iter().for_each(|letter| keys.press(letter));
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
        let commands = |read| letters(read).into_iter().filter_map(command).collect::<Vec<_>>();
        assert_eq!(commands(b"m\nV\n"), [Command::Mute, Command::Camera]);
        assert_eq!(commands(b"\x1b"), [Command::Leave]);
        assert_eq!(commands(b"\x1b[A"), []);
        assert_eq!(commands(b"x 1\n"), []);
        assert_eq!(commands(b"q"), [Command::Leave]);
    }

    fn keys() -> Keys {
        Keys::new(CallHandle::new(), SharedCallText::default(), ScreenSharing::default())
    }

    #[test]
    fn every_button_has_a_key_that_does_something() {
        for button in keys().buttons(Presence::default()) {
            let keys = keys();
            keys.press(button.key.to_ascii_uppercase());
            let has_effect = command(button.key).is_some() || keys.text.wants_details() || keys.sharing.is_on();
            assert!(has_effect, "{}", button.name);
        }
    }

    #[test]
    fn buttons_name_what_they_would_do() {
        let keys = keys();
        let names = |own| keys.buttons(own).into_iter().map(|button| button.name).collect::<Vec<_>>();
        assert_eq!(names(Presence::default()), ["Mute", "Camera off", "Share screen", "Details", "Leave"]);
        keys.press('s');
        let off = Presence { muted: true, camera_off: true, ..Presence::default() };
        assert_eq!(names(off), ["Unmute", "Camera on", "Stop sharing", "Details", "Leave"]);
    }
}
