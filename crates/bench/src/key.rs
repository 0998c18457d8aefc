//! Keys and values to write.

use bytes::Bytes;

/// The keys of a load: a prefix and a number of fixed width, so that all are equally long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct KeyArgs {
    /// How many different keys
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) key_space: u64,
    /// What all keys begin with
    #[arg(long, default_value = "bench/")]
    pub(crate) key_prefix: String,
}

impl KeyArgs {
    pub(crate) fn key(&self, number: u64) -> Bytes {
        format!("{}{number:012}", self.key_prefix).into()
    }

    pub(crate) fn random(&self, dice: &mut Dice) -> Bytes {
        self.key(dice.roll() % self.key_space)
    }
}

/// Reads the size of a value.
pub(crate) fn value_size(text: &str) -> Result<usize, String> {
    let bytes = tenure::api::size::size(text)?;
    usize::try_from(bytes).map_err(|_| format!("{text:?} is too large"))
}

/// A value of so many bytes.
pub(crate) fn value(size: usize) -> Bytes {
    vec![b'v'; size].into()
}

/// Random enough to spread keys, the same in every run (splitmix64).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: usize) -> Dice {
        Dice(seed as u64)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
