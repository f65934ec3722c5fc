//! The connection as the carrier of a call.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use lockstep_session::control::Message;
use lockstep_session::messages::{self, Delivery, MessageError};
use lockstep_session::stream::StreamName;
use lockstep_session::{Carrier, CarrierEvent, Route};
use lockstep_units::Timestamp;

use super::{Connection, PATIENCE, RELAY, Role};

impl Carrier for Connection {
    type Datagram = Bytes;
    type Destination = SocketAddr;

    fn poll(&mut self) -> Option<CarrierEvent<Bytes>> {
        self.events.pop_front()
    }

    fn poll_transmit(&mut self, now: Timestamp, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        if let Some(to) = self.poll_meeting(buffer) {
            return Some(to);
        }
        while let Some((to, answer)) = self.answers.pop_front() {
            *buffer = answer;
            if let Some(to) = self.wrapped(to, buffer) {
                return Some(to);
            }
        }
        let instant = self.origin.instant(now);
        let mut last = None;
        while let Some(handle) = self.handle_after(last) {
            last = Some(handle);
            let routed = self.chosen == Some(handle);
            let Some(link) = self.links.get_mut(&handle) else { continue };
            if let Some(transmit) = link.quic.poll_transmit(instant, 1, buffer) {
                self.last_sent = now;
                link.note_datagram(now);
                let to = match &self.role {
                    Role::Joiner { route, .. } if routed => route.current().unwrap_or(transmit.destination),
                    _ => transmit.destination,
                };
                return self.wrapped(to, buffer);
            }
            self.follow(handle, now);
        }
        None
    }

    fn poll_timeout(&mut self) -> Option<Timestamp> {
        let pending = matches!(self.role, Role::Listener { .. });
        let (origin, chosen) = (self.origin, self.chosen);
        let links = self.links.iter_mut().filter_map(|(&handle, link)| {
            let patience = (pending && chosen != Some(handle)).then(|| link.since + PATIENCE);
            Timestamp::earliest([link.quic.poll_timeout().map(|at| origin.moment(at)), patience, link.closes_at()])
        });
        let links = links.min();
        let keep_alive = self.keep_alive_at();
        let meeting = self.meeting_timeout();
        let closing = self.closing.map(|closing| closing.until);
        Timestamp::earliest([links, keep_alive, closing, meeting].map(|at| at.filter(|_| !self.over)))
    }

    fn is_joined(&self) -> bool {
        self.chosen.is_some()
    }

    fn is_open(&self) -> bool {
        self.chosen.is_some() && self.closing.is_none() && !self.over
    }

    fn last_received(&self) -> Timestamp {
        self.last_received
    }

    fn largest_datagram(&mut self) -> Option<usize> {
        self.links.get_mut(&self.chosen?)?.largest_datagram()
    }

    fn min_round_trip(&self) -> Option<Duration> {
        Some(self.links.get(&self.chosen?)?.quic.min_rtt())
    }

    fn route(&self) -> Option<Route> {
        self.destination().map(|to| if to == RELAY { Route::Relayed } else { Route::Direct })
    }

    fn tried(&self) -> String {
        let Role::Joiner { tried, .. } = &self.role else { return String::new() };
        let direct = tried.iter().filter(|&&address| address != RELAY).map(ToString::to_string);
        let direct = direct.collect::<Vec<_>>().join(", ");
        let direct = (!direct.is_empty()).then(|| format!("at {direct}"));
        let met = self.meeting.as_ref().map(|meeting| format!("by {}", meeting.standing()));
        direct.into_iter().chain(met).collect::<Vec<_>>().join(", and ")
    }

    fn unconfirmed(&self) -> Option<Duration> {
        self.unconfirmed
    }

    fn send(&mut self, datagram: Vec<u8>) {
        if let Some(link) = self.chosen.and_then(|chosen| self.links.get_mut(&chosen)) {
            link.send_datagram(datagram);
        }
    }

    fn send_control(&mut self, datagram: Vec<u8>) {
        if let Some(link) = self.chosen.and_then(|chosen| self.links.get_mut(&chosen)) {
            link.send(&Message::Transport(datagram));
        }
    }

    fn send_message(&mut self, now: Timestamp, message: &messages::Message) -> Result<usize, MessageError> {
        message.check()?;
        if !self.is_open() {
            return Err(MessageError::NotConnected);
        }
        let link = self.chosen.and_then(|chosen| self.links.get_mut(&chosen)).ok_or(MessageError::NotConnected)?;
        let bytes = match message.delivery {
            Delivery::Reliable => {
                let bytes = messages::reliable(now, &message.payload);
                link.send_reliable(&bytes).map_err(|waiting| MessageError::QueueFull { waiting })?;
                bytes.len()
            }
            Delivery::Latest { channel } => {
                let datagram = self.latest.datagram(channel, now, &message.payload);
                let length = datagram.len();
                link.send_datagram(datagram);
                length
            }
        };
        Ok(bytes)
    }

    fn name_stream(&mut self, connection: u32, name: StreamName) {
        if let Some(link) = self.chosen.and_then(|chosen| self.links.get_mut(&chosen)) {
            link.send(&Message::Stream { connection, name });
        }
    }

    fn ping(&mut self) {
        if let Some(link) = self.chosen.and_then(|chosen| self.links.get_mut(&chosen)) {
            link.quic.ping();
        }
    }
}
