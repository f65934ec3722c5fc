//! HTTP/3 of a program without the feature `web`, whose peers are native: there are no sessions.

use std::convert::Infallible;

use bytes::Bytes;
use quinn_proto::{Connection, StreamId};

/// Streams of a page. No listener of this program admits one.
pub(crate) const STREAMS: [u32; 2] = [0; 2];

/// A page that breaks the protocol. It cannot be constructed.
pub(crate) struct Malformed(Infallible);

/// A session. It cannot be constructed.
pub(crate) struct Session(Infallible);

impl Session {
    pub(crate) fn of(_: &Connection) -> Option<Self> {
        None
    }

    pub(crate) fn advance(&mut self, _: &mut Connection) -> Result<Option<u32>, Malformed> {
        match self.0 {}
    }

    pub(crate) fn write(&mut self, _: &mut Connection) {
        match self.0 {}
    }

    pub(crate) fn data_streams(&self) -> (Option<StreamId>, Option<StreamId>) {
        match self.0 {}
    }

    pub(crate) fn close(&mut self, _: &mut Connection, _: u32) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_request(&self, _: StreamId) -> bool {
        match self.0 {}
    }

    pub(crate) fn overhead(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn datagram(&self, _: &[u8]) -> Vec<u8> {
        match self.0 {}
    }

    pub(crate) fn payload(&self, _: Bytes) -> Option<Bytes> {
        match self.0 {}
    }
}
