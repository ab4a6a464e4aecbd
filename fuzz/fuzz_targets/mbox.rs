#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tamarisk_arashi::fuzz::mbox::check(input));
