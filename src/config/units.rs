//! Durations, sizes and processor counts as people write them.

use std::time::Duration;

/// Reads `90s`, `5m`, `24h`, `1h30m`, `7d` or a bare `0`.
///
/// # Errors
/// With what was expected.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "must be a duration such as 90s, 5m, 24h or 1h30m";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut seconds = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| EXPECTED)?;
        let mut after = rest[digits..].chars();
        let unit = match after.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3600,
            Some('d') => 86_400,
            _ => return Err(EXPECTED),
        };
        let part = number.checked_mul(unit).ok_or(EXPECTED)?;
        seconds = seconds.checked_add(part).ok_or(EXPECTED)?;
        rest = after.as_str();
    }
    // An empty text never entered the loop.
    if text.is_empty() { Err(EXPECTED) } else { Ok(Duration::from_secs(seconds)) }
}

/// Reads bytes as Kubernetes writes quantities: `512Mi`, `4Gi`, `1G`, `1048576`.
///
/// # Errors
/// With what was expected.
pub fn bytes(text: &str) -> Result<u64, &'static str> {
    const EXPECTED: &str = "must be a size such as 512Mi or 4Gi";
    const UNITS: [(&str, u64); 7] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("", 1),
    ];
    let (number, unit) = UNITS
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|number| (number, *unit)))
        .unwrap_or((text, 1));
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(EXPECTED);
    }
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or(EXPECTED)
}

/// Reads cores, `2` or `500m`, as thousandths of a core.
///
/// # Errors
/// With what was expected.
pub fn cpu_millis(text: &str) -> Result<u32, &'static str> {
    const EXPECTED: &str = "must be a number of cores such as 2 or 500m, and more than 0";
    let digits =
        |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
    let millis = match text.strip_suffix('m') {
        Some(millis) => digits(millis),
        None => digits(text).and_then(|cores| cores.checked_mul(1000)),
    };
    millis.filter(|millis| *millis > 0).ok_or(EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let seconds = |text| duration(text).map(|d| d.as_secs()).ok();
        assert_eq!(seconds("24h"), Some(86_400));
        assert_eq!(seconds("1h30m"), Some(5400));
        assert_eq!(seconds("0"), Some(0));
        for bad in
            ["", "h", "5", "5x", "-1s", "1.5h", "99999999999999999999s", "18446744073709551615d", "5 m"]
        {
            assert_eq!(seconds(bad), None, "{bad:?} was accepted");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("1Gi"), Ok(1 << 30));
        assert_eq!(bytes("768Mi"), Ok(768 << 20));
        assert_eq!(bytes("10"), Ok(10));
        for bad in ["", "Gi", "1.5Gi", "-1", "1GB", "99999999999999999999", "99999999999Ti"] {
            assert!(bytes(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn cores() {
        assert_eq!(cpu_millis("2"), Ok(2000));
        assert_eq!(cpu_millis("500m"), Ok(500));
        for bad in ["", "m", "0", "0m", "1.5", "-1", "9999999999"] {
            assert!(cpu_millis(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
