//! Joins pieces of text to lines and words by where they stand on the page.

use crate::geometry::Point;

/// A gap between two pieces that is as wide as a space, in heights of the font.
const SPACE: f32 = 0.17;
/// A step back that begins another column or line.
const STEP_BACK: f32 = 0.7;
/// A distance between baselines that is another line, and one that is another paragraph.
const LINE: f32 = 0.55;
const PARAGRAPH: f32 = 1.8;

/// A piece of text on the page.
pub(crate) struct Piece<'t> {
    pub(crate) text: &'t str,
    pub(crate) start: Point,
    pub(crate) end: Point,
    /// Where the line goes to; of length 1.
    pub(crate) direction: Point,
    pub(crate) height: f32,
}

/// Where the piece before ended.
#[derive(Clone, Copy)]
struct Last {
    end: Point,
    direction: Point,
    height: f32,
}

/// The text of a page so far.
pub(crate) struct Layout {
    text: String,
    chars: usize,
    chars_max: usize,
    is_full: bool,
    last: Option<Last>,
}

impl Layout {
    pub(crate) fn new(chars_max: usize) -> Self {
        Self {
            text: String::new(),
            chars: 0,
            chars_max,
            is_full: false,
            last: None,
        }
    }

    /// `true` if more text would be cut off.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn add(&mut self, piece: &Piece<'_>) {
        if piece.text.is_empty() {
            return;
        }
        if let Some(last) = self.last {
            self.separate(last, piece);
        }
        for c in piece.text.chars() {
            self.push(c);
        }
        self.last = Some(Last {
            end: piece.end,
            direction: piece.direction,
            height: piece.height,
        });
    }

    fn separate(&mut self, last: Last, piece: &Piece<'_>) {
        let dx = piece.start.x - last.end.x;
        let dy = piece.start.y - last.end.y;
        // Superscripts are smaller than the text that they are raised from.
        let height = piece.height.max(last.height);
        let along = (dx * piece.direction.x + dy * piece.direction.y) / height;
        let down = (dx * piece.direction.y - dy * piece.direction.x) / height;
        let turn = last.direction.x * piece.direction.x + last.direction.y * piece.direction.y;
        if down > PARAGRAPH || turn < 0.9 {
            self.end_line();
            self.end_line();
        } else if down.abs() > LINE || along < -STEP_BACK {
            self.end_line();
        } else if along > SPACE
            && !self.text.ends_with(char::is_whitespace)
            && !piece.text.starts_with(char::is_whitespace)
        {
            self.push(' ');
        }
    }

    /// Ends the line; a second time, leaves one line empty.
    fn end_line(&mut self) {
        while self.text.ends_with(' ') {
            self.text.pop();
            self.chars -= 1;
        }
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.push('\n');
        }
    }

    fn push(&mut self, c: char) {
        if self.chars >= self.chars_max {
            self.is_full = true;
            return;
        }
        self.chars += 1;
        self.text.push(c);
    }

    /// The text, and whether it was cut off.
    pub(crate) fn finish(self) -> (String, bool) {
        (self.text.trim_end().to_owned(), self.is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, x: f32, y: f32, width: f32) -> Piece<'_> {
        Piece {
            text,
            start: Point { x, y },
            end: Point { x: x + width, y },
            direction: Point { x: 1.0, y: 0.0 },
            height: 10.0,
        }
    }

    #[test]
    fn gaps_become_spaces_lines_and_paragraphs() {
        let mut layout = Layout::new(1_000);
        for (text, x, y) in [
            ("Wo", 0.0, 100.0),
            ("rd", 20.5, 100.0),
            ("next", 43.0, 100.0),
            ("line", 0.0, 88.0),
            ("paragraph", 0.0, 60.0),
            ("column", -50.0, 60.0),
        ] {
            layout.add(&piece(text, x, y, text.len() as f32 * 10.0));
        }
        assert_eq!(layout.finish().0, "Word next\nline\n\nparagraph\ncolumn");
    }

    #[test]
    fn a_superscript_stays_on_its_line() {
        let mut layout = Layout::new(1_000);
        layout.add(&piece("x", 0.0, 100.0, 5.0));
        let raised = Piece {
            height: 7.0,
            ..piece("2", 5.0, 104.5, 4.0)
        };
        layout.add(&raised);
        layout.add(&piece("+", 9.0, 100.0, 5.0));
        assert_eq!(layout.finish().0, "x2+");
    }

    #[test]
    fn positions_that_are_no_numbers_do_no_harm() {
        let mut layout = Layout::new(5);
        layout.add(&piece("abc", f32::NAN, f32::INFINITY, f32::NAN));
        layout.add(&piece("def", 0.0, 0.0, f32::INFINITY));
        assert!(layout.is_full());
        assert_eq!(layout.finish(), ("abcde".to_owned(), true));
    }
}
