//! The area of a picture, with its axes.

use core::fmt::Write as _;

/// An area over time, in pixels of the picture.
#[derive(Clone, Copy, Debug)]
pub struct PlotArea {
    /// The width of the picture.
    pub width: f64,
    /// The height of the picture.
    pub height: f64,
    /// The width left of the area.
    pub left: f64,
    /// The width right of the area.
    pub right: f64,
    /// The height above the area.
    pub top: f64,
    /// The height below the area.
    pub bottom: f64,
    /// The end of the time, in seconds; of names, the place of the last one.
    pub seconds: f64,
}

impl PlotArea {
    /// A picture as wide as the page, with names at its right.
    pub const WIDE: Self =
        Self { width: 900.0, height: 300.0, left: 56.0, right: 84.0, top: 12.0, bottom: 26.0, seconds: 1.0 };

    /// The pixel of an instant.
    pub(crate) fn x(&self, seconds: f64) -> f64 {
        self.left + (self.width - self.left - self.right) * seconds / self.seconds
    }

    /// The pixel of a part of the height, 0 at the bottom.
    pub(crate) fn y(&self, part: f64) -> f64 {
        self.height - self.bottom - (self.height - self.top - self.bottom) * part
    }

    /// The beginning of the picture; `label` is read aloud in its place.
    pub(crate) fn open(&self, svg: &mut String, label: &str) {
        let _ = write!(
            svg,
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{label}\">",
            self.width, self.height
        );
    }

    /// The axis of time, with a mark at round numbers of seconds.
    pub(crate) fn time_axis(&self, svg: &mut String) {
        let (bottom, base) = (self.y(0.0), self.height - self.bottom + 14.0);
        let step = round_step(self.seconds, 8.0);
        let mut at = 0.0;
        while at <= self.seconds + 1e-9 {
            let x = self.x(at);
            let _ = write!(
                svg,
                "<path class=\"tick\" d=\"M{x:.1} {bottom:.1}v4\"/><text class=\"mid\" x=\"{x:.1}\" y=\"{base:.1}\">{at:.0} \
                 s</text>"
            );
            at += step;
        }
        let (from, until) = (self.left, self.width - self.right);
        let _ = write!(svg, "<path class=\"axis\" d=\"M{from:.1} {bottom:.1}H{until:.1}\"/>");
    }

    /// The names at equal distances, below the axis.
    pub(crate) fn name_axis(&self, svg: &mut String, names: &[&str]) {
        let y = self.height - self.bottom + 16.0;
        for (place, name) in (0_u32..).zip(names) {
            let x = self.x(f64::from(place));
            let _ = write!(svg, "<text class=\"mid\" x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>");
        }
    }
}

/// The round step that cuts `length` into at most `parts` parts.
pub(crate) fn round_step(length: f64, parts: f64) -> f64 {
    let least = length / parts;
    let mut decade = 0.001;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if decade * factor >= least {
                return decade * factor;
            }
        }
        decade *= 10.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_cut_into_no_more_parts_than_asked_for() {
        assert!((round_step(300.0, 8.0) - 50.0).abs() < 1e-9);
        assert!((round_step(900.0, 8.0) - 200.0).abs() < 1e-6);
        assert!((round_step(0.7, 5.0) - 0.2).abs() < 1e-9);
    }
}
