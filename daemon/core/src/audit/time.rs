//! Wall-clock time as the trail writes it.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY_MS: i64 = 86_400_000;
/// 9999-12-31T23:59:59.999Z: the last instant with a year of four digits.
const LAST_MS: i64 = 253_402_300_799_999;

/// An instant in whole milliseconds since the Unix epoch, from 1970 through 9999; written as
/// `2026-03-01T09:30:00.125Z`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct UtcMillis(i64);

impl UtcMillis {
    /// What lies outside the years 1970 to 9999 becomes the nearest instant inside: a broken clock
    /// must not stop an event from being written.
    #[must_use]
    pub fn from_unix_ms(ms: i64) -> Self {
        Self(ms.clamp(0, LAST_MS))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn as_unix_ms(self) -> i64 {
        self.0
    }
}

impl From<SystemTime> for UtcMillis {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self::from_unix_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for UtcMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_from_days(self.0 / DAY_MS);
        let ms = self.0 % DAY_MS;
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
            ms % 1_000
        )
    }
}

/// The text is not a time as the trail writes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("is not a UTC time such as 2026-03-01T09:30:00.125Z")]
pub struct TimeError;

impl FromStr for UtcMillis {
    type Err = TimeError;
    fn from_str(s: &str) -> Result<Self, TimeError> {
        let number = |range: std::ops::Range<usize>| {
            let digits = s
                .get(range)
                .filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            digits.and_then(|d| d.parse::<i64>().ok()).ok_or(TimeError)
        };
        let days = days_from_date(number(0..4)?, number(5..7)?, number(8..10)?);
        let minutes = (days * 24 + number(11..13)?) * 60 + number(14..16)?;
        let time = Self((minutes * 60 + number(17..19)?) * 1_000 + number(20..23)?);
        // Writing it again settles the separators and the ranges, the 30th of February included.
        if (0..=LAST_MS).contains(&time.0) && time.to_string() == s {
            Ok(time)
        } else {
            Err(TimeError)
        }
    }
}

// Both work with years that begin in March, so that a leap day is the last day of its year, counted
// within "eras" of 400 years, each 146,097 days long. 1970-01-01 is day 719,468 since 0000-03-01.

fn date_from_days(since_1970: i64) -> (i64, i64, i64) {
    let days = since_1970 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_instants_are_written_as_others_write_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_210_096_007, "2024-02-29T12:34:56.007Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (LAST_MS, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(UtcMillis::from_unix_ms(ms).to_string(), text);
        }
    }

    #[test]
    fn a_broken_clock_still_gives_a_time() {
        assert_eq!(UtcMillis::from_unix_ms(-1).as_unix_ms(), 0);
        assert_eq!(UtcMillis::from_unix_ms(i64::MAX).as_unix_ms(), LAST_MS);
        assert_eq!(
            UtcMillis::from(UNIX_EPOCH - Duration::from_secs(1)).as_unix_ms(),
            0
        );
    }

    #[test]
    fn other_spellings_and_impossible_dates_are_refused() {
        for bad in [
            "",
            "2026-03-01",
            "2026-03-01T09:30:00Z",
            "2026-03-01T09:30:00.125+00:00",
            "2026-03-01 09:30:00.125Z",
            "2025-02-29T00:00:00.000Z",
            "2026-13-01T00:00:00.000Z",
            "2026-00-01T00:00:00.000Z",
            "2026-01-00T00:00:00.000Z",
            "2026-03-01T24:00:00.000Z",
            "2026-03-01T09:60:00.000Z",
            "2026-03-01T09:30:60.000Z",
            "+026-03-01T09:30:00.125Z",
            "1969-12-31T23:59:59.999Z",
            "2026-03-01T09:30:00.1255",
            "２026-03-01T09:30:00.125Z",
        ] {
            assert_eq!(bad.parse::<UtcMillis>(), Err(TimeError), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_instant_round_trips(ms in 0..=LAST_MS) {
            let time = UtcMillis::from_unix_ms(ms);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }

        #[test]
        fn text_sorts_as_time_does(a in 0..=LAST_MS, b in 0..=LAST_MS) {
            let (a, b) = (UtcMillis::from_unix_ms(a), UtcMillis::from_unix_ms(b));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
