//! Parses the text of a condition.

use crate::condition::{Checksum, Condition, Number, Size};

/// Parses the condition of a line, or returns an error message.
pub(super) fn parse(key: &str, value: &str) -> Result<Condition, String> {
    // A comment may follow, because `#` occurs in no condition.
    let value = value.split('#').next().unwrap_or_default();
    let words: Vec<&str> = value.split_whitespace().collect();
    match key {
        "length" => Ok(Condition::Length(size(&words)?)),
        "records" => {
            let (words, from) = match words[..] {
                [ref size @ .., "from", offset] => (size, number(offset)?),
                _ => (&words[..], 0),
            };
            Ok(Condition::Records { from, size: size(words)? })
        }
        "port" if words == ["usual"] => Ok(Condition::UsualPort),
        "port" => Err(format!(
            "unknown condition '{}': write 'port = usual', and list the ports after 'ports ='",
            words.join(" ")
        )),
        _ => checksum(&words),
    }
}

fn size(words: &[&str]) -> Result<Size, String> {
    let form = "write a number and its offset, such as 'u16be@2', optionally followed by '* 4' and '+ \
        4' or '- 4'";
    let [field, rest @ ..] = words else { return Err(format!("the size is missing: {form}")) };
    let (name, at) = field.split_once('@').ok_or_else(|| format!("'{field}' has no offset: {form}"))?;
    let (times, rest) = match rest {
        ["*", times, rest @ ..] => (number(times)?, rest),
        rest => (1, rest),
    };
    let plus = match rest {
        [] => 0,
        ["+", plus] => signed(plus)?,
        ["-", minus] => -signed(minus)?,
        _ => return Err(format!("unexpected '{}': {form}", words.join(" "))),
    };
    if times == 0 {
        return Err(String::from(
            "the factor '* 0' makes every record the same size: write at least '* 1'",
        ));
    }
    Ok(Size { number: form_of(name)?, at: number(at)?, times, plus })
}

fn form_of(name: &str) -> Result<Number, String> {
    Ok(match name {
        "u8" => Number::Big { bytes: 1 },
        "u16be" => Number::Big { bytes: 2 },
        "u24be" => Number::Big { bytes: 3 },
        "u32be" => Number::Big { bytes: 4 },
        "u16le" => Number::Little { bytes: 2 },
        "u24le" => Number::Little { bytes: 3 },
        "u32le" => Number::Little { bytes: 4 },
        "ber" => Number::Ber,
        _ => {
            return Err(format!(
                "'{name}' is not a number format; the formats are u8, u16be, u24be, u32be, u16le, \
                 u24le, u32le and ber"
            ));
        }
    })
}

fn checksum(words: &[&str]) -> Result<Condition, String> {
    let [name, from, bytes] = words else {
        return Err(format!(
            "'{}' is not a checksum: write its name, an offset and a number of bytes, such as 'internet \
             8 20'",
            words.join(" ")
        ));
    };
    let kind = match *name {
        "internet" => Checksum::Internet,
        "dnp" => Checksum::Dnp,
        "sum" => Checksum::Sum,
        _ => return Err(format!("'{name}' is not a checksum; the checksums are internet, dnp and sum")),
    };
    let bytes = number(bytes)?;
    if bytes < 2 {
        return Err(format!("a checksum needs at least 2 bytes, not {bytes}"));
    }
    Ok(Condition::Checksum { kind, from: number(from)?, bytes })
}

fn number(word: &str) -> Result<u16, String> {
    word.parse().map_err(|_| format!("'{word}' is not a number from 0 to 65535"))
}

fn signed(word: &str) -> Result<i16, String> {
    word.parse()
        .ok()
        .filter(|&number| number >= 0)
        .ok_or_else(|| format!("'{word}' is not a number from 0 to 32767"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_times_and_plus() {
        let size = |value| parse("length", value);
        let expected = |number, at, times, plus| Ok(Condition::Length(Size { number, at, times, plus }));
        assert_eq!(size(" u16be@2"), expected(Number::Big { bytes: 2 }, 2, 1, 0));
        assert_eq!(size("u32le@4 * 4 + 12 # comment"), expected(Number::Little { bytes: 4 }, 4, 4, 12));
        assert_eq!(size("ber@0 - 3"), expected(Number::Ber, 0, 1, -3));
        for bad in
            ["", "u16be", "u16be@", "u16be@-1", "u16@2", "u8@1 +", "u8@1 * 0", "u8@1 + 1 * 2", "u8@70000"]
        {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn records_begin_somewhere_and_checksums_have_a_range() {
        let size = Size { number: Number::Big { bytes: 1 }, at: 1, times: 1, plus: 0 };
        assert_eq!(parse("records", "u8@1 from 20"), Ok(Condition::Records { from: 20, size }));
        assert_eq!(parse("records", "u8@1"), Ok(Condition::Records { from: 0, size }));
        assert_eq!(
            parse("checksum", "internet 8 20"),
            Ok(Condition::Checksum { kind: Checksum::Internet, from: 8, bytes: 20 })
        );
        for bad in ["", "internet", "crc 0 4", "sum 0 1", "sum 0 -1", "sum 0 4 4"] {
            assert!(parse("checksum", bad).is_err(), "{bad:?}");
        }
        assert!(parse("records", "u8@1 from").is_err());
    }
}
