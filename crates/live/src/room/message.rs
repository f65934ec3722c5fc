//! Messages between the people of a room, as reliable messages of their calls: words that spaces separate.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use lockstep_session::ticket::Ticket;

use crate::LiveError;
use crate::identity::random;

/// A person of a room, for as long as the person's program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Person([u8; 8]);

impl Person {
    /// A random person, unlike all others.
    pub(crate) fn new() -> Result<Self, LiveError> {
        random().map(Self)
    }
}

impl fmt::Display for Person {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&BASE32_NOPAD.encode(&self.0))
    }
}

impl FromStr for Person {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let bytes = BASE32_NOPAD.decode(text.as_bytes()).map_err(|_| Malformed)?;
        Ok(Self(bytes.try_into().map_err(|_| Malformed)?))
    }
}

/// A message of a room.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RoomMessage {
    /// To the door: this person wants to enter.
    Enter(Person),
    /// From the door: the person who opened the room waits for a call with this ticket.
    Welcome(Person, Ticket),
    /// From the door: there is no place left.
    Full,
    /// From the person who opened the room to another: this person enters.
    Introduce(Person),
    /// The answer: the sender waits for a call of this person with this ticket.
    Invite(Person, Ticket),
    /// From the person who opened the room to the one who enters: this person waits for a call with this ticket.
    Call(Person, Ticket),
    /// The sender shows the receiver's pictures with this width and height in pixels.
    Size(usize, usize),
}

/// A message is not one of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl fmt::Display for RoomMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enter(person) => write!(formatter, "enter {person}"),
            Self::Welcome(person, ticket) => write!(formatter, "welcome {person} {ticket}"),
            Self::Full => formatter.write_str("full"),
            Self::Introduce(person) => write!(formatter, "introduce {person}"),
            Self::Invite(person, ticket) => write!(formatter, "invite {person} {ticket}"),
            Self::Call(person, ticket) => write!(formatter, "call {person} {ticket}"),
            Self::Size(width, height) => write!(formatter, "size {width} {height}"),
        }
    }
}

impl FromStr for RoomMessage {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let words: Vec<&str> = text.splitn(4, ' ').collect();
        let ticket = |text: &str| text.parse::<Ticket>().map_err(|_| Malformed);
        let pixels = |text: &str| text.parse::<usize>().map_err(|_| Malformed);
        Ok(match words[..] {
            ["enter", person] => Self::Enter(person.parse()?),
            ["welcome", person, text] => Self::Welcome(person.parse()?, ticket(text)?),
            ["full"] => Self::Full,
            ["introduce", person] => Self::Introduce(person.parse()?),
            ["invite", person, text] => Self::Invite(person.parse()?, ticket(text)?),
            ["call", person, text] => Self::Call(person.parse()?, ticket(text)?),
            ["size", width, height] => Self::Size(pixels(width)?, pixels(height)?),
            _ => return Err(Malformed),
        })
    }
}

impl RoomMessage {
    /// The message in the bytes of another end.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, Malformed> {
        std::str::from_utf8(payload).map_err(|_| Malformed)?.parse()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use proptest::prelude::*;

    use super::*;
    use crate::Listener;
    use crate::identity::Identity;

    #[test]
    fn every_message_survives_its_text() {
        let person = Person::new().expect("random numbers");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Listener::bind(address, Identity::new().expect("an identity")).expect("a socket");
        let ticket = listener.ticket(&[]).expect("a ticket");
        let with_ticket = [RoomMessage::Welcome, RoomMessage::Invite, RoomMessage::Call];
        let mut messages = vec![
            RoomMessage::Enter(person),
            RoomMessage::Full,
            RoomMessage::Introduce(person),
            RoomMessage::Size(640, 360),
        ];
        messages.extend(with_ticket.map(|message| message(person, ticket.clone())));
        for message in messages {
            assert_eq!(RoomMessage::read(message.to_string().as_bytes()), Ok(message));
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(RoomMessage::read(&payload), Err(Malformed));
        }

        #[test]
        fn a_word_with_other_arguments_is_refused(
            word in "enter|welcome|full|introduce|invite|call|size", rest in " [A-Z2-7 ]{0,40}",
        ) {
            let read = RoomMessage::read(format!("{word}{rest}").as_bytes());
            prop_assert!(matches!(read, Err(Malformed) | Ok(RoomMessage::Enter(_) | RoomMessage::Introduce(_) | RoomMessage::Size(..))));
        }
    }
}
