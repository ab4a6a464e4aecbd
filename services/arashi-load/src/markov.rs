//! What a user does next: the transition probabilities of [Welsh02 fig. 46].

/// What a user can do, in the order of the paper's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Log in; from a page, after logging out.
    LogIn,
    /// List the folders.
    ListFolders,
    /// List the messages of a folder.
    ListMessages,
    /// Show a message.
    ShowMessage,
    /// Delete a message.
    Delete,
    /// Move a message to another folder.
    Refile,
    /// Search for messages.
    Search,
}

/// Pages on which users choose. After login the folders always follow, and then a list; after
/// deleting and refiling, the page on which the user did so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Choosing {
    /// A list of messages.
    List,
    /// A message.
    Message,
    /// What a search has found.
    Found,
}

impl Choosing {
    /// What may follow, with its probability [Welsh02 fig. 46].
    pub(crate) fn row(self) -> &'static [(Action, f64)] {
        const LIST: &[(Action, f64)] = &[
            (Action::LogIn, 0.27),
            (Action::ShowMessage, 0.68),
            (Action::Delete, 0.02),
            (Action::Refile, 0.02),
            (Action::Search, 0.01),
        ];
        const MESSAGE: &[(Action, f64)] = &[
            (Action::LogIn, 0.03),
            (Action::ListMessages, 0.58),
            (Action::Delete, 0.18),
            (Action::Refile, 0.20),
            (Action::Search, 0.01),
        ];
        match self {
            Self::List | Self::Found => LIST,
            Self::Message => MESSAGE,
        }
    }

    /// What follows for a `draw` from `0.0..1.0`, among what is possible, in proportion to the
    /// probabilities: an empty list has no message to show. One thing at least must be possible.
    pub(crate) fn next(self, draw: f64, is_possible: impl Fn(Action) -> bool) -> Action {
        let possible = || self.row().iter().filter(|(action, _)| is_possible(*action));
        let sum: f64 = possible().map(|(_, probability)| probability).sum();
        let mut left = draw * sum;
        let mut last = None;
        for (action, probability) in possible() {
            last = Some(*action);
            left -= probability;
            if left < 0.0 {
                break;
            }
        }
        last.expect("every page allows to log out")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_sum_to_one() {
        for page in [Choosing::List, Choosing::Message, Choosing::Found] {
            let sum: f64 = page.row().iter().map(|(_, probability)| probability).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{page:?}: {sum}");
        }
    }

    #[test]
    fn draws_follow_the_row_from_left_to_right() {
        let next = |page: Choosing, draw| page.next(draw, |_| true);
        assert_eq!(next(Choosing::List, 0.0), Action::LogIn);
        assert_eq!(next(Choosing::List, 0.26), Action::LogIn);
        assert_eq!(next(Choosing::List, 0.28), Action::ShowMessage);
        assert_eq!(next(Choosing::Found, 0.96), Action::Delete);
        assert_eq!(next(Choosing::Found, 0.98), Action::Refile);
        assert_eq!(next(Choosing::Message, 0.04), Action::ListMessages);
        assert_eq!(next(Choosing::Message, 0.999_999_999), Action::Search);
    }

    #[test]
    fn what_is_not_possible_leaves_its_share_to_the_rest() {
        let empty = |draw| {
            Choosing::List.next(draw, |action| matches!(action, Action::LogIn | Action::Search))
        };
        // 0.27 of 0.28 for the login.
        assert_eq!(empty(0.96), Action::LogIn);
        assert_eq!(empty(0.97), Action::Search);
    }
}
