//! Where packets come from: captures and generators.
