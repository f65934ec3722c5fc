//! UDP sockets of both address families behind one interface.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::SyncSender;

use getifaddrs::{InterfaceFlags, getifaddrs};
use lockstep_units::Timestamp;

use crate::clock::Clock;
use crate::datagrams::{Admission, Incoming, Reader};
use crate::error::SystemError;
use crate::local_addresses::LocalAddresses;
use crate::packet_info;

/// A socket for IPv6, one for IPv4, or one for both.
#[derive(Debug)]
pub struct Sockets {
    v6: Option<UdpSocket>,
    v4: Option<UdpSocket>,
    asked: LocalAddresses,
}

/// Addresses of this machine that others may reach, those of connected networks first.
fn own_addresses() -> Vec<IpAddr> {
    let interfaces = getifaddrs().into_iter().flatten().filter(|interface| {
        interface.flags.contains(InterfaceFlags::UP) && !interface.flags.contains(InterfaceFlags::LOOPBACK)
    });
    let mut found: Vec<(bool, IpAddr)> = interfaces
        .filter_map(|interface| {
            Some((!interface.flags.contains(InterfaceFlags::RUNNING), interface.address.ip_addr()?))
        })
        .filter(|(_, ip)| match ip {
            IpAddr::V4(_) => true,
            // Link-local addresses need the interface's name, which differs at the other end (RFC 4007, section 6).
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
        })
        .filter(|(_, ip)| !ip.is_loopback() && !ip.is_unspecified())
        .collect();
    found.sort_by_key(|&(apart, ip)| (apart, ip.is_ipv6()));
    found.into_iter().map(|(_, ip)| ip).collect()
}

