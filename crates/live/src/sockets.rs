//! UDP sockets of both families, as one.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::SyncSender;

use crate::LiveError;
use crate::clock::Clock;
use crate::datagrams::{Incoming, Reader};
use crate::gate::Gate;

/// A socket for IPv6, one for IPv4, or one for both.
#[derive(Debug)]
pub(crate) struct Sockets {
    v6: Option<UdpSocket>,
    v4: Option<UdpSocket>,
}

impl Sockets {
    /// Binds `address`; the unspecified IPv6 address takes IPv4 along.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, LiveError> {
        let bind = |address: SocketAddr| UdpSocket::bind(address);
        let failed = |error| LiveError::Bind { address, error };
        if address.is_ipv4() {
            return Ok(Self { v6: None, v4: Some(bind(address).map_err(failed)?) });
        }
        if !address.ip().is_unspecified() {
            return Ok(Self { v6: Some(bind(address).map_err(failed)?), v4: None });
        }
        let both = |port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        match bind(address) {
            Ok(v6) => {
                // Where one socket does for both families, the port is taken for the second, which is as well.
                let v4 = bind(both(v6.local_addr().map_err(LiveError::Socket)?.port())).ok();
                Ok(Self { v6: Some(v6), v4 })
            }
            // A machine without IPv6.
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(failed(error)),
            Err(_) => Ok(Self { v6: None, v4: Some(bind(both(address.port())).map_err(failed)?) }),
        }
    }

    /// Any port of this machine's.
    pub(crate) fn any() -> Result<Self, LiveError> {
        Self::bind((Ipv6Addr::UNSPECIFIED, 0).into())
    }

    /// The port, of both families.
    pub(crate) fn port(&self) -> Result<u16, LiveError> {
        let address = self.v6.iter().chain(&self.v4).next().map(UdpSocket::local_addr);
        match address {
            Some(address) => Ok(address.map_err(LiveError::Socket)?.port()),
            None => Ok(0),
        }
    }

    /// Where others may reach these sockets, as far as this machine knows: the addresses that it would itself call far ones
    /// from, or its own for itself if it has no network.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, LiveError> {
        let port = self.port()?;
        let bound: Vec<SocketAddr> = self.v6.iter().chain(&self.v4).filter_map(|s| s.local_addr().ok()).collect();
        if let Some(fixed) = bound.iter().find(|address| !address.ip().is_unspecified()) {
            return Ok(vec![*fixed]);
        }
        // Addresses of documentation (RFC 5737, RFC 3849): a route is looked up, nothing is sent.
        let far: [(SocketAddr, SocketAddr); 2] = [
            ((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::new(192, 0, 2, 1), 9).into()),
            ((Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into()),
        ];
        let v6 = self.v6.is_some();
        let route = |(from, to): (SocketAddr, SocketAddr)| -> io::Result<IpAddr> {
            let socket = UdpSocket::bind(from)?;
            socket.connect(to)?;
            Ok(socket.local_addr()?.ip())
        };
        let mut found: Vec<IpAddr> = far.into_iter().filter_map(|pair| route(pair).ok()).collect();
        found.retain(|ip| !ip.is_unspecified() && !ip.is_loopback() && (v6 || ip.is_ipv4()));
        if found.is_empty() {
            found.push(Ipv4Addr::LOCALHOST.into());
        }
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }

    /// Reads what `gate` admits from all sockets into `events`.
    pub(crate) fn read<Event: Send + 'static>(
        &self,
        clock: Clock,
        events: &SyncSender<Event>,
        gate: Option<&Gate>,
        wrap: impl Fn(Incoming) -> Event + Clone + Send + 'static,
    ) -> Result<Vec<Reader>, LiveError> {
        let sockets = self.v6.iter().chain(&self.v4);
        sockets.map(|socket| Reader::spawn(socket, clock, events.clone(), gate.cloned(), wrap.clone())).collect()
    }

    /// Sends a datagram. What a network does to datagrams is no failure: it is lost.
    pub(crate) fn send(&self, datagram: &[u8], to: SocketAddr) -> Result<(), LiveError> {
        let sent = match (to, &self.v4, &self.v6) {
            (SocketAddr::V4(_), Some(socket), _) | (SocketAddr::V6(_), _, Some(socket)) => socket.send_to(datagram, to),
            (SocketAddr::V4(v4), None, Some(socket)) => {
                socket.send_to(datagram, SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())))
            }
            _ => return Ok(()),
        };
        match sent {
            Err(error) if !is_loss(&error) => Err(LiveError::Socket(error)),
            _ => Ok(()),
        }
    }
}

/// Whether a failed send is what a network does to datagrams, and no fault of this process: networks come and go while a
/// call lasts.
fn is_loss(error: &io::Error) -> bool {
    use ErrorKind::{
        AddrNotAvailable, ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, InvalidInput, NetworkDown,
        NetworkUnreachable, PermissionDenied, WouldBlock,
    };
    let lost = [
        AddrNotAvailable,
        ConnectionRefused,
        ConnectionReset,
        HostUnreachable,
        Interrupted,
        InvalidInput,
        NetworkDown,
        NetworkUnreachable,
        PermissionDenied,
        WouldBlock,
    ];
    // Full buffers of the system's, and probes for larger packets than the network takes.
    lost.contains(&error.kind()) || matches!(error.raw_os_error(), Some(40 | 55 | 90 | 105 | 10040 | 10055))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn sockets_of_any_address_hear_both_families_and_answer_to_where_it_came_from() {
        let clock = Clock::start();
        let (events, heard) = mpsc::sync_channel(16);
        let any = Sockets::any().expect("a port is free");
        let readers = any.read(clock, &events, None, |incoming| incoming).expect("they start");
        let port = any.port().expect("it is bound");
        let families: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for ip in families {
            let Ok(other) = UdpSocket::bind((ip, 0)) else { continue };
            other.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be set");
            other.send_to(b"there", (ip, port)).expect("it leaves");
            let incoming = heard.recv_timeout(Duration::from_secs(10)).expect("it is heard");
            assert_eq!(incoming.from, other.local_addr().expect("it is bound"), "without mapping");
            any.send(b"back", incoming.from).expect("it leaves");
            assert_eq!(other.recv(&mut [0; 16]).ok(), Some(4));
        }
        drop(readers);
        assert!(any.addresses().expect("it is bound").iter().all(|address| address.port() == port));
    }
}
