//! The one source of randomness of a simulation: every choice comes from its seed.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014; the constants are those of
/// Vigna's public-domain `splitmix64.c`). Small, and good enough to pick faults with.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The same seed throws the same numbers, for ever.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u32) -> u32 {
        // The bias is bound / 2^64: of no concern here.
        u32::try_from(self.bits() % u64::from(bound.max(1))).unwrap_or_default()
    }

    /// A number in `[from, to)`.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        from + i64::from(self.below(u32::try_from(to - from).unwrap_or(1)))
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(u32::try_from(of.len()).unwrap_or(1)) as usize]
    }

    /// One of several, by weight.
    pub fn weighted<T: Copy>(&mut self, of: &[(u32, T)]) -> T {
        let total = of.iter().map(|(weight, _)| weight).sum();
        let mut rest = self.below(total);
        for (weight, item) in of {
            if rest < *weight {
                return *item;
            }
            rest -= weight;
        }
        of[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 1234567, as the reference implementation prints them.
    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut dice = Dice::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| dice.bits()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
