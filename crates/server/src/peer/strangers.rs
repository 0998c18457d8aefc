//! Callers that have not introduced themselves: how many there may be, in all and from one address.
//!
//! One address that opens connection after connection and says nothing must not keep members of other addresses out.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use super::link::lock;

/// Strangers at once.
pub(super) const STRANGERS_MAX: usize = 256;
/// Of these, from one address.
pub(super) const STRANGERS_PER_ADDRESS_MAX: usize = 32;

/// Who is there without having said hello.
#[derive(Debug, Default)]
pub(super) struct Strangers(Mutex<BTreeMap<IpAddr, usize>>);

/// One of them. Dropped when it has introduced itself or is gone.
#[derive(Debug)]
pub(super) struct Stranger {
    all: Arc<Strangers>,
    address: IpAddr,
}

impl Strangers {
    /// Lets one more in; none if there are too many.
    pub(super) fn admit(self: &Arc<Strangers>, address: IpAddr) -> Option<Stranger> {
        let address = address.to_canonical();
        let mut strangers = lock(&self.0);
        if strangers.values().sum::<usize>() >= STRANGERS_MAX {
            return None;
        }
        let from_there = strangers.entry(address).or_default();
        if *from_there >= STRANGERS_PER_ADDRESS_MAX {
            return None;
        }
        *from_there += 1;
        Some(Stranger { all: self.clone(), address })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut strangers = lock(&self.all.0);
        if let Some(from_there) = strangers.get_mut(&self.address) {
            *from_there -= 1;
            if *from_there == 0 {
                strangers.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn strangers_of_one_address_leave_room_for_others() {
        let strangers = Arc::new(Strangers::default());
        let one = || strangers.admit(address(1));
        let mut there: Vec<_> = (0..STRANGERS_PER_ADDRESS_MAX).map(|_| one()).collect();
        assert!(there.iter().all(Option::is_some));
        assert!(one().is_none());
        assert!(strangers.admit(address(2)).is_some());
        there.pop();
        assert!(one().is_some(), "one has gone");
    }

    #[test]
    fn strangers_are_limited_in_all() {
        let strangers = Arc::new(Strangers::default());
        let addresses = (0..=u8::MAX).map(address);
        let mut there: Vec<_> = addresses.map(|one| strangers.admit(one)).collect();
        assert_eq!(there.len(), STRANGERS_MAX);
        assert!(there.iter().all(Option::is_some));
        assert!(strangers.admit(IpAddr::from([10, 0, 1, 0])).is_none());
        there.clear();
        assert!(lock(&strangers.0).is_empty());
    }
}
