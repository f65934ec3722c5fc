//! Destinations of datagrams, as the user names them.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, bail};

/// Checks that `text` is `HOST:PORT`. The host is a name or an address (an IPv6 address in brackets).
pub fn destination(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (bracketed || !host.contains(':'))
    });
    match port.map(|(_, port)| port.parse::<u16>()) {
        Some(Ok(1..)) => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is not HOST:PORT, such as there:4600, 192.0.2.7:4600 or [2001:db8::7]:4600")),
    }
}

/// All addresses of `destination` without duplicates, in the system's order.
pub fn resolve(destination: &str) -> Result<Vec<SocketAddr>> {
    let found = destination.to_socket_addrs();
    let found = found.with_context(|| format!("cannot resolve {destination}; check the host's name"))?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    found.for_each(|address| {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    });
    if addresses.is_empty() {
        bail!("{destination} has no address; check the host's name");
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_addresses_and_need_a_port() {
        for good in ["there:4600", "localhost:1", "192.0.2.7:65535", "[2001:db8::7]:4600"] {
            assert_eq!(destination(good), Ok(good.to_owned()));
        }
        for bad in ["there", "there:", ":4600", "there:0", "there:65536", "2001:db8::7:4600", "there:http", ""] {
            assert!(destination(bad).is_err_and(|error| error.contains("HOST:PORT")), "{bad}");
        }
    }

    #[test]
    fn an_address_stands_for_itself() {
        assert_eq!(resolve("127.0.0.1:4600").ok(), Some(vec![SocketAddr::from(([127, 0, 0, 1], 4600))]));
    }
}
