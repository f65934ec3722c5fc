//! The connection as the carrier of a call.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use lockstep_session::messages::{Message, MessageError};
use lockstep_session::stream::StreamName;
use lockstep_session::{Carrier, CarrierEvent, Route};
use lockstep_units::Timestamp;

use super::Connection;

impl Carrier for Connection {
    type Datagram = Bytes;
    type Destination = SocketAddr;

    fn poll(&mut self) -> Option<CarrierEvent<Bytes>> {
        Self::poll(self)
    }

    fn poll_transmit(&mut self, now: Timestamp, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        Self::poll_transmit(self, now, buffer)
    }

    fn poll_timeout(&mut self) -> Option<Timestamp> {
        Self::poll_timeout(self)
    }

    fn is_joined(&self) -> bool {
        Self::is_joined(self)
    }

    fn is_open(&self) -> bool {
        Self::is_open(self)
    }

    fn last_received(&self) -> Timestamp {
        Self::last_received(self)
    }

    fn largest_datagram(&mut self) -> Option<usize> {
        Self::largest_datagram(self)
    }

    fn min_round_trip(&self) -> Option<Duration> {
        Self::min_round_trip(self)
    }

    fn route(&self) -> Option<Route> {
        Self::route(self)
    }

    fn tried(&self) -> String {
        Self::tried(self)
    }

    fn unconfirmed(&self) -> Option<Duration> {
        Self::unconfirmed(self)
    }

    fn send(&mut self, datagram: Vec<u8>) {
        Self::send(self, datagram);
    }

    fn send_control(&mut self, datagram: Vec<u8>) {
        Self::send_control(self, datagram);
    }

    fn send_message(&mut self, now: Timestamp, message: &Message) -> Result<usize, MessageError> {
        Self::send_message(self, now, message)
    }

    fn name_stream(&mut self, connection: u32, name: StreamName) {
        Self::name_stream(self, connection, name);
    }

    fn ping(&mut self) {
        Self::ping(self);
    }
}
