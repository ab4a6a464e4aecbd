//! Where boxes and arrows come to lie: layers from left to right.
//!
//! The method of Sugiyama, Tagawa and Toda (1981). Arrows that go back are turned round for the
//! layout; each box stands one layer behind the last that leads to it; an arrow over several layers
//! passes a point in each; points and boxes of a layer are ordered by where their neighbours stand,
//! so that few arrows cross.

use super::Diagram;
use crate::text;

pub(super) const TITLE_SIZE: f64 = 13.0;
pub(super) const LINE_SIZE: f64 = 11.0;
pub(super) const LABEL_SIZE: f64 = 10.5;
pub(super) const TITLE_HEIGHT: f64 = 20.0;
pub(super) const LINE_HEIGHT: f64 = 15.0;
const PADDING: f64 = 12.0;
/// Between the boxes of a layer.
const BETWEEN: f64 = 34.0;
/// An arrow that only passes through a layer takes this much of it.
const PASSING_HEIGHT: f64 = 30.0;
/// Between two layers, beside the labels of the arrows there.
const LAYER_GAP: f64 = 56.0;
/// Sweeps over the layers for their order, and again for the heights: few change anything more.
const SWEEPS: usize = 8;

/// A box in its place, by its left upper corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// All places.
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) boxes: Vec<Placed>,
    /// For each arrow between boxes that exist, the points that it passes from its first box to its
    /// last; none for one that leads back to its own box.
    pub(super) ways: Vec<Vec<(f64, f64)>>,
}

/// A box, or the passage of an arrow through a layer.
struct Item {
    layer: usize,
    /// Items of the layers beside that it is connected with: before, behind.
    before: Vec<usize>,
    behind: Vec<usize>,
    height: f64,
    /// Its middle.
    y: f64,
}

pub(super) fn lay_out(diagram: &Diagram) -> Layout {
    let sizes: Vec<_> = diagram.boxes.iter().map(size).collect();
    let forward = forward(diagram);
    let layers = layers(diagram.boxes.len(), &forward);

    let mut items: Vec<Item> =
        sizes.iter().zip(&layers).map(|(&(_, height), &layer)| Item::new(layer, height)).collect();
    let ways: Vec<Vec<usize>> = forward.iter().map(|&arrow| way(&mut items, arrow)).collect();

    let count = layers.iter().max().map_or(0, |last| last + 1);
    let mut order = vec![Vec::new(); count];
    for (index, item) in items.iter().enumerate() {
        order[item.layer].push(index);
    }
    sort(&mut items, &mut order);
    set_heights(&mut items, &order);

    let (lefts, width) = columns(diagram, &sizes, &layers, count);
    let column_width = |layer: usize| widest(&sizes, &layers, layer);
    let boxes: Vec<_> = sizes
        .iter()
        .zip(&layers)
        .zip(&items)
        .map(|((&(width, height), &layer), item)| Placed {
            x: lefts[layer] + (column_width(layer) - width) / 2.0,
            y: item.y - height / 2.0,
            width,
            height,
        })
        .collect();
    let middle = |index: usize| {
        let layer = items[index].layer;
        (lefts[layer] + column_width(layer) / 2.0, items[index].y)
    };
    let turned = diagram.arrows().zip(&forward).map(|(arrow, &(from, _))| arrow.from != from);
    let ways = ways.into_iter().zip(turned).map(|(mut way, is_turned)| {
        if is_turned {
            way.reverse();
        }
        way.into_iter().map(middle).collect()
    });
    let bottom = boxes.iter().map(|placed| placed.y + placed.height).fold(0.0, f64::max);
    let passing = items[sizes.len()..].iter().map(|item| item.y + item.height / 2.0);
    Layout { width, height: passing.fold(bottom, f64::max), ways: ways.collect(), boxes }
}

/// Width and height of a box.
fn size(part: &super::DiagramBox) -> (f64, f64) {
    let title = text::bold_width(&part.title, TITLE_SIZE);
    let lines = part.lines.iter().map(|line| text::width(line, LINE_SIZE));
    let width = lines.fold(title, f64::max) + 2.0 * PADDING;
    let height = TITLE_HEIGHT + part.lines.len() as f64 * LINE_HEIGHT + PADDING;
    (width.max(90.0), height)
}

/// The arrows, those turned round that would close a cycle. An arrow back to its own box stays.
fn forward(diagram: &Diagram) -> Vec<(usize, usize)> {
    let mut forward: Vec<(usize, usize)> = Vec::new();
    for arrow in diagram.arrows() {
        let (from, to) = (arrow.from, arrow.to);
        let turned = from != to && leads(&forward, to, from);
        forward.push(if turned { (to, from) } else { (from, to) });
    }
    forward
}

