//! Small dense matrices: the linear algebra of the queueing model.
//!
//! The largest has a few hundred rows, and what makes the answers accurate is not
//! in any library: [`visits`] never subtracts.

use std::ops::{Index, IndexMut};

/// A matrix of `f64`, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    cells: Vec<f64>,
}

impl Matrix {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Self {
        Self { rows, columns, cells: vec![0.0; rows * columns] }
    }

    pub(crate) fn identity(size: usize) -> Self {
        let mut identity = Self::zeros(size, size);
        identity.add_identity(1.0);
        identity
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.columns..(row + 1) * self.columns]
    }

    fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.cells[row * self.columns..(row + 1) * self.columns]
    }

    /// Adds `factor` to each cell of the diagonal.
    pub(crate) fn add_identity(&mut self, factor: f64) {
        for i in 0..self.rows {
            self[(i, i)] += factor;
        }
    }

    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        self.cells.iter_mut().for_each(|cell| *cell *= factor);
        self
    }

    pub(crate) fn plus(mut self, other: &Self) -> Self {
        assert_eq!((self.rows, self.columns), (other.rows, other.columns), "sizes to be added");
        self.cells.iter_mut().zip(&other.cells).for_each(|(cell, more)| *cell += more);
        self
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        assert_eq!(self.columns, other.rows, "sizes to be multiplied");
        let mut product = Self::zeros(self.rows, other.columns);
        for i in 0..self.rows {
            for k in 0..self.columns {
                let factor = self[(i, k)];
                if factor != 0.0 {
                    let target = product.row_mut(i);
                    target.iter_mut().zip(other.row(k)).for_each(|(cell, b)| *cell += factor * b);
                }
            }
        }
        product
    }

    /// The row vector `vector` times this matrix.
    pub(crate) fn after(&self, vector: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; self.columns];
        for (factor, row) in vector.iter().zip(self.cells.chunks_exact(self.columns)) {
            product.iter_mut().zip(row).for_each(|(cell, b)| *cell += factor * b);
        }
        product
    }

    /// X with `self · X = right`, by Gaussian elimination with row pivoting.
    /// A singular matrix gives cells that are not finite.
    pub(crate) fn solve(mut self, mut right: Self) -> Self {
        assert_eq!(self.rows, self.columns, "a square system");
        assert_eq!(self.rows, right.rows, "sizes of a system");
        let size = self.rows;
        for k in 0..size {
            let larger = |&a: &usize, &b: &usize| self[(a, k)].abs().total_cmp(&self[(b, k)].abs());
            let pivot = (k..size).max_by(larger).unwrap_or(k);
            self.swap_rows(k, pivot);
            right.swap_rows(k, pivot);
            let pivot_row = self.row(k).to_vec();
            let pivot_right = right.row(k).to_vec();
            for i in k + 1..size {
                let factor = self[(i, k)] / pivot_row[k];
                if factor != 0.0 {
                    let cells = self.row_mut(i).iter_mut().zip(&pivot_row).skip(k);
                    cells.for_each(|(cell, p)| *cell -= factor * p);
                    let cells = right.row_mut(i).iter_mut().zip(&pivot_right);
                    cells.for_each(|(cell, p)| *cell -= factor * p);
                }
            }
        }
        for k in (0..size).rev() {
            let pivot = self[(k, k)];
            right.row_mut(k).iter_mut().for_each(|cell| *cell /= pivot);
            let solved = right.row(k).to_vec();
            for i in 0..k {
                let factor = self[(i, k)];
                if factor != 0.0 {
                    let cells = right.row_mut(i).iter_mut().zip(&solved);
                    cells.for_each(|(cell, x)| *cell -= factor * x);
                }
            }
        }
        right
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        if a != b {
            for column in 0..self.columns {
                self.cells.swap(a * self.columns + column, b * self.columns + column);
            }
        }
    }
}

impl Index<(usize, usize)> for Matrix {
    type Output = f64;

    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.cells[row * self.columns + column]
    }
}

impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut f64 {
        &mut self.cells[row * self.columns + column]
    }
}

/// How often each state is visited: v with `v = entry + v · routes`, where
/// `exits` says what leaves for good after each state. These are the traffic
/// equations [Welsh02 eq. 4.16].
///
/// States are taken out one after the other and their flow is passed on to those
/// that are left [Grassmann85 pp. 1107–1116]. Nothing is subtracted, so every digit holds,
/// also where an exit is one in a billion. Every state must have a way out.
pub(crate) fn visits(entry: &[f64], routes: &Matrix, exits: &[f64]) -> Vec<f64> {
    let size = entry.len();
    let mut routes = routes.clone();
    let mut exits = exits.to_vec();
    let mut visits = entry.to_vec();
    let mut leaving = vec![0.0; size];
    for k in (0..size).rev() {
        // What does not return to k at once: 1 − P_kk, as a sum.
        leaving[k] = exits[k] + routes.row(k)[..k].iter().sum::<f64>();
        for i in 0..k {
            let detour = routes[(i, k)] / leaving[k];
            exits[i] += detour * exits[k];
            for j in 0..k {
                routes[(i, j)] += detour * routes[(k, j)];
            }
        }
        for j in 0..k {
            visits[j] += visits[k] / leaving[k] * routes[(k, j)];
        }
    }
    for k in 0..size {
        let arriving: f64 = (0..k).map(|j| visits[j] * routes[(j, k)]).sum();
        visits[k] = (visits[k] + arriving) / leaving[k];
    }
    visits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: &[&[f64]]) -> Matrix {
        Matrix { rows: rows.len(), columns: rows[0].len(), cells: rows.concat() }
    }

    #[test]
    fn a_system_is_solved_also_where_the_first_pivot_is_zero() {
        let system = matrix(&[&[0.0, 2.0], &[4.0, 1.0]]);
        let solution = system.clone().solve(matrix(&[&[6.0], &[11.0]]));
        assert_eq!(solution, matrix(&[&[2.0], &[3.0]]));
        assert_eq!(system.times(&solution), matrix(&[&[6.0], &[11.0]]));
    }

    #[test]
    fn a_loop_that_is_hardly_left_keeps_every_digit() {
        // Two states that pass on to each other; one visit in 10¹² of the first leaves.
        let exit = 1e-12;
        let routes = matrix(&[&[0.0, 1.0 - exit], &[1.0, 0.0]]);
        let visits = visits(&[1.0, 0.0], &routes, &[exit, 0.0]);
        assert!((visits[0] * exit - 1.0).abs() < 1e-15, "{}", visits[0]);
    }
}
