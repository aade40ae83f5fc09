//! `pgseal bench`: what encryption costs, measured on the user's own machine, stock beside sealed.
//!
//! `model` is what a recipe measured and what its JSON file holds; everything that computes figures
//! or draws them takes it and is pure.

#![forbid(unsafe_code)]

pub mod model;
