//! Reasons for the end of a connection, and their QUIC error codes.

use quinn_proto::{ConnectionError, VarInt};

use crate::TicketRefusal;
use crate::control::CloseReason;

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The other end closed it.
    Closed(CloseReason),
    /// The listener refused the ticket.
    Refused(TicketRefusal),
    /// The other end no longer knows the connection.
    Restarted,
    /// After a silence, another peer joined with the standing ticket of this call.
    Replaced,
    /// One of the ends detected a protocol error.
    Broken(String),
}

/// Longest part of a reason that is shown, in characters.
const MAX_REASON_CHARACTERS: usize = 200;

/// First QUIC error code for a refused ticket; lower codes are those of [`CloseReason`].
const REFUSALS: u32 = 1 << 16;

/// QUIC error code for a refused ticket.
pub(super) fn code(refusal: TicketRefusal) -> VarInt {
    VarInt::from_u32(REFUSALS + refusal.number())
}

impl Loss {
    pub(super) fn of(reason: ConnectionError) -> Self {
        use ConnectionError::{ApplicationClosed, Reset};
        match reason {
            ApplicationClosed(close) => match close.error_code.into_inner() {
                code if code >= REFUSALS.into() => {
                    Self::Refused(TicketRefusal::from_number(code - u64::from(REFUSALS)))
                }
                code => Self::Closed(CloseReason::from_number(u16::try_from(code).unwrap_or(u16::MAX))),
            },
            Reset => Self::Restarted,
            // The other end may have chosen the text; a terminal must not receive its control characters.
            other => {
                let said = other.to_string();
                Self::Broken(said.chars().filter(|letter| !letter.is_control()).take(MAX_REASON_CHARACTERS).collect())
            }
        }
    }
}