/// The source address of the route to `to`. Only the route is looked up; nothing is sent.
fn usual_source(to: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

impl Sockets {
    /// Binds `address`; the unspecified IPv6 address also accepts IPv4.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(address: SocketAddr) -> Result<Self, SystemError> {
        let bind = |address: SocketAddr| {
            let socket = UdpSocket::bind(address)?;
            if address.ip().is_unspecified() {
                // Without this, the system chooses the source address of answers.
                let _ = packet_info::ask(&socket);
            }
            Ok(socket)
        };
        let asked = LocalAddresses::default();
        let failed = |error| SystemError::Bind { address, error };
        if address.is_ipv4() {
            return Ok(Self { v6: None, v4: Some(bind(address).map_err(failed)?), asked });
        }
        if !address.ip().is_unspecified() {
            return Ok(Self { v6: Some(bind(address).map_err(failed)?), v4: None, asked });
        }
        let both = |port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        match bind(address) {
            Ok(v6) => {
                // If one socket serves both families, the port is taken for the second one, which is not needed then.
                let v4 = bind(both(v6.local_addr().map_err(SystemError::Socket)?.port())).ok();
                Ok(Self { v6: Some(v6), v4, asked })
            }
            // Other errors mean a machine without IPv6.
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(failed(error)),
            Err(_) => Ok(Self { v6: None, v4: Some(bind(both(address.port())).map_err(failed)?), asked }),
        }
    }

    /// The same sockets for the next call.
    ///
    /// # Errors
    /// The system has no further handle.
    pub fn try_clone(&self) -> Result<Self, SystemError> {
        let clone = |socket: &Option<UdpSocket>| socket.as_ref().map(UdpSocket::try_clone).transpose();
        let clones = clone(&self.v6).and_then(|v6| Ok((v6, clone(&self.v4)?)));
        let (v6, v4) = clones.map_err(SystemError::Socket)?;
        Ok(Self { v6, v4, asked: LocalAddresses::default() })
    }

    /// Binds any free port.
    ///
    /// # Errors
    /// No port can be bound.
    pub fn any() -> Result<Self, SystemError> {
        Self::bind((Ipv6Addr::UNSPECIFIED, 0).into())
    }

    /// The port, the same for both families.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn port(&self) -> Result<u16, SystemError> {
        let address = self.v6.iter().chain(&self.v4).next().map(UdpSocket::local_addr);
        match address {
            Some(address) => Ok(address.map_err(SystemError::Socket)?.port()),
            None => Ok(0),
        }
    }

    /// Address at which programs of this machine reach these sockets.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn local_address(&self) -> Result<SocketAddr, SystemError> {
        let socket = self.v4.as_ref().or(self.v6.as_ref());
        let mut address = socket.map_or(Ok((Ipv4Addr::LOCALHOST, 0).into()), UdpSocket::local_addr);
        if let Ok(address) = &mut address
            && address.ip().is_unspecified()
        {
            let is_v4 = address.is_ipv4();
            address.set_ip(if is_v4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        address.map_err(SystemError::Socket)
    }

    /// Addresses at which others may reach these sockets, as far as this machine knows.
    ///
    /// They are the source addresses of routes to distant networks. Without such a route, as on a cable between two
    /// machines, they are all addresses of the machine. Without a network, it is the loopback address.
    ///
    /// # Errors
    /// The system does not report the port.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, SystemError> {
        let port = self.port()?;
        let bound: Vec<SocketAddr> = self.v6.iter().chain(&self.v4).filter_map(|s| s.local_addr().ok()).collect();
        if let Some(fixed) = bound.iter().find(|address| !address.ip().is_unspecified()) {
            return Ok(vec![*fixed]);
        }
        // Addresses for documentation (RFC 5737, RFC 3849).
        let far: [SocketAddr; 2] =
            [(Ipv4Addr::new(192, 0, 2, 1), 9).into(), (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into()];
        let v6 = self.v6.is_some();
        let mut found: Vec<IpAddr> = far.into_iter().filter_map(|to| usual_source(to).ok()).collect();
        found.retain(|ip| !ip.is_unspecified() && !ip.is_loopback() && (v6 || ip.is_ipv4()));
        if found.is_empty() {
            found.extend(own_addresses().into_iter().filter(|ip| v6 || ip.is_ipv4()));
        }
        if found.is_empty() {
            found.push(Ipv4Addr::LOCALHOST.into());
        }
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }

    /// Reads datagrams that `gate` admits from all sockets to `events`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn read<Event: Send + 'static>(
        &self,
        clock: Clock,
        events: &SyncSender<Event>,
        gate: Option<&impl Admission>,
        wrap: impl Fn(Incoming) -> Event + Clone + Send + 'static,
    ) -> Result<Vec<Reader>, SystemError> {
        let sockets = self.v6.iter().chain(&self.v4);
        sockets.map(|socket| Reader::spawn(socket, clock, events.clone(), gate.cloned(), wrap.clone())).collect()
    }

    /// Records the source address for answers to a datagram; call it before the answer.
    pub fn note(&mut self, incoming: &Incoming) {
        if let Some(to) = incoming.to {
            self.asked.note(incoming.at, incoming.from, to, |who| usual_source(who).ok());
        }
    }

    /// Sends a datagram. Errors of the network are not failures: the datagram counts as lost.
    ///
    /// # Errors
    /// The socket failed.
    pub fn send(&self, now: Timestamp, datagram: &[u8], to: SocketAddr) -> Result<(), SystemError> {
        let (socket, as_known) = match (to, &self.v4, &self.v6) {
            (SocketAddr::V4(_), Some(socket), _) | (SocketAddr::V6(_), _, Some(socket)) => (socket, to),
            (SocketAddr::V4(v4), None, Some(socket)) => {
                (socket, SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())))
            }
            _ => return Ok(()),
        };
        let from = self.asked.source(now, to);
        let sent = from.map(|from| packet_info::send_from(socket, datagram, as_known, from));
        let sent = match sent {
            // The machine lost the address, or no route starts at it.
            Some(Err(error)) if is_about_the_source(&error) => None,
            sent => sent,
        };
        match sent.unwrap_or_else(|| socket.send_to(datagram, as_known)) {
            Err(error) if !is_loss(&error) => Err(SystemError::Socket(error)),
            _ => Ok(()),
        }
    }
}

