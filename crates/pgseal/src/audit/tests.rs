//! Audit of single files.
