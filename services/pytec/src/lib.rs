//! PyTeC: pages that are Python embedded in HTML [Welsh02 §6.3.2]. Each page is compiled into a
//! stage of its own.
