//! Tickets and the codes that stand for them: printed by a listener, and read by a joiner.

use std::env;
use std::io::{BufRead, IsTerminal, Read, Write, stderr, stdin, stdout};

use anyhow::{Context, Result, bail};

use lockstep_live::{Code, CodeOffer, OfferResult, Ticket, redeem};
use lockstep_runner::output_file;
use lockstep_runner::status_line::{StatusLine, print_status};
use lockstep_vp8::Picture;

use crate::destination::resolve;
use crate::prompt;
use crate::qr_code;
use crate::reporter::{StatusArgument, notice};

/// Ticket to join with: the one given, that of LOCKSTEP_TICKET, or the one that the user types. Each may be a code,
/// which is redeemed at `rendezvous`.
///
/// Other users of the machine cannot see the environment. Nothing is read from standard input if that holds pictures.
pub fn ticket_to_join(given: Option<&str>, pictures_are_piped: bool, rendezvous: Option<&str>) -> Result<Ticket> {
    if let Some(text) = given {
        return ticket_of(text, rendezvous);
    }
    if let Ok(text) = env::var("LOCKSTEP_TICKET") {
        return ticket_of(&text, rendezvous).context("LOCKSTEP_TICKET");
    }
    if pictures_are_piped {
        bail!(
            "no ticket was given, and standard input holds the pictures; write it after the command or in LOCKSTEP_TICKET"
        );
    }
    let question = "ticket or code: ";
    let line = match prompt::line(question, Ticket::MAX_TEXT_BYTES) {
        Some(line) => line?,
        None => line_of_standard_input(question)?,
    };
    if line.trim().is_empty() {
        bail!("no ticket was given; write it after the command, in LOCKSTEP_TICKET, or on standard input");
    }
    ticket_of(&line, rendezvous)
}

fn line_of_standard_input(question: &str) -> Result<String> {
    if stdin().is_terminal() {
        let _ = write!(stderr(), "{question}");
    }
    // Reading stops after the maximum length of a ticket, because the line may never end.
    let mut line = Vec::new();
    let longest = Ticket::MAX_TEXT_BYTES as u64 + 1;
    stdin().lock().take(longest).read_until(b'\n', &mut line).context("cannot read a ticket")?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// The ticket of a text: a ticket, a link, or a code.
fn ticket_of(text: &str, rendezvous: Option<&str>) -> Result<Ticket> {
    if !Code::is_meant(text) {
        return Ok(text.parse()?);
    }
    let code: Code = text.parse()?;
    let Some(rendezvous) = rendezvous else {
        bail!(
            "a code requires the rendezvous that gave it; name it with --rendezvous HOST:PORT or LOCKSTEP_RENDEZVOUS"
        );
    };
    Ok(redeem(&resolve(rendezvous)?, code)?)
}

/// Codes of a listener.
#[derive(Debug)]
pub struct Offers {
    /// The rendezvous that gives codes, as the user named it.
    rendezvous: Option<String>,
    /// Whether a code that was used is replaced before the next call.
    is_reusable: bool,
    shows_ticket: bool,
    newest: Option<CodeOffer>,
}

impl Offers {
    /// Codes of the rendezvous, if there is one.
    pub fn new(rendezvous: Option<String>, is_reusable: bool, shows_ticket: bool) -> Self {
        Self { rendezvous, is_reusable, shows_ticket, newest: None }
    }

    /// Gets a code for the next call, unless the newest one is still valid. Returns whether it is new.
    fn renew(&mut self, ticket: &Ticket, is_first: bool, status: StatusArgument) -> bool {
        let Some(rendezvous) = self.rendezvous.as_deref().filter(|_| is_first || self.is_reusable) else {
            return false;
        };
        if self.newest.as_ref().is_some_and(|offer| !offer.is_ended()) {
            return false;
        }
        let on_end = move |result| {
            if let Some(text) = message(result) {
                notice(status, text);
            }
        };
        match resolve(rendezvous).and_then(|servers| Ok(CodeOffer::new(&servers, ticket, on_end)?)) {
            Ok(offer) => self.newest = Some(offer),
            Err(error) => {
                self.newest = None;
                notice(status, &format!("warning: there is no code for the ticket: {error}"));
            }
        }
        self.newest.is_some()
    }

    fn code(&self) -> Option<String> {
        self.newest.as_ref().map(|offer| offer.code().to_string())
    }
}

/// Message for the user about a code that ended.
fn message(result: OfferResult) -> Option<&'static str> {
    match result {
        OfferResult::Given => None,
        OfferResult::Wrong => Some(
            "somebody entered a wrong code, so the code is no longer valid; run the command again for a new one, and ask \
             the person you invited: if it was somebody else, that person guessed",
        ),
        OfferResult::Lost => Some(
            "the rendezvous was restarted and gave the code's number to others; run the command again for a new one",
        ),
    }
}

