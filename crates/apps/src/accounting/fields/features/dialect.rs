//! The columns of other meters, in their order.

use flowloom_record::{Column, Kind, Schema, SchemaColumn};

use super::values::COLUMNS;

/// The names that `--columns` takes for the columns of another meter.
pub const DIALECTS: [&str; 2] = ["cicflowmeter", "nfstream"];

/// Columns of `cicflowmeter` before its features, and ours.
const CICFLOWMETER: [(&str, &str); 5] = [
    ("src_ip", "source"),
    ("dst_ip", "destination"),
    ("src_port", "source_port"),
    ("dst_port", "destination_port"),
    ("protocol", "protocol"),
];

/// Columns of `NFStream` around its features, and ours. Those with none are empty.
const NFSTREAM: [(&str, &str); 14] = [
    ("id", ""),
    ("expiration_id", ""),
    ("src_ip", "source"),
    ("src_mac", ""),
    ("src_oui", ""),
    ("src_port", "source_port"),
    ("dst_ip", "destination"),
    ("dst_mac", ""),
    ("dst_oui", ""),
    ("dst_port", "destination_port"),
    ("protocol", "protocol"),
    ("ip_version", "ip_version"),
    ("vlan_id", "vlan_id"),
    ("tunnel_id", ""),
];
const NFSTREAM_APPLICATION: [(&str, &str); 9] = [
    ("application_name", ""),
    ("application_category_name", ""),
    ("application_is_guessed", ""),
    ("application_confidence", ""),
    ("requested_server_name", "tls_sni"),
    ("client_fingerprint", ""),
    ("server_fingerprint", ""),
    ("user_agent", "http_user_agent"),
    ("content_type", ""),
];
/// The first feature of `NFStream`; those of `cicflowmeter` come before it.
const FIRST_OF_NFSTREAM: &str = "ip_version";

/// Returns the columns of another meter with its names, in its order. Those that are not computed
/// are empty. Returns `None` if the name is none of [`DIALECTS`], or the records have no features.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::AccountingRecord;
/// use flowloom_apps::accounting::fields::{all_columns, dialect};
/// use flowloom_record::Schema;
///
/// let schema = Schema::new([AccountingRecord::COLUMNS, &all_columns()].concat());
/// let columns = dialect("cicflowmeter", &schema).unwrap();
/// assert_eq!((columns.len(), columns[0].column.name), (83, "src_ip"));
/// ```
#[must_use]
pub fn dialect(name: &str, schema: &Schema) -> Option<Vec<SchemaColumn>> {
    let at = COLUMNS.iter().position(|column| column.name == FIRST_OF_NFSTREAM)?;
    let (of_cicflowmeter, of_nfstream) = COLUMNS.split_at(at);
    // The two before its counts stand in the list.
    let names =
        |columns: &[Column]| columns.iter().map(|column| (column.name, column.name)).collect::<Vec<_>>();
    let names = match name {
        "cicflowmeter" => [&CICFLOWMETER[..], &names(of_cicflowmeter)].concat(),
        "nfstream" => [&NFSTREAM[..], &names(&of_nfstream[2..]), &NFSTREAM_APPLICATION].concat(),
        _ => return None,
    };
    let column = |(theirs, ours): (&'static str, &str)| {
        let mut found = schema.named(if ours.is_empty() { FIRST_OF_NFSTREAM } else { ours })?;
        found.column = found.column.renamed(theirs);
        if ours.is_empty() {
            // No row has a value there.
            found.index = usize::MAX;
            found.column.kind = Kind::Text;
        }
        Some(found)
    };
    names.into_iter().map(column).collect()
}
