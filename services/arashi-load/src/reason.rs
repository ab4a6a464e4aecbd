//! Why an answer is of no use to a user, in the words of the report.

pub(crate) const WRONG_PASSWORD: &str = "wrong name or password";
pub(crate) const NOT_ARASHI: &str =
    "not a page of Arashi: the body has no data-page (is the URL that of `tamarisk mail`?)";
pub(crate) const ANOTHER_PAGE: &str = "another page came than was asked for";
pub(crate) const NO_SESSION: &str = "the session has ended: sent to the login";
pub(crate) const UNEXPECTED_REDIRECT: &str = "a redirect where a page was expected";
pub(crate) const NO_REDIRECT: &str = "no redirect after a form was sent";
pub(crate) const INVALID_LINK: &str = "a link or form leads to no valid path";
pub(crate) const NO_LOG_IN: &str = "no form `log-in` in the login page";
pub(crate) const NO_LOG_OUT: &str = "no form or link `log-out` in the page";
pub(crate) const NO_FOLDER: &str = "no link `folder` in the page";
pub(crate) const NO_MESSAGE: &str = "no link `message` in a list that has messages";
pub(crate) const NO_MESSAGE_TO_TICK: &str = "no box `message` in a list that has messages";
pub(crate) const NO_DELETE: &str = "no form `delete` in the page";
pub(crate) const NO_REFILE: &str = "no form `refile` with a folder in the page";
pub(crate) const NO_SEARCH: &str = "no form `search` in the page";
