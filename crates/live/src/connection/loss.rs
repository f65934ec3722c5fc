//! Why connections end, and how that is said to QUIC.

use quinn_proto::{ConnectionError, VarInt};

use crate::TicketRefusal;
use crate::control::CloseReason;

/// Why a connection is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The other end said so.
    Closed(CloseReason),
    /// The listener does not take the ticket.
    Refused(TicketRefusal),
    /// The other end does not know the connection any more.
    Restarted,
    /// After a silence, somebody else joined with the standing ticket of this call.
    Replaced,
    /// The other end, or this one, found something that cannot be.
    Broken(String),
}

/// Letters of a reason that are shown.
const LONGEST_REASON: usize = 200;

/// Codes of QUIC's that end a connection; below [`REFUSALS`] those of [`CloseReason`].
const REFUSALS: u32 = 1 << 16;

/// What QUIC says to who is refused.
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
            // The other end may have put words in, which are for no terminal to obey.
            other => {
                let said = other.to_string();
                Self::Broken(said.chars().filter(|letter| !letter.is_control()).take(LONGEST_REASON).collect())
            }
        }
    }
}
