//! Widths and outlines of texts in DejaVu Sans, which is part of the tool: a sandbox has no fonts.

use toolcell_guest::ToolError;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// Characters of a text that are looked at: no chart has room for more.
const CHARS_MAX: usize = 300;

pub(crate) struct Font(Face<'static>);

impl Font {
    pub(crate) fn new() -> Result<Self, ToolError> {
        Face::parse(dejavu::sans::regular(), 0)
            .map(Self)
            .map_err(|error| ToolError::execution_failed("font_invalid", error.to_string()))
    }

    fn unit(&self, size: f64) -> f64 {
        size / f64::from(self.0.units_per_em().max(1))
    }

    fn advance(&self, letter: char) -> f64 {
        let glyph = self.0.glyph_index(letter).unwrap_or(GlyphId(0));
        f64::from(self.0.glyph_hor_advance(glyph).unwrap_or(0))
    }

    pub(crate) fn width(&self, text: &str, size: f64) -> f64 {
        let units: f64 = text.chars().map(|letter| self.advance(letter)).sum();
        units * self.unit(size)
    }

    /// The text, or its beginning if it is wider than `max`.
    pub(crate) fn fit(&self, text: &str, size: f64, max: f64) -> String {
        let text = clean(text);
        let cut = text.chars().nth(CHARS_MAX).is_some();
        if !cut && self.width(&text, size) <= max {
            return text;
        }
        let room = max - self.width("…", size);
        let mut width = 0.0;
        let mut fitting = String::new();
        for letter in text.chars().take(CHARS_MAX) {
            width += self.advance(letter) * self.unit(size);
            if width > room {
                break;
            }
            fitting.push(letter);
        }
        format!("{}…", fitting.trim_end())
    }

    /// Breaks a text between words into at most two lines.
    pub(crate) fn wrap(&self, text: &str, size: f64, max: f64) -> Vec<String> {
        let text = clean(text);
        let mut first = String::new();
        for word in text.split(' ') {
            let longer = if first.is_empty() {
                word.to_owned()
            } else {
                format!("{first} {word}")
            };
            if self.width(&longer, size) > max || longer.chars().count() > CHARS_MAX {
                break;
            }
            first = longer;
        }
        let rest = text.get(first.len()..).unwrap_or_default().trim();
        match (first.is_empty(), rest.is_empty()) {
            (_, true) => vec![first],
            (true, false) => vec![self.fit(rest, size, max)],
            (false, false) => vec![first, self.fit(rest, size, max)],
        }
    }

    /// The characters that the font has no glyph for; at most ten.
    pub(crate) fn missing(&self, text: &str) -> Vec<char> {
        let mut missing = Vec::new();
        for letter in text.chars() {
            let known = letter.is_whitespace() || self.0.glyph_index(letter).is_some();
            if !known && !missing.contains(&letter) && missing.len() < 10 {
                missing.push(letter);
            }
        }
        missing
    }

    /// Draws the glyphs of a text. `pen` gets each point in pixels from the beginning of the baseline, y upwards.
    pub(crate) fn outline(&self, text: &str, size: f64, pen: &mut dyn OutlinePen) {
        let unit = self.unit(size);
        let mut x = 0.0;
        for letter in text.chars() {
            let glyph = self.0.glyph_index(letter).unwrap_or(GlyphId(0));
            let mut shifted = Shifted { pen, x, unit };
            // `None`: a glyph without an outline, such as a space.
            let _ = self.0.outline_glyph(glyph, &mut shifted);
            x += self.advance(letter) * unit;
        }
    }
}

/// Characters that XML forbids, and line breaks, become spaces.
fn clean(text: &str) -> String {
    let is_odd = |letter: char| letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}');
    text.chars()
        .take(CHARS_MAX + 1)
        .map(|letter| if is_odd(letter) { ' ' } else { letter })
        .collect()
}

/// Draws an outline.
pub(crate) trait OutlinePen {
    fn move_to(&mut self, to: (f64, f64));
    fn line_to(&mut self, to: (f64, f64));
    fn quad_to(&mut self, by: (f64, f64), to: (f64, f64));
    fn curve_to(&mut self, first: (f64, f64), second: (f64, f64), to: (f64, f64));
    fn close(&mut self);
}

/// One glyph at its place in the text.
struct Shifted<'p> {
    pen: &'p mut dyn OutlinePen,
    x: f64,
    unit: f64,
}

impl Shifted<'_> {
    fn at(&self, x: f32, y: f32) -> (f64, f64) {
        (self.x + f64::from(x) * self.unit, f64::from(y) * self.unit)
    }
}

impl OutlineBuilder for Shifted<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        self.pen.move_to(self.at(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.pen.line_to(self.at(x, y));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.pen.quad_to(self.at(x1, y1), self.at(x, y));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.pen
            .curve_to(self.at(x1, y1), self.at(x2, y2), self.at(x, y));
    }

    fn close(&mut self) {
        self.pen.close();
    }
}