/// Whether a failed send may succeed from another local address.
fn is_about_the_source(error: &io::Error) -> bool {
    use ErrorKind::{AddrNotAvailable, HostUnreachable, InvalidInput, NetworkUnreachable};
    matches!(error.kind(), AddrNotAvailable | HostUnreachable | InvalidInput | NetworkUnreachable)
}

/// Whether a failed send is a loss in the network, not a fault of this process. Networks may change during a call.
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
    // Full buffers of the system, and probes that exceed the path MTU.
    lost.contains(&error.kind()) || matches!(error.raw_os_error(), Some(40 | 55 | 90 | 105 | 10040 | 10055))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use bytes::BytesMut;

    use super::*;

    #[test]
    fn sockets_of_any_address_serve_both_families() {
        let clock = Clock::start();
        let (events, heard) = mpsc::sync_channel(16);
        let mut any = Sockets::any().expect("a port is free");
        let readers = any.read(clock, &events, None::<&()>, |incoming| incoming).expect("they start");
        let port = any.port().expect("it is bound");
        let families: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for ip in families {
            let Ok(other) = UdpSocket::bind((ip, 0)) else { continue };
            other.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be set");
            other.send_to(b"there", (ip, port)).expect("it leaves");
            let incoming = heard.recv_timeout(Duration::from_secs(10)).expect("it is heard");
            assert_eq!(incoming.from, other.local_addr().expect("it is bound"), "without mapping");
            any.note(&incoming);
            any.send(incoming.at, b"back", incoming.from).expect("it leaves");
            assert_eq!(other.recv(&mut [0; 16]).ok(), Some(4));
        }
        drop(readers);
        assert!(any.addresses().expect("it is bound").iter().all(|address| address.port() == port));
    }

    /// On Linux the loopback interface has all addresses of 127.0.0.0/8.
    #[cfg(target_os = "linux")]
    #[test]
    fn answer_leaves_from_the_address_that_received_the_request() {
        let clock = Clock::start();
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        for bound in [Sockets::bind(v4), Sockets::any()] {
            let (events, heard) = mpsc::sync_channel(16);
            let mut bound = bound.expect("a port is free");
            let readers = bound.read(clock, &events, None::<&()>, |incoming| incoming).expect("they start");
            let port = bound.port().expect("it is bound");
            let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
            other.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be set");
            for asked in [[127, 0, 0, 2], [127, 0, 0, 1], [127, 9, 8, 7]].map(|ip| SocketAddr::from((ip, port))) {
                other.send_to(b"there", asked).expect("it leaves");
                let incoming = heard.recv_timeout(Duration::from_secs(10)).expect("it is heard");
                assert_eq!(incoming.to, Some(asked.ip()));
                bound.note(&incoming);
                bound.send(incoming.at, b"back", incoming.from).expect("it leaves");
                assert_eq!(other.recv_from(&mut [0; 16]).ok(), Some((4, asked)));
            }
            drop(readers);
        }
    }

    #[test]
    fn own_addresses_can_be_bound_and_are_not_loopback() {
        let found = own_addresses();
        for ip in &found {
            assert!(UdpSocket::bind((*ip, 0)).is_ok() && !ip.is_loopback(), "{ip}");
        }
        // They include the source address of routes to distant networks.
        let far = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9));
        let usual = usual_source(far).ok().filter(|ip| !ip.is_loopback());
        assert!(usual.is_none_or(|usual| found.contains(&usual)), "{usual:?} of {found:?}");
    }

    #[test]
    fn datagram_is_sent_although_its_source_address_is_gone() {
        let mut any = Sockets::any().expect("a port is free");
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        other.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be set");
        let (from, to) = (other.local_addr().expect("it is bound"), Some(Ipv4Addr::new(192, 0, 2, 9).into()));
        any.note(&Incoming { at: Timestamp::ZERO, from, to, datagram: BytesMut::new() });
        any.send(Timestamp::ZERO, b"back", from).expect("it leaves");
        assert_eq!(other.recv(&mut [0; 16]).ok(), Some(4));
    }
}
