//! Where a listener listens: a TCP address or a Unix socket.

use core::fmt;
use core::str::FromStr;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address to listen on, written `127.0.0.1:8080`, `[::1]:8080` or `unix:/run/tidegate.sock`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP address; port 0 takes any free one.
    Tcp(SocketAddr),
    /// The path of a Unix socket; in a policy of 1 to [`Address::SOCKET_PATH_BYTES_MAX`] bytes.
    Unix(PathBuf),
}

impl Address {
    /// The longest path of a Unix socket in bytes, on the strictest system.
    pub const SOCKET_PATH_BYTES_MAX: usize = 103;

    /// Whether only this machine can reach it: a loopback address or a Unix socket.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// The TCP address, if it is one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

/// Text that is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "address \"{0}\" is neither an IP address with a port nor unix: with a path; write 127.0.0.1:8080 or unix:/run/tidegate.sock"
)]
pub struct NotAnAddress(pub String);

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        match text.strip_prefix("unix:") {
            Some("") => Err(NotAnAddress(text.to_owned())),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| NotAnAddress(text.to_owned())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (text, is_local) in [
            ("127.0.0.1:8080", true),
            ("127.9.9.9:1", true),
            ("[::1]:8080", true),
            ("[::ffff:127.0.0.1]:8080", true),
            ("unix:/run/tidegate.sock", true),
            ("0.0.0.0:8080", false),
            ("[::]:8080", false),
            ("10.1.2.3:80", false),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_local()), (text, is_local));
        }
    }

    #[test]
    fn what_is_no_address_says_how_to_write_one() {
        for text in ["8080", "localhost:8080", "unix:", "", "1.2.3.4"] {
            let message = text.parse::<Address>().unwrap_err().to_string();
            assert!(message.contains("write 127.0.0.1:8080 or unix:"), "{message}");
        }
    }
}