/// Ticket of a listener, and whether it was printed.
pub struct ListenerTicket {
    ticket: Ticket,
    /// Link of the page, if browsers may join.
    page: Option<String>,
    offers: Offers,
    is_printed: bool,
}

impl ListenerTicket {
    /// The `ticket`, with the link of its `page` and the codes for it.
    pub fn new(ticket: Ticket, page: Option<String>, offers: Offers) -> Self {
        Self { ticket, page, offers, is_printed: false }
    }

    /// The same as the ticket of a room, for several people, each of whom needs a code.
    #[must_use]
    pub fn of_room(self) -> Self {
        let ticket = Ticket { is_room: true, ..self.ticket };
        Self { ticket, offers: Offers { is_reusable: true, ..self.offers }, ..self }
    }

    /// Link of the page with the ticket in its fragment, which browsers send to no server.
    fn link(&self) -> Option<String> {
        self.page.as_ref().map(|page| format!("{page}#{}", self.ticket))
    }

    /// QR code of the link, if browsers may join.
    pub fn link_picture(&self) -> Option<Picture> {
        qr_code::picture(&self.link()?)
    }

    /// Prints the ticket, its code, and its link for browsers, before a call, for every status. `command` joins
    /// natively, if one does.
    ///
    /// Another program reads lines of JSON before each call. A user reads text before the first call, and gets a QR
    /// code on a terminal.
    pub fn print(&mut self, command: Option<&str>, status: StatusArgument) {
        let is_first = !std::mem::replace(&mut self.is_printed, true);
        let (text, link) = (self.ticket.to_string(), self.link());
        if status == StatusArgument::Json {
            // A program need not wait for the rendezvous.
            print_status(&StatusLine::Ticket(text.clone()));
            link.clone().map(StatusLine::Link).iter().for_each(print_status);
        }
        let is_new = command.is_some() && self.offers.renew(&self.ticket, is_first, status);
        let code = self.offers.code();
        if status == StatusArgument::Json {
            code.filter(|_| is_new).map(StatusLine::Code).iter().for_each(print_status);
            return;
        }
        let shows_ticket = is_first && (code.is_none() || self.offers.shows_ticket);
        let drawn = link.as_ref().filter(|_| is_first).or(shows_ticket.then_some(&text));
        if let Some(picture) =
            drawn.filter(|_| stdout().is_terminal()).and_then(|drawn| qr_code::text(drawn, qr_code::has_colours()))
        {
            // Its colours are escape sequences.
            output_file::print_text(format_args!("{picture}\n"));
        }
        if let Some(link) = link.filter(|_| is_first) {
            print_line!("link: {link}\nopen the link in a browser");
        }
        let Some(command) = command else { return };
        if shows_ticket {
            print_line!("ticket: {text}\njoin with: lockstep {command} TICKET");
        }
        if let Some((code, rendezvous)) = code.filter(|_| is_new).zip(self.offers.rendezvous.as_ref()) {
            print_line!("\n    code: {code}\n\njoin with: lockstep {command} {code} --rendezvous {rendezvous}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_a_rendezvous_is_refused_with_advice() {
        let said = ticket_of("7-guidance-revenue", None).expect_err("no rendezvous").to_string();
        assert!(said.contains("--rendezvous") && said.contains("LOCKSTEP_RENDEZVOUS"), "{said}");
        let said = ticket_of("7-guidanse-revenue", None).expect_err("a wrong word").to_string();
        assert!(said.contains("`guidanse` is not a word"), "{said}");
    }
}
