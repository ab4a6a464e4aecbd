//! Whose request it is.

use std::net::{IpAddr, Ipv6Addr};

/// What stands for the client at `address`: of an IPv6 address the network of 64 bits, because
/// each customer has one and can choose freely in it.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let network = |address: &str| network_of(address.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:0:1::7"), "2001:db8:0:1::");
        assert_eq!(network("2001:db8:0:1:ffff::"), "2001:db8:0:1::");
    }
}
