//! The names of IP protocols.

use flowloom_flow_key::protocol::IANA_NAMES;

use crate::Word;

/// IANA's names of IP protocols, in lower case. The code of a word is the protocol.
pub const PROTOCOL_NAMES: &[Word] = &{
    let mut words = [Word::new("", 0); IANA_NAMES.len()];
    let mut index = 0;
    while index < words.len() {
        let (name, number) = IANA_NAMES[index];
        words[index] = Word::new(name, number);
        index += 1;
    }
    words
};
