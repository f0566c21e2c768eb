//! How far a character moves the next one.

use std::collections::BTreeMap;

use lopdf::{Dictionary, Object};

use crate::{document::Pdf, standard_widths};

/// The width of a character in a font without widths, in thousandths of its size; that of most letters in Helvetica.
const USUAL_WIDTH: f32 = 556.0;
/// The default of `DW`.
const COMPOSITE_WIDTH: f32 = 1_000.0;
/// Maximum number of widths and ranges that are read of a font.
const WIDTHS_MAX: usize = 65_536;

/// Widths by character code, in thousandths of the font's size.
pub(crate) struct Widths {
    single: BTreeMap<u32, f32>,
    /// First code, last code, width.
    ranges: Vec<(u32, u32, f32)>,
    default: f32,
}

impl Widths {
    pub(crate) fn of(&self, code: u32) -> f32 {
        let range = || {
            self.ranges
                .iter()
                .find(|(first, last, _)| (*first..=*last).contains(&code))
        };
        let width = self.single.get(&code).copied();
        width
            .or_else(|| range().map(|(_, _, width)| *width))
            .unwrap_or(self.default)
    }

    /// `Widths` of a font with one byte for each character.
    pub(crate) fn simple(pdf: &Pdf, font: &Dictionary) -> Self {
        // Glyphs of a Type 3 font have a unit of their own.
        let unit = array(pdf, font, b"FontMatrix")
            .and_then(|matrix| number(pdf, matrix.first()?))
            .map_or(1.0, |unit| unit * 1_000.0);
        let first = pdf
            .get(font, b"FirstChar")
            .and_then(|code| code.as_i64().ok());
        let first = first.and_then(|code| u32::try_from(code).ok()).unwrap_or(0);
        let Some(widths) = array(pdf, font, b"Widths") else {
            return Self::standard(pdf, font);
        };
        let single = (first..)
            .zip(widths.iter().take(256))
            .filter_map(|(code, width)| Some((code, number(pdf, width)? * unit)));
        let missing = pdf
            .get(font, b"FontDescriptor")
            .and_then(|descriptor| pdf.get(descriptor.as_dict().ok()?, b"MissingWidth"))
            .and_then(|width| width.as_float().ok());
        Self {
            single: single.collect(),
            ranges: Vec::new(),
            default: missing.unwrap_or(USUAL_WIDTH * unit),
        }
    }

    /// A font without widths is one that every reader has.
    fn standard(pdf: &Pdf, font: &Dictionary) -> Self {
        let name = pdf
            .get(font, b"BaseFont")
            .and_then(|name| name.as_name().ok());
        let widths = name.and_then(standard_widths::widths);
        let single = (u32::from(b' ')..).zip(widths.into_iter().flatten().map(f32::from));
        Self {
            single: single.collect(),
            ranges: Vec::new(),
            default: USUAL_WIDTH,
        }
    }

    /// `W` and `DW` of the font in a composite one. Codes are taken as numbers of glyphs.
    pub(crate) fn composite(pdf: &Pdf, font: &Dictionary) -> Self {
        let default = pdf.get(font, b"DW").and_then(|width| width.as_float().ok());
        let mut widths = Self {
            single: BTreeMap::new(),
            ranges: Vec::new(),
            default: default.unwrap_or(COMPOSITE_WIDTH),
        };
        let mut items = array(pdf, font, b"W").unwrap_or_default().iter();
        while let Some(first) = items.next().and_then(|item| code(pdf, item)) {
            if widths.single.len() + widths.ranges.len() >= WIDTHS_MAX {
                break;
            }
            match items.next().and_then(|item| pdf.resolve(item)) {
                Some(Object::Array(list)) => {
                    let list = list.iter().take(WIDTHS_MAX);
                    let list = list.filter_map(|width| number(pdf, width));
                    widths.single.extend((first..).zip(list));
                }
                Some(last) => {
                    let Some(last) = code(pdf, last) else { break };
                    let Some(width) = items.next().and_then(|item| number(pdf, item)) else {
                        break;
                    };
                    widths.ranges.push((first, last, width));
                }
                None => break,
            }
        }
        widths
    }
}

fn array<'d>(pdf: &'d Pdf, dictionary: &'d Dictionary, key: &[u8]) -> Option<&'d [Object]> {
    Some(pdf.get(dictionary, key)?.as_array().ok()?.as_slice())
}

fn number(pdf: &Pdf, object: &Object) -> Option<f32> {
    pdf.resolve(object)?.as_float().ok()
}

fn code(pdf: &Pdf, object: &Object) -> Option<u32> {
    u32::try_from(pdf.resolve(object)?.as_i64().ok()?).ok()
}
