//! Writes the image of the builtin patterns' scanner, which the library contains.

use std::error::Error;
use std::path::Path;

use flowloom_dpi::{Scanner, builtin};

fn main() -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("patterns/builtin.image");
    std::fs::write(path, Scanner::to_image(&builtin())?)?;
    Ok(())
}
