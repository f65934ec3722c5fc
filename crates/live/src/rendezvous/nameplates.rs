//! Codes at a rendezvous: gives each listener a number, and passes parcels between it and one joiner at a time.
//!
//! The server keeps the newest parcel of each end and does not read it. It may forget everything: the ends repeat
//! their parcels, and a listener claims its number again.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use lockstep_units::Timestamp;

use super::code::Nameplate;
use super::limits::{CONSENT, FORGOTTEN, Limits, network};
use super::message::{Exchange, Message, PARCEL, Parcel, Refusal, Session, Side};

/// An end of a code.
#[derive(Debug)]
struct Party {
    session: Session,
    address: SocketAddr,
    received_at: Timestamp,
    parcel: Box<Parcel>,
}

/// A code: its listener, and the joiner that tries it.
#[derive(Debug)]
struct Pair {
    listener: Party,
    joiner: Option<Party>,
}

/// Codes in use, by number.
#[derive(Debug, Default)]
pub(super) struct Nameplates(BTreeMap<Nameplate, Pair>);

/// Datagrams of the server, each with its destination.
type Answers = Vec<(SocketAddr, Message<'static>)>;

/// Answer to `to` with the parcel of `other`.
fn exchanged(nameplate: Nameplate, to: &Party, other: Option<&Party>) -> (SocketAddr, Message<'static>) {
    let parcel = other.map_or_else(|| Box::new([0; PARCEL]), |other| other.parcel.clone());
    (to.address, Message::Exchanged { session: to.session, nameplate, parcel })
}

impl Nameplates {
    /// Codes in use.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes listeners and joiners that are silent.
    pub(super) fn clean(&mut self, now: Timestamp) {
        self.0.retain(|_, pair| {
            pair.joiner.take_if(|joiner| now.saturating_since(joiner.received_at) >= CONSENT);
            now.saturating_since(pair.listener.received_at) < FORGOTTEN
        });
    }

    /// Stores the parcel of an end at `from`, whose address is validated. Returns the answers to both ends. `drawn` is a
    /// random number, for the choice of a nameplate.
    pub(super) fn place(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        exchange: &Exchange,
        limits: &Limits,
        drawn: u64,
    ) -> Result<Answers, Refusal> {
        let Exchange { side, session, nameplate, parcel, .. } = *exchange;
        let party = Party { session, address: from, received_at: now, parcel: Box::new(parcel) };
        let nameplate = match side {
            Side::Listener => self.listen(nameplate, party, limits, drawn)?,
            Side::Joiner => {
                self.join(now, nameplate, party, limits)?;
                nameplate
            }
        };
        let Some(Pair { listener, joiner }) = self.0.get(&nameplate) else { return Ok(Vec::new()) };
        let consents = |party: &&Party| now.saturating_since(party.received_at) < CONSENT;
        let joiner = joiner.as_ref().filter(consents);
        let mut answers = vec![exchanged(nameplate, listener, joiner)];
        answers.extend(joiner.map(|joiner| exchanged(nameplate, joiner, Some(listener))));
        if !consents(&listener) {
            answers.remove(0);
        }
        Ok(answers)
    }

    /// Stores the parcel of a listener and returns its number.
    fn listen(
        &mut self,
        nameplate: Nameplate,
        party: Party,
        limits: &Limits,
        drawn: u64,
    ) -> Result<Nameplate, Refusal> {
        // The answer to an earlier request may be lost.
        let given = self.0.iter().find(|(_, pair)| pair.listener.session == party.session).map(|(&number, _)| number);
        if let Some((number, pair)) = given.and_then(|number| Some((number, self.0.get_mut(&number)?))) {
            pair.listener = party;
            return Ok(number);
        }
        let of_network =
            |network: IpAddr| self.0.values().filter(move |pair| self::network(pair.listener.address) == network);
        if of_network(network(party.address)).count() >= limits.calls_per_address {
            return Err(Refusal::TooMany);
        }
        if self.0.len() >= limits.calls.min(usize::from(Nameplate::MAX)) {
            return Err(Refusal::Full);
        }
        // A listener claims its number again after a restart of the server.
        let number = if nameplate == 0 { self.free(drawn) } else { nameplate };
        if self.0.contains_key(&number) {
            return Err(Refusal::Taken);
        }
        self.0.insert(number, Pair { listener: party, joiner: None });
        Ok(number)
    }

    /// A free number with as few digits as possible.
    fn free(&self, drawn: u64) -> Nameplate {
        let mut first: Nameplate = 1;
        loop {
            let last = first.saturating_mul(10) - 1;
            let last = if last < first { Nameplate::MAX } else { last };
            let count = usize::from(last - first) + 1 - self.0.range(first..=last).count();
            if count > 0 || last == Nameplate::MAX {
                let place = (drawn % count.max(1) as u64) as usize;
                return (first..=last).filter(|number| !self.0.contains_key(number)).nth(place).unwrap_or(last);
            }
            first = last + 1;
        }
    }

    /// Stores the parcel of a joiner.
    fn join(&mut self, now: Timestamp, nameplate: Nameplate, party: Party, limits: &Limits) -> Result<(), Refusal> {
        let network = network(party.address);
        let tries = self.0.iter().filter(|(number, pair)| {
            let joiner = pair.joiner.as_ref().map(|joiner| self::network(joiner.address));
            **number != nameplate && joiner == Some(network)
        });
        if tries.count() >= limits.calls_per_address {
            return Err(Refusal::TooMany);
        }
        let pair = self.0.get_mut(&nameplate).ok_or(Refusal::Unknown)?;
        let is_taken = pair.joiner.as_ref().is_some_and(|joiner| {
            joiner.session != party.session && now.saturating_since(joiner.received_at) < CONSENT
        });
        if is_taken {
            return Err(Refusal::Taken);
        }
        pair.joiner = Some(party);
        Ok(())
    }
}
