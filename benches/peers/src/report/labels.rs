//! Where labels go, so that none covers another.

/// Pixels.
#[derive(Debug, Clone, Copy)]
pub struct Box2 {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Box2 {
    fn overlap(&self, other: &Self) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        if width > 0.0 && height > 0.0 { width * height } else { 0.0 }
    }

    /// Where a line from a point to this label ends: at the nearest place of its edge.
    pub fn leader_to(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (x.clamp(self.left, self.right), y.clamp(self.top + 2.0, self.bottom - 2.0))
    }

    /// How far a point is from the label's edge.
    fn distance(&self, (x, y): (f64, f64)) -> f64 {
        (x.clamp(self.left, self.right) - x).hypot(y.clamp(self.top, self.bottom) - y)
    }

    /// Whether a line passes through, looked at in steps.
    fn crossed_by(&self, from: (f64, f64), to: (f64, f64)) -> bool {
        (1..20).map(|step| f64::from(step) / 20.0).any(|share| {
            let (x, y) = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
            x > self.left && x < self.right && y > self.top && y < self.bottom
        })
    }

    fn within(&self, frame: &Self) -> bool {
        self.left >= frame.left && self.right <= frame.right && self.top >= frame.top && self.bottom <= frame.bottom
    }
}

/// Width of a text in the font that the plots use, about.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.47
}

/// Rounds in which every label may move once more, knowing where the others are.
const ROUNDS: usize = 12;

/// Places for labels of points: as near to its point as each can be without covering anything, in `frame`.
pub fn place(points: &[(f64, f64)], texts: &[String], size: f64, frame: Box2) -> Vec<Box2> {
    let marks: Vec<Box2> = points.iter().map(|&(x, y)| around(x, y, 6.0)).collect();
    let nowhere = Box2 { left: 0.0, top: 0.0, right: 0.0, bottom: 0.0 };
    let mut placed = vec![nowhere; points.len()];
    for _ in 0..ROUNDS {
        for (i, &(x, y)) in points.iter().enumerate() {
            let (width, height) = (width(&texts[i], size), size * 1.2);
            let boxed = |(dx, dy): (f64, f64)| {
                let left = x + dx - if dx < 0.0 { width } else { 0.0 };
                let top = y + dy - height / 2.0;
                Box2 { left, top, right: left + width, bottom: top + height }
            };
            let others = || placed.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, place)| place);
            let cost = |place: &Box2| {
                let covered: f64 = marks.iter().chain(others()).map(|other| place.overlap(other)).sum();
                let leader = place.leader_to((x, y));
                let strangers = || marks.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, mark)| mark);
                let crossed = others().chain(strangers()).filter(|other| other.crossed_by((x, y), leader)).count();
                let outside = if place.within(&frame) { 0.0 } else { 1e6 };
                let far = |(x, y): (f64, f64)| place.distance((x, y));
                // A label nearer to another point is taken for that point's; of points in one spot none can be told.
                let apart = |other: (f64, f64)| (other.0 - x).hypot(other.1 - y) > 12.0;
                let mistaken = points.iter().filter(|&&other| apart(other) && far(other) < far((x, y)) + 4.0).count();
                outside + covered * 10.0 + crossed as f64 * 60.0 + mistaken as f64 * 150.0 + far((x, y))
            };
            let best = candidates().map(boxed).map(|place| (cost(&place), place));
            placed[i] = best.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(nowhere, |(_, place)| place);
        }
    }
    placed
}

/// Offsets of a label's near edge from its point, all around it.
fn candidates() -> impl Iterator<Item = (f64, f64)> {
    (0..16).flat_map(|step| {
        let far = 10.0 + 8.0 * f64::from(step);
        (0..24)
            .map(move |turn| (f64::from(turn) * std::f64::consts::TAU / 24.0).sin_cos())
            .map(move |(sin, cos)| (cos * far + 0.01, sin * far))
    })
}

fn around(x: f64, y: f64, reach: f64) -> Box2 {
    Box2 { left: x - reach, top: y - reach, right: x + reach, bottom: y + reach }
}

/// Heights at least `apart` from each other and in `top..bottom`, as near as may be to the heights wanted.
pub fn spread(wanted: &[f64], apart: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut heights: Vec<f64> = order.iter().map(|&i| wanted[i]).collect();
    // Down from the top, then back up from the bottom, half the excess each: settles within a few rounds.
    for _ in 0..200 {
        for i in 1..heights.len() {
            let missing = apart - (heights[i] - heights[i - 1]);
            if missing > 0.0 {
                heights[i - 1] -= missing / 2.0;
                heights[i] += missing / 2.0;
            }
        }
        for (i, height) in heights.iter_mut().enumerate() {
            let below = (order.len() - 1 - i) as f64 * apart;
            *height = height.max(top + i as f64 * apart).min(bottom - below);
        }
    }
    let mut placed = vec![0.0; wanted.len()];
    for (&i, &height) in order.iter().zip(&heights) {
        placed[i] = height;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_labels_keep_their_distance_and_their_order() {
        let heights = spread(&[50.0, 50.0, 51.0, 90.0], 10.0, 0.0, 100.0);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] > 9.9), "{heights:?}");
        assert!(heights[0] >= 0.0 && heights[3] <= 100.0);
    }

    #[test]
    fn labels_of_near_points_do_not_cover_each_other() {
        let frame = Box2 { left: 0.0, top: 0.0, right: 500.0, bottom: 500.0 };
        let points: Vec<_> = (0..6).map(|i| (250.0 + f64::from(i) * 4.0, 250.0)).collect();
        let texts = vec!["a filter".to_owned(); 6];
        let places = place(&points, &texts, 12.0, frame);
        for (i, a) in places.iter().enumerate() {
            for b in &places[..i] {
                assert_eq!(a.overlap(b), 0.0, "{places:?}");
            }
        }
    }
}
