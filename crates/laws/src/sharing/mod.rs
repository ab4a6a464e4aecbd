//! Fair sharing of an overloaded stage: classes by their weights, clients equally. Parts of more
//! than one law.

pub(crate) mod bursts;
pub(crate) mod class_shares;
pub(crate) mod clients;
pub(crate) mod fair_share;
pub(crate) mod gate;
pub(crate) mod kept_room;
