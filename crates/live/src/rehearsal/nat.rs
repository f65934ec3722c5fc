//! Routers with network address translation, in the terms of RFC 4787: mapping behaviour and filtering behaviour.

use super::*;

/// The part of the remote address on which a behaviour depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dependence {
    /// No part (endpoint-independent).
    Nothing,
    /// The address without the port.
    Address,
    /// Address and port.
    AddressAndPort,
}

impl Dependence {
    /// Whether two addresses are equal in that part.
    fn alike(self, one: SocketAddr, other: SocketAddr) -> bool {
        match self {
            Self::Nothing => true,
            Self::Address => one.ip() == other.ip(),
            Self::AddressAndPort => one == other,
        }
    }
}

/// Outside address of `inside` towards remote addresses equal to `first`.
#[derive(Debug)]
struct Mapping {
    inside: SocketAddr,
    first: SocketAddr,
    outside: SocketAddr,
    sent_to: Vec<SocketAddr>,
}

/// A router.
#[derive(Debug)]
pub(super) struct Nat {
    outside: [u8; 4],
    mapping: Dependence,
    filtering: Dependence,
    mappings: Vec<Mapping>,
}

impl Nat {
    pub(super) fn new(last: u8, mapping: Dependence, filtering: Dependence) -> Self {
        Self { outside: [203, 0, 113, last], mapping, filtering, mappings: Vec::new() }
    }

    /// The outside address of a packet from `inside` to `to`.
    pub(super) fn outbound(&mut self, inside: SocketAddr, to: SocketAddr) -> SocketAddr {
        let kind = self.mapping;
        let known = self.mappings.iter_mut().find(|known| known.inside == inside && kind.alike(known.first, to));
        if let Some(known) = known {
            if !known.sent_to.contains(&to) {
                known.sent_to.push(to);
            }
            return known.outside;
        }
        let outside = SocketAddr::from((self.outside, 20_000 + 7 * self.mappings.len() as u16));
        self.mappings.push(Mapping { inside, first: to, outside, sent_to: vec![to] });
        outside
    }

    /// The inside address that receives a packet from `from` to `to`; `None` if the router drops it.
    pub(super) fn inbound(&self, to: SocketAddr, from: SocketAddr) -> Option<SocketAddr> {
        let mapping = self.mappings.iter().find(|mapping| mapping.outside == to)?;
        mapping.sent_to.iter().any(|&sent| self.filtering.alike(sent, from)).then_some(mapping.inside)
    }
}
