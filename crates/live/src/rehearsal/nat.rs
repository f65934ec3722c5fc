//! Routers that translate addresses, in the words of RFC 4787: by what a mapping is chosen, and by what is let in.

use super::*;

/// What of the other side's address matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dependence {
    /// Nothing (endpoint-independent).
    Nothing,
    /// The address without the port.
    Address,
    /// Address and port.
    AddressAndPort,
}

impl Dependence {
    /// Whether the two are alike as far as it matters.
    fn alike(self, one: SocketAddr, other: SocketAddr) -> bool {
        match self {
            Self::Nothing => true,
            Self::Address => one.ip() == other.ip(),
            Self::AddressAndPort => one == other,
        }
    }
}

/// What an inside address is outside, towards whoever is like `first`.
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

    /// Where what `inside` sends to `to` seems to come from.
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

    /// Who inside gets what `from` sends to `to`; none if it is not let in.
    pub(super) fn inbound(&self, to: SocketAddr, from: SocketAddr) -> Option<SocketAddr> {
        let mapping = self.mappings.iter().find(|mapping| mapping.outside == to)?;
        mapping.sent_to.iter().any(|&sent| self.filtering.alike(sent, from)).then_some(mapping.inside)
    }
}
