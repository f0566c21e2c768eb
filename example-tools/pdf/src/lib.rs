//! Reads the text and the metadata of PDF files.

mod document;
mod encoding;
mod font;
mod geometry;
mod info;
mod interpreter;
mod layout;
mod standard_widths;
mod text;
mod widths;

#[cfg(test)]
mod tests;

use toolcell_guest::toolkit;

toolkit! { namespace: "pdf", tools: [text::text, info::info] }
