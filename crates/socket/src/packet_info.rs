//! UDP with the local address of each datagram, which the standard library does not offer.
//!
//! Linux reports it by `IP_PKTINFO` of ip(7) and `IPV6_PKTINFO` of RFC 3542. On other systems the address is unknown.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Receive buffers.
pub(crate) struct Receiver {
    buffer: Vec<u8>,
    #[cfg(target_os = "linux")]
    control: Vec<u8>,
}

/// A received datagram.
pub(crate) struct Received<'a> {
    pub datagram: &'a [u8],
    pub from: SocketAddr,
    /// Local address of the datagram, if requested and reported by the system.
    pub to: Option<IpAddr>,
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(target_os = "linux")]
mod system {
    use std::io::{IoSlice, IoSliceMut};
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
    use std::os::fd::AsRawFd;

    use nix::errno::Errno;
    use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
    use nix::sys::socket::{
        ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
    };

    use super::{IpAddr, Received, Receiver, SocketAddr, UdpSocket, canonical, io};

    /// Requests that the system report the local address of each datagram at `socket`.
    pub(crate) fn ask(socket: &UdpSocket) -> io::Result<()> {
        if socket.local_addr()?.is_ipv4() {
            setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?;
        } else {
            setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        Ok(())
    }

    impl Receiver {
        /// Buffers for datagrams of up to `largest` bytes.
        pub(crate) fn new(largest: usize) -> Self {
            Self { buffer: vec![0; largest], control: nix::cmsg_space!(in_pktinfo, in6_pktinfo) }
        }

        /// Receives the next datagram of `socket`, within its read timeout.
        pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<Received<'_>> {
            self.control.resize(self.control.capacity(), 0);
            let (length, from, to) = {
                let mut into = [IoSliceMut::new(&mut self.buffer)];
                let (socket, control) = (socket.as_raw_fd(), Some(&mut self.control[..]));
                let message = recvmsg::<SockaddrStorage>(socket, &mut into, control, MsgFlags::empty())?;
                let to = message.cmsgs().ok().and_then(|mut all| {
                    all.find_map(|control| match control {
                        ControlMessageOwned::Ipv4PacketInfo(info) => {
                            Some(Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into())
                        }
                        ControlMessageOwned::Ipv6PacketInfo(info) => Some(IpAddr::from(info.ipi6_addr.s6_addr)),
                        _ => None,
                    })
                });
                (message.bytes, message.address.as_ref().and_then(address), to)
            };
            let from = canonical(from.ok_or(io::ErrorKind::Interrupted)?);
            let to = to.map(|to: IpAddr| to.to_canonical()).filter(|to| !to.is_unspecified() && !to.is_multicast());
            Ok(Received { datagram: &self.buffer[..length], from, to })
        }
    }

    fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
        let v4 = storage.as_sockaddr_in().map(|&v4| SocketAddrV4::from(v4).into());
        v4.or_else(|| storage.as_sockaddr_in6().map(|&v6| SocketAddrV6::from(v6).into()))
    }

    /// Sends a datagram `to` a remote address from the local address `from`, both in the family of `socket`. Fails if
    /// the machine does not have that address.
    pub(crate) fn send_from(socket: &UdpSocket, datagram: &[u8], to: SocketAddr, from: IpAddr) -> io::Result<usize> {
        let send = |info: ControlMessage<'_>| -> Result<usize, Errno> {
            let (socket, to) = (socket.as_raw_fd(), SockaddrStorage::from(to));
            sendmsg(socket, &[IoSlice::new(datagram)], &[info], MsgFlags::empty(), Some(&to))
        };
        let address = |from: Ipv4Addr| in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
        // The routes choose the interface.
        Ok(match (from, to) {
            (IpAddr::V4(from), SocketAddr::V4(_)) => send(ControlMessage::Ipv4PacketInfo(&in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: address(from),
                ipi_addr: address(Ipv4Addr::UNSPECIFIED),
            })),
            _ => {
                let from: Ipv6Addr = match from {
                    IpAddr::V4(from) => from.to_ipv6_mapped(),
                    IpAddr::V6(from) => from,
                };
                let ipi6_addr = in6_addr { s6_addr: from.octets() };
                send(ControlMessage::Ipv6PacketInfo(&in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 }))
            }
        }?)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{IpAddr, Received, Receiver, SocketAddr, UdpSocket, canonical, io};

    /// Does nothing, because the system offers no such option.
    pub(crate) fn ask(_: &UdpSocket) -> io::Result<()> {
        Ok(())
    }

    impl Receiver {
        /// Buffers for datagrams of up to `largest` bytes.
        pub(crate) fn new(largest: usize) -> Self {
            Self { buffer: vec![0; largest] }
        }

        /// Receives the next datagram of `socket`, within its read timeout.
        pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<Received<'_>> {
            let (length, from) = socket.recv_from(&mut self.buffer)?;
            Ok(Received { datagram: &self.buffer[..length], from: canonical(from), to: None })
        }
    }

    /// Sends a datagram; the system chooses the source address.
    pub(crate) fn send_from(socket: &UdpSocket, datagram: &[u8], to: SocketAddr, _: IpAddr) -> io::Result<usize> {
        socket.send_to(datagram, to)
    }
}

pub(crate) use system::{ask, send_from};