fn leads(arrows: &[(usize, usize)], from: usize, to: usize) -> bool {
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(&place) = reached.get(next) {
        if place == to {
            return true;
        }
        for &(_, onward) in arrows.iter().filter(|arrow| arrow.0 == place) {
            if !reached.contains(&onward) {
                reached.push(onward);
            }
        }
        next += 1;
    }
    false
}

/// The layer of each box: the longest way to it. As many rounds as boxes settle it, for there is no
/// cycle.
fn layers(count: usize, arrows: &[(usize, usize)]) -> Vec<usize> {
    let mut layers = vec![0; count];
    for _ in 0..count {
        for &(from, to) in arrows.iter().filter(|(from, to)| from != to) {
            layers[to] = layers[to].max(layers[from] + 1);
        }
    }
    layers
}

/// The items that an arrow passes; those between its ends are made.
fn way(items: &mut Vec<Item>, (from, to): (usize, usize)) -> Vec<usize> {
    if from == to {
        return Vec::new();
    }
    let mut way = vec![from];
    for layer in items[from].layer + 1..items[to].layer {
        items.push(Item::new(layer, PASSING_HEIGHT));
        way.push(items.len() - 1);
    }
    way.push(to);
    for pair in way.windows(2) {
        items[pair[0]].behind.push(pair[1]);
        items[pair[1]].before.push(pair[0]);
    }
    way
}

/// Orders each layer by the mean place of what its items are connected with, to and fro.
fn sort(items: &mut [Item], order: &mut [Vec<usize>]) {
    for sweep in 0..SWEEPS {
        let forth = sweep % 2 == 0;
        let mut place = vec![0.0; items.len()];
        for layer in order.iter() {
            for (index, &item) in layer.iter().enumerate() {
                place[item] = index as f64;
            }
        }
        let count = order.len();
        for step in 0..count {
            let layer = &mut order[if forth { step } else { count - 1 - step }];
            let mut keyed: Vec<_> = layer
                .iter()
                .map(|&item| {
                    let beside = if forth { &items[item].before } else { &items[item].behind };
                    (mean(beside, |other| place[other]).unwrap_or(place[item]), item)
                })
                .collect();
            keyed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            *layer = keyed.into_iter().map(|(_, item)| item).collect();
            for (index, &item) in layer.iter().enumerate() {
                place[item] = index as f64;
            }
        }
    }
}

/// Sets the middles: one below the other first, then as near to the neighbours as the order lets.
fn set_heights(items: &mut [Item], order: &[Vec<usize>]) {
    for layer in order {
        let mut top = 0.0;
        for &item in layer {
            items[item].y = top + items[item].height / 2.0;
            top += items[item].height + BETWEEN;
        }
    }
    for sweep in 0..SWEEPS {
        let forth = sweep % 2 == 0;
        for step in 0..order.len() {
            let layer = &order[if forth { step } else { order.len() - 1 - step }];
            let wanted: Vec<f64> = layer
                .iter()
                .map(|&item| {
                    let Item { before, behind, y, .. } = &items[item];
                    let beside = if forth { before } else { behind };
                    mean(beside, |other| items[other].y).unwrap_or(*y)
                })
                .collect();
            apart(items, layer, &wanted);
        }
    }
    let top = items.iter().map(|item| item.y - item.height / 2.0).fold(f64::MAX, f64::min);
    items.iter_mut().for_each(|item| item.y -= top);
}

/// Gives a layer the middles that are wanted, moved apart as far as they must be, and as a whole so
/// that on average nothing moves.
fn apart(items: &mut [Item], layer: &[usize], wanted: &[f64]) {
    let mut set: Vec<f64> = Vec::new();
    for (index, (&item, &wanted)) in layer.iter().zip(wanted).enumerate() {
        let least = index.checked_sub(1).map(|above| {
            let distance = (items[layer[above]].height + items[item].height) / 2.0 + BETWEEN;
            set[above] + distance
        });
        set.push(least.map_or(wanted, |least| wanted.max(least)));
    }
    let moved: f64 = set.iter().zip(wanted).map(|(set, wanted)| set - wanted).sum();
    let shift = moved / layer.len().max(1) as f64;
    for (&item, y) in layer.iter().zip(set) {
        items[item].y = y - shift;
    }
}

