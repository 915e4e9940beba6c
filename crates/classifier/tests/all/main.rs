//! One program: search structures against linear search and the papers.

mod bombs;
mod equal;
mod figures;
mod papers;
mod quality;
