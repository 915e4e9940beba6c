//! For tests: a machine that is a folder.

use std::fs;
use std::path::Path;

/// Returns the result of `read` for a folder with these files, each with its text. `name` must be
/// unique among tests.
pub(crate) fn with_files<R>(name: &str, files: &[(&str, &str)], read: impl FnOnce(&Path) -> R) -> R {
    let root = std::env::temp_dir().join(format!("flowloom-cpu-{}-{name}", std::process::id()));
    for (file, text) in files {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("it lies below the root")).expect("a folder can be made");
        fs::write(file, text).expect("there is space for a line");
    }
    let found = read(&root);
    fs::remove_dir_all(&root).expect("it is ours");
    found
}
