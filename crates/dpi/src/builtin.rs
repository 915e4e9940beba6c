//! The builtin patterns, written from the protocols' specifications.

use crate::load::parse_own;
use crate::pattern::Pattern;

/// The files, in order of priority.
const FILES: [&str; 9] = [
    include_str!("../patterns/web.patterns"),
    include_str!("../patterns/secure.patterns"),
    include_str!("../patterns/mail.patterns"),
    include_str!("../patterns/names.patterns"),
    include_str!("../patterns/data.patterns"),
    include_str!("../patterns/networks.patterns"),
    include_str!("../patterns/plants.patterns"),
    include_str!("../patterns/services.patterns"),
    include_str!("../patterns/people.patterns"),
];

/// The image of their scanner. After a change of the patterns, or of what makes tables of them,
/// `cargo run -p flowloom-dpi --example builtin_image` writes it again; until then, a scanner is
/// compiled from the patterns.
pub(crate) const IMAGE: &[u8] = include_bytes!("../patterns/builtin.image");

/// Returns the builtin patterns, in order of priority.
///
/// The patterns prefer few false alarms to few misses. Each names the specification that it was
/// written from. Ports decide only between protocols of the same format, and how certain a label
/// is.
///
/// # Panics
///
/// Does not panic: a test parses all builtin patterns.
///
/// # Examples
///
/// To give other patterns a higher priority, put them before the builtin ones:
///
/// ```
/// use flowloom_dpi::{Pattern, Scanner, Transport, Transports, builtin};
///
/// let mut patterns = vec![Pattern::new("acme", r"^ACME/[0-9]").on(Transports::TCP)];
/// patterns.extend(builtin());
/// let scanner = Scanner::new(&patterns)?;
/// let found = scanner.scan_whole(Transport::Tcp, b"ACME/7 hello").unwrap();
/// assert_eq!(scanner.name(found.pattern), "acme");
/// # Ok::<(), flowloom_dpi::BuildError>(())
/// ```
///
/// ```
/// let names: Vec<String> =
///     flowloom_dpi::builtin().into_iter().map(|pattern| pattern.name).collect();
/// assert!(names.len() >= 200 && names.iter().any(|name| name == "tls"));
/// ```
#[must_use]
pub fn builtin() -> Vec<Pattern> {
    FILES.iter().flat_map(|text| parse_own(text).expect("a test reads the builtin patterns")).collect()
}
