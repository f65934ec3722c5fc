//! Source addresses for answers: the local address to which each remote end sent.
//!
//! Remote ends and routers accept no answer from another address. By default, the system answers from the address of
//! its usual route.
//!
//! If the usual route starts at the local address, the system chooses the source, now and later. When the routes change
//! during a call, datagrams follow the new routes, although the old address may still exist.

use std::collections::HashMap;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use lockstep_units::Timestamp;

/// After this silence of a remote address, the system chooses the source again. Ends announce themselves to a
/// rendezvous three times in this time.
const MEMORY: Duration = Duration::from_secs(15);
/// Remote addresses in one generation of the memory, which has two.
const MAX_ADDRESSES: usize = 8_192;

/// The local address to which a remote one sent.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: IpAddr,
    /// Source address of the system's route to the remote end at its first datagram.
    usual: Option<IpAddr>,
    received_at: Timestamp,
}

/// The local address to which each recent remote one sent.
#[derive(Debug, Default)]
pub(crate) struct LocalAddresses {
    recent: HashMap<SocketAddr, Place>,
    before: HashMap<SocketAddr, Place>,
}

impl LocalAddresses {
    /// Records that a datagram from `who` arrived at the local address `at`. `usual` returns the source address of the
    /// system's route.
    pub(crate) fn note(
        &mut self,
        now: Timestamp,
        who: SocketAddr,
        at: IpAddr,
        usual: impl FnOnce(SocketAddr) -> Option<IpAddr>,
    ) {
        let usual = match self.find(now, who) {
            Some(place) => place.usual,
            None => usual(who),
        };
        if self.recent.len() >= MAX_ADDRESSES {
            self.before = mem::take(&mut self.recent);
        }
        self.recent.insert(who, Place { at, usual, received_at: now });
    }

    /// The source address for datagrams to `who`; `None` leaves it to the system.
    pub(crate) fn source(&self, now: Timestamp, who: SocketAddr) -> Option<IpAddr> {
        let place = self.find(now, who)?;
        (place.usual != Some(place.at)).then_some(place.at)
    }

    fn find(&self, now: Timestamp, who: SocketAddr) -> Option<Place> {
        let place = self.recent.get(&who).or_else(|| self.before.get(&who)).copied();
        place.filter(|place| now.saturating_since(place.received_at) < MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn who(number: u16) -> SocketAddr {
        SocketAddr::from(([198, 51, 100, 1], number))
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000 * seconds)
    }

    #[test]
    fn answer_leaves_from_the_asked_address_while_questions_arrive() {
        let mut asked = LocalAddresses::default();
        asked.note(at(0), who(1), ip(12), |_| Some(ip(2)));
        asked.note(at(0), who(2), ip(2), |_| Some(ip(2)));
        assert_eq!([1, 2, 3].map(|number| asked.source(at(14), who(number))), [Some(ip(12)), None, None]);
        asked.note(at(14), who(1), ip(12), |_| panic!("it is known"));
        assert_eq!([28, 29].map(|seconds| asked.source(at(seconds), who(1))), [Some(ip(12)), None]);
    }

    #[test]
    fn change_of_the_route_in_a_call_is_followed() {
        let mut asked = LocalAddresses::default();
        asked.note(at(0), who(1), ip(2), |_| Some(ip(2)));
        // The other end sends to the old address until it knows the new one.
        asked.note(at(1), who(1), ip(2), |_| Some(ip(7)));
        assert_eq!(asked.source(at(1), who(1)), None);
    }

    #[test]
    fn active_address_is_kept_and_memory_is_bounded() {
        let mut asked = LocalAddresses::default();
        for other in 0..60_000 {
            asked.note(at(0), who(other), ip(2), |_| None);
            if other % 1_000 == 0 {
                asked.note(at(0), who(65_000), ip(12), |_| None);
            }
        }
        assert_eq!((asked.source(at(1), who(65_000)), asked.source(at(1), who(0))), (Some(ip(12)), None));
        assert!(asked.recent.len() + asked.before.len() <= 2 * MAX_ADDRESSES);
    }
}
