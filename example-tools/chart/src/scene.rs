//! A drawing, in pixels from the upper left corner: SVG and PNG are made of the same scene.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Color(pub(crate) u8, pub(crate) u8, pub(crate) u8);

pub(crate) const WHITE: Color = Color(255, 255, 255);
pub(crate) const TEXT: Color = Color(0x22, 0x22, 0x22);
pub(crate) const FAINT_TEXT: Color = Color(0x55, 0x55, 0x55);
pub(crate) const AXIS: Color = Color(0x77, 0x77, 0x77);
pub(crate) const GRID: Color = Color(0xe3, 0xe3, 0xe3);

/// Colors of series, which people with the common color deficiencies can tell apart.
const SERIES: [Color; 10] = [
    Color(0x00, 0x72, 0xb2),
    Color(0xe6, 0x9f, 0x00),
    Color(0x00, 0x9e, 0x73),
    Color(0xcc, 0x79, 0xa7),
    Color(0x56, 0xb4, 0xe9),
    Color(0xd5, 0x5e, 0x00),
    Color(0x6f, 0x6f, 0x6f),
    Color(0x5b, 0x4e, 0xa1),
    Color(0xa3, 0xb8, 0x2f),
    Color(0x8c, 0x51, 0x0a),
];

/// The color of a series: after ten a lighter one, then a darker one.
pub(crate) fn series_color(at: usize) -> Color {
    let color = SERIES.get(at % SERIES.len()).copied().unwrap_or(TEXT);
    match at / SERIES.len() % 3 {
        0 => color,
        1 => color.mixed(WHITE, 0.45),
        _ => color.mixed(TEXT, 0.45),
    }
}

/// Lengths of dashes and of gaps. Lines with similar colors differ in them.
pub(crate) fn series_dash(at: usize) -> Option<[f64; 2]> {
    match at / SERIES.len() % 3 {
        0 => None,
        1 => Some([7.0, 4.0]),
        _ => Some([2.0, 3.0]),
    }
}

impl Color {
    pub(crate) fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    fn mixed(self, other: Self, part: f64) -> Self {
        let mix = |one: u8, two: u8| {
            (f64::from(one) * (1.0 - part) + f64::from(two) * part).round() as u8
        };
        Self(
            mix(self.0, other.0),
            mix(self.1, other.1),
            mix(self.2, other.2),
        )
    }

    pub(crate) fn is_dark(self) -> bool {
        let weighted = 299 * u32::from(self.0) + 587 * u32::from(self.1) + 114 * u32::from(self.2);
        weighted < 140_000
    }
}

pub(crate) type Spot = (f64, f64);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Line {
        spots: Vec<Spot>,
        color: Color,
        width: f64,
        dash: Option<[f64; 2]>,
    },
    Area {
        spots: Vec<Spot>,
        color: Color,
        opacity: f64,
    },
    Rect {
        at: Spot,
        width: f64,
        height: f64,
        color: Color,
    },
    Dots {
        spots: Vec<Spot>,
        radius: f64,
        color: Color,
        opacity: f64,
    },
    Text {
        /// The place of the baseline.
        at: Spot,
        text: String,
        size: f64,
        color: Color,
        anchor: Anchor,
        /// Degrees clockwise around `at`.
        turn: f64,
    },
}

#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// For those who cannot see it.
    pub(crate) title: String,
    pub(crate) shapes: Vec<Shape>,
}

impl Scene {
    pub(crate) fn line(&mut self, from: Spot, to: Spot, color: Color) {
        self.shapes.push(Shape::Line {
            spots: vec![from, to],
            color,
            width: 1.0,
            dash: None,
        });
    }

    pub(crate) fn rect(&mut self, at: Spot, width: f64, height: f64, color: Color) {
        self.shapes.push(Shape::Rect {
            at,
            width,
            height,
            color,
        });
    }

    pub(crate) fn text(&mut self, at: Spot, text: String, size: f64, color: Color, anchor: Anchor) {
        self.turned(at, text, size, color, anchor, 0.0);
    }

    pub(crate) fn turned(
        &mut self,
        at: Spot,
        text: String,
        size: f64,
        color: Color,
        anchor: Anchor,
        turn: f64,
    ) {
        if !text.is_empty() {
            self.shapes.push(Shape::Text {
                at,
                text,
                size,
                color,
                anchor,
                turn,
            });
        }
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }
}