/// The left ends of the layers, and where the last ends.
fn columns(
    diagram: &Diagram,
    sizes: &[(f64, f64)],
    layers: &[usize],
    count: usize,
) -> (Vec<f64>, f64) {
    let mut lefts = Vec::new();
    let mut right = 0.0;
    for layer in 0..count {
        lefts.push(right);
        let leaving = diagram.arrows().filter(|arrow| {
            let (from, to) = (layers[arrow.from], layers[arrow.to]);
            from.min(to) == layer || from == layer
        });
        let labels = leaving.flat_map(|arrow| &arrow.lines);
        let label = labels.map(|line| text::width(line, LABEL_SIZE)).fold(0.0, f64::max);
        let gap = if layer + 1 == count { 0.0 } else { LAYER_GAP + label };
        right += widest(sizes, layers, layer) + gap;
    }
    (lefts, right)
}

fn widest(sizes: &[(f64, f64)], layers: &[usize], layer: usize) -> f64 {
    let of_layer = sizes.iter().zip(layers).filter(|(_, other)| **other == layer);
    of_layer.map(|((width, _), _)| *width).fold(0.0, f64::max)
}

fn mean(items: &[usize], of: impl Fn(usize) -> f64) -> Option<f64> {
    let sum: f64 = items.iter().map(|&item| of(item)).sum();
    (!items.is_empty()).then(|| sum / items.len() as f64)
}

impl Item {
    fn new(layer: usize, height: f64) -> Self {
        Self { layer, before: Vec::new(), behind: Vec::new(), height, y: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrow, Border, DiagramBox};
    use super::*;
    use crate::Colour;

    pub(super) fn diagram(boxes: usize, arrows: &[(usize, usize)]) -> Diagram {
        let part = |index: usize| DiagramBox {
            title: format!("stage {index}"),
            lines: vec!["one line".into()],
            colour: Colour::Blue,
            border: Border::Box,
        };
        let arrow = |&(from, to): &(usize, usize)| Arrow { from, to, lines: vec![], weight: 0.5 };
        Diagram {
            boxes: (0..boxes).map(part).collect(),
            arrows: arrows.iter().map(arrow).collect(),
            ..Diagram::default()
        }
    }

    fn check_apart(layout: &Layout) {
        for (index, a) in layout.boxes.iter().enumerate() {
            assert!(a.x >= -1e-9 && a.x + a.width <= layout.width + 1e-9, "{a:?}");
            assert!(a.y >= -1e-9 && a.y + a.height <= layout.height + 1e-9, "{a:?}");
            for b in &layout.boxes[..index] {
                let beside = a.x + a.width <= b.x || b.x + b.width <= a.x;
                let below = a.y + a.height <= b.y || b.y + b.height <= a.y;
                assert!(beside || below, "{a:?} covers {b:?}");
            }
        }
    }

    #[test]
    fn arrows_lead_to_the_right() {
        let arrows = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)];
        let layout = lay_out(&diagram(4, &arrows));
        check_apart(&layout);
        for (from, to) in arrows {
            assert!(layout.boxes[from].x + layout.boxes[from].width < layout.boxes[to].x);
        }
        // The long one passes the layer between, above or below the boxes there.
        assert_eq!(layout.ways.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 2, 3]);
    }

    #[test]
    fn a_cycle_has_one_arrow_that_leads_back() {
        let arrows = [(0, 1), (1, 2), (2, 0), (1, 1)];
        let layout = lay_out(&diagram(3, &arrows));
        check_apart(&layout);
        let lefts: Vec<_> = layout.boxes.iter().map(|placed| placed.x).collect();
        assert!(lefts[0] < lefts[1] && lefts[1] < lefts[2], "{lefts:?}");
        let back = &layout.ways[2];
        assert!(back[0].0 > back[back.len() - 1].0, "it starts at the last box: {back:?}");
        assert!(layout.ways[3].is_empty());
    }

    #[test]
    fn branches_do_not_cross_where_they_need_not() {
        // Declared so that the order of declaration would cross them.
        let layout = lay_out(&diagram(5, &[(0, 1), (0, 2), (1, 4), (2, 3)]));
        let above = |a: usize, b: usize| layout.boxes[a].y < layout.boxes[b].y;
        assert_eq!(above(1, 2), above(4, 3));
        check_apart(&layout);
    }

    #[test]
    fn many_boxes_stand_apart() {
        let mut arrows = Vec::new();
        for index in 1..40_usize {
            arrows.push((index * 7 % index.max(1), index));
            arrows.push((index, index * 13 % 40));
        }
        check_apart(&lay_out(&diagram(40, &arrows)));
        assert_eq!(lay_out(&Diagram::default()).boxes, []);
    }
}
