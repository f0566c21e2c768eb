//! Points and transformations of a page.

/// A transformation as PDF writes it: `a b c d e f`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Matrix(pub(crate) [f32; 6]);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f32,
    pub(crate) y: f32,
}

impl Matrix {
    pub(crate) const IDENTITY: Self = Self([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);

    pub(crate) fn translation(x: f32, y: f32) -> Self {
        Self([1.0, 0.0, 0.0, 1.0, x, y])
    }

    /// First `self`, then `next`.
    pub(crate) fn then(self, next: Self) -> Self {
        let [a, b, c, d, e, f] = self.0;
        let [na, nb, nc, nd, ne, nf] = next.0;
        Self([
            a * na + b * nc,
            a * nb + b * nd,
            c * na + d * nc,
            c * nb + d * nd,
            e * na + f * nc + ne,
            e * nb + f * nd + nf,
        ])
    }

    pub(crate) fn origin(self) -> Point {
        Point {
            x: self.0[4],
            y: self.0[5],
        }
    }

    /// Where the x axis points to, and how long its unit is.
    pub(crate) fn direction(self) -> (Point, f32) {
        let [a, b, ..] = self.0;
        let length = a.hypot(b);
        let direction = Point {
            x: a / length,
            y: b / length,
        };
        (direction, length)
    }

    /// The length of a unit of the y axis.
    pub(crate) fn height(self) -> f32 {
        self.0[2].hypot(self.0[3])
    }
}
