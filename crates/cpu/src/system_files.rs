//! A simulated machine for tests: a directory with its system files.

use std::fs;
use std::path::Path;

/// Returns the result of `read` for a directory with these files and their contents. `name` must be
/// unique among tests.
pub(crate) fn with_files<R>(name: &str, files: &[(&str, &str)], read: impl FnOnce(&Path) -> R) -> R {
    let root = std::env::temp_dir().join(format!("flowloom-cpu-{}-{name}", std::process::id()));
    for (file, text) in files {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("the path lies below the root")).expect(
            "the directory can be \
            created",
        );
        fs::write(file, text).expect("there is space for the file");
    }
    let found = read(&root);
    fs::remove_dir_all(&root).expect("the directory belongs to this test");
    found
}
