//! The downhill simplex [Nelder65 p. 308], used to maximise.

use super::space::Point;

/// How far the first corners are from the one that is given.
const EDGE: f64 = 0.12;

/// A simplex smaller than this has arrived.
const EDGE_MIN: f64 = 1e-3;

/// Climbs from `start`, which is worth `value`, until `evaluate` says no more or the
/// simplex is very small.
pub(super) fn climb(
    start: &Point,
    value: f64,
    evaluate: &mut dyn FnMut(&Point) -> Option<f64>,
) -> Option<()> {
    let dimensions = start.len() as f64;
    // Coefficients by the number of dimensions [Gao12 eq. 4.1].
    let expansion = 1.0 + 2.0 / dimensions.max(2.0);
    let contraction = 0.75 - 1.0 / (2.0 * dimensions.max(2.0));
    let shrinkage = 1.0 - 1.0 / dimensions.max(2.0);

    let mut corners = vec![(start.clone(), value)];
    for axis in 0..start.len() {
        let mut corner = start.clone();
        // Away from the nearer bound.
        corner[axis] += if corner[axis] > 0.5 { -EDGE } else { EDGE };
        let value = evaluate(&corner)?;
        corners.push((corner, value));
    }
    loop {
        corners.sort_by(|one, other| other.1.total_cmp(&one.1));
        if size(&corners) < EDGE_MIN {
            return Some(());
        }
        let (worst, others) = corners.split_last_mut().expect("there are two at least");
        let centre = centre(others);
        let second_worst = others[others.len() - 1].1;
        let best = others[0].1;
        let towards = |times: f64| along(&centre, &worst.0, times);
        let reflected = towards(-1.0);
        let value = evaluate(&reflected)?;
        if value > best {
            let expanded = towards(-expansion);
            let further = evaluate(&expanded)?;
            *worst = if further > value { (expanded, further) } else { (reflected, value) };
        } else if value > second_worst {
            *worst = (reflected, value);
        } else {
            let inside = value <= worst.1;
            let contracted = towards(if inside { contraction } else { -contraction });
            let nearer = evaluate(&contracted)?;
            if nearer > value.max(worst.1) {
                *worst = (contracted, nearer);
            } else {
                let best = corners[0].0.clone();
                for (corner, value) in &mut corners[1..] {
                    *corner = along(&best, corner, shrinkage);
                    *value = evaluate(corner)?;
                }
            }
        }
    }
}

/// From `centre` so many times the way to `corner`, within the bounds.
fn along(centre: &Point, corner: &Point, times: f64) -> Point {
    let ways = centre.iter().zip(corner);
    ways.map(|(centre, corner)| (centre + times * (corner - centre)).clamp(0.0, 1.0)).collect()
}

fn centre(corners: &[(Point, f64)]) -> Point {
    let count = corners.len() as f64;
    let mean = |axis| corners.iter().map(|(corner, _)| corner[axis]).sum::<f64>() / count;
    (0..corners[0].0.len()).map(mean).collect()
}

/// The longest way from the first corner to another, along one axis.
fn size(corners: &[(Point, f64)]) -> f64 {
    let (first, others) = corners.split_first().expect("there are two at least");
    let ways = others.iter().flat_map(|(corner, _)| corner.iter().zip(&first.0));
    ways.map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
}
