//! The exporter of the examples, whose collector checks what it receives.

#[path = "../../examples/exporter.rs"]
mod exporter;

#[test]
fn an_exporter_sends_all_records_to_its_collector() -> Result<(), Box<dyn std::error::Error>> {
    exporter::main()
}
