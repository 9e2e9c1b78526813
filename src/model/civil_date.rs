//! The calendar: days since 1970 to a date. Knows no clock and no time zone but UTC. Upstream counterpart:
//! `java.time.LocalDate.ofEpochDay`.

/// Year, month and day of a day counted from 1970-01-01, by the Gregorian calendar. Years begin with March inside, so
/// that the leap day is their last.
#[must_use]
pub fn civil_date(days_since_1970: u64) -> (i64, u8, u8) {
    let days = days_since_1970.saturating_add(719_468);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (
        i64::try_from(year).unwrap_or(i64::MAX),
        u8::try_from(month).unwrap_or(1),
        u8::try_from(day).unwrap_or(1),
    )
}

#[cfg(test)]
mod tests {
    use super::civil_date;

    #[test]
    fn dates_follow_the_gregorian_calendar() {
        for (day, date) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (19_782, (2024, 2, 29)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil_date(day), date, "day {day}");
        }
    }
}
