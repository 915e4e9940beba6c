//! Text that is safe to show on a terminal.

/// Returns text without characters that control a terminal. File names can contain any character.
/// The replacement is the character that also stands for invalid UTF-8. Tabs stay. Line feeds stay
/// only before indented lines, so that no file name can imitate a line of this program.
pub fn harmless(text: &str) -> String {
    let mut rest = text.chars();
    let mut harmless = String::with_capacity(text.len());
    while let Some(c) = rest.next() {
        let stays = match c {
            '\n' => rest.as_str().starts_with("  "),
            '\t' => true,
            _ => !c.is_control(),
        };
        harmless.push(if stays { c } else { char::REPLACEMENT_CHARACTER });
    }
    harmless
}
