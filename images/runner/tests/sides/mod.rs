//! The two sides a runner talks to, as tests play them: the daemon over frames, and an API server
//! over TLS that follows a script.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod api_server;
pub mod daemon;
pub mod namespace;
pub mod objects;
pub mod terraform;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// No step of a test takes longer, or the test has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A bearer token that is easy to find again.
pub const CANARY: &str = "eyJhbGciOiJSUzI1NiJ9.Y2FuYXJ5LWNhbmFyeS1jYW5hcnk.c2lnbmF0dXJl";

/// An address on this host where nobody listens, so that connecting is refused.
pub fn nobody() -> SocketAddr {
    let (door, address) = closed_door();
    // Held until the test process ends, or another test could come to listen there.
    std::mem::forget(door);
    address
}

/// A socket that has its address and does not listen yet.
pub fn closed_door() -> (OwnedFd, SocketAddr) {
    let door = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&door, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = getsockname(&door).unwrap().try_into().unwrap();
    (door, address)
}
