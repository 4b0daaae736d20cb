//! The admission cursor of DAGOR (`WeChat`, `SoCC` 2018) with its fixed steps.

use tidegate_sim::kit::{MS, SECOND};

/// Four classes of 128 cohorts.
const LEVELS: usize = 512;
/// A window ends after so long or so many requests.
const WINDOW: u64 = SECOND;
const WINDOW_REQUESTS: u64 = 2000;
/// The average wait above which the window was an overloaded one.
const WAIT_TARGET: u64 = 20 * MS;

#[derive(Debug)]
pub(super) struct DagorCursor {
    /// Requests of the window, by level.
    offered: Box<[u64; LEVELS]>,
    offered_total: u64,
    admitted: u64,
    waits: u64,
    waited: u64,
    window_began: u64,
    /// Levels below it are refused.
    cursor: usize,
}

impl DagorCursor {
    pub(super) fn new() -> Self {
        let offered = Box::new([0; LEVELS]);
        Self { offered, offered_total: 0, admitted: 0, waits: 0, waited: 0, window_began: 0, cursor: 0 }
    }

    pub(super) fn position(&self) -> f64 {
        self.cursor as f64 / LEVELS as f64
    }

    /// Counts a request, and whether it is at the cursor or above.
    pub(super) fn admits(&mut self, level: usize, now: u64) -> bool {
        self.offered[level] += 1;
        self.offered_total += 1;
        let is_admitted = level >= self.cursor;
        self.admitted += u64::from(is_admitted);
        if now - self.window_began >= WINDOW || self.offered_total >= WINDOW_REQUESTS {
            self.end_window(now);
        }
        is_admitted
    }

    /// The turn of a request has come after this wait.
    pub(super) fn waited(&mut self, wait: u64, now: u64) {
        self.waits += 1;
        self.waited += wait;
        if now - self.window_began >= WINDOW {
            self.end_window(now);
        }
    }

    fn end_window(&mut self, now: u64) {
        let is_overloaded = self.waits > 0 && self.waited / self.waits > WAIT_TARGET;
        let allowed = if is_overloaded {
            self.admitted * 95 / 100
        } else {
            self.admitted + self.offered_total.div_ceil(100)
        };
        let mut sum = 0;
        self.cursor = 0;
        for level in (0..LEVELS).rev() {
            sum += self.offered[level];
            if sum > allowed {
                self.cursor = level + 1;
                break;
            }
        }
        self.cursor = self.cursor.min(LEVELS - 1);
        self.offered.fill(0);
        (self.offered_total, self.admitted, self.waits, self.waited) = (0, 0, 0, 0);
        self.window_began = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_admits_a_twentieth_less_after_each_overloaded_window_and_opens_by_hundredths() {
        let mut cursor = DagorCursor::new();
        let window = |cursor: &mut DagorCursor, wait: u64, at: u64| {
            cursor.waited(wait, at);
            (0..2000).filter(|request| cursor.admits(request % LEVELS, at)).count()
        };
        let admitted: Vec<usize> = (0..4).map(|_| window(&mut cursor, 30 * MS, 1)).collect();
        assert_eq!(admitted[0], 2000);
        assert!((1880..=1900).contains(&admitted[1]) && (1770..=1805).contains(&admitted[2]), "{admitted:?}");
        let opened: Vec<usize> = (0..3).map(|_| window(&mut cursor, 0, 1)).collect();
        assert!(opened[1] > opened[0] && opened[1] - opened[0] <= 24, "{opened:?}");
    }
}
