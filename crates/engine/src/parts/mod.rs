//! Parts of a larger input that separate runs process: the records with which a run describes its
//! part, and the merge of parts into the result of one run over all of them.

pub(crate) mod compose;
pub(crate) mod saved;
