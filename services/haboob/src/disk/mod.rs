//! Folders and files on the disk: which file a path means, and the stages that read it.

mod compression;
pub(crate) mod files;
pub(crate) mod folder;
mod listing;
pub(crate) mod path;
pub(crate) mod root;
